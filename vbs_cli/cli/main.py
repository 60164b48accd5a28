"""The app, and the one place where errors become exit codes."""

from __future__ import annotations

import shlex
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated

import typer

from vbs_cli import __version__
from vbs_cli.cli import outputs as outputs  # registers its commands
from vbs_cli.cli.commands import app
from vbs_cli.console import Console
from vbs_cli.errors import InvalidInput, VbsError, translated
from vbs_cli.executors import is_child
from vbs_cli.executors.relay import end_with_parent

INTERRUPTED = 130


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vbs {__version__}")
        raise typer.Exit


@app.callback()
def vbs(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Classifier confidences that mean something, from one forward pass.

    `vbs run` runs all stages; other commands run one of them or show results. Each stage hands its artifacts to the
    next through a run directory, and makes only what is not up to date.
    """


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong use, 130 Ctrl-C, 143 SIGTERM."""
    signal.signal(signal.SIGTERM, on_sigterm)
    if is_child():
        end_with_parent()
    try:
        code = app(standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        code = failed(as_vbs_error(error))
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code by itself
        again = shlex.join(["vbs", *sys.argv[1:]])
        Console().err.print(f"interrupted; this goes on where it stopped: {again}", markup=False)
    sys.exit(code)


def failed(error: VbsError) -> int:
    if "--debug" in sys.argv:
        traceback.print_exc()
    Console().error(error)
    return error.exit_code


def as_vbs_error(error: Exception) -> VbsError:
    """Convert any exception, also one of the parser, to an error of vbs."""
    usage = getattr(error, "format_message", None)  # the parser's own; typer does not export their base class
    if usage is not None:
        return InvalidInput(str(usage()).rstrip("."), hint=f"see {' '.join(['vbs', *command_name()])} --help")
    return translated(error)


def command_name() -> list[str]:
    return [word for word in sys.argv[1:2] if word in {known.name for known in app.registered_commands}]


def on_sigterm(number: int, frame: FrameType | None) -> None:
    """End the program on SIGTERM like any exit: temporary files are removed, and the last checkpoint is kept."""
    raise SystemExit(128 + number)
