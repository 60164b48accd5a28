"""Flags of `vbs calibrate --auto`, and its two steps: choose settings, then fit with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from vbs_cli.cli.shell import Shell
from vbs_cli.cli.tables import show_chosen

Auto = Annotated[bool, typer.Option("--auto", help="Choose kernel, alpha and beta by validation data.")]
AutoNoise = Annotated[
    str | None,
    typer.Option(help="Noise to choose under, besides clean data (default: the run's first).", show_default=False),
]


def calibrate_by_data(shell: Shell, noise: str | None, options: dict[str, dict[str, Any]] | None) -> None:
    """Choose kernel, alpha and beta by validation data, save them in the run, and fit its methods with them."""
    from vbs_cli.artifacts.plan import planned
    from vbs_cli.run import layout
    from vbs_cli.stages import auto
    from vbs_cli.stages import calibrate as stage
    from vbs_cli.stages.diagnose import with_method
    from vbs_cli.stages.sweep import chosen_noises

    with shell.job(options=options) as job:
        job, name = with_method(job), chosen_noises(job, [noise] if noise else None)[0]
        if shell.dry_run:
            wanted = [p for some in auto.passes(job, name).values() for p in some]
            return shell.plan(planned(job, listed=wanted), [*(p.name for p in wanted), layout.METHODS])
        chosen = auto.choose(job, name)
    with replace(shell, force=False).job(**chosen.settings) as job:
        fitted = stage.rows(stage.calibrate(job))
    show_chosen(shell, chosen, fitted)
