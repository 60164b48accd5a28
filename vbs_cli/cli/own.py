"""Runs of the user's own logits, and of networks that were trained elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbs_cli.cli.shell import Shell
from vbs_cli.errors import InvalidInput

if TYPE_CHECKING:
    from vbs_cli.artifacts.job import Job


@contextmanager
def given_job(shell: Shell, val: Path | None, test: Path | None, conditions: Sequence[str]) -> Iterator[Job]:
    """Job on a run of the user's own logits, which are written into it; conditions are as in `--condition`."""
    from vbs_cli.stages import given as stage

    if val is None and test is None:
        hint = "vbs evaluate --val FILE --test FILE --condition NAME=FILE"
        raise InvalidInput("--condition goes with --val and --test", hint=hint)
    if val is None or test is None:
        raise InvalidInput("--val and --test go together", hint="methods are fitted on one and scored on the other")
    given = stage.read(val, test, conditions)
    chosen = {} if shell.flags.get("methods") else {"methods": given.methods}
    with shell.job(create=True, data=given.described(), dataset="arrays", seeds=given.members, **chosen) as job:
        if not shell.dry_run:
            stage.adopt(job, given)
        yield job


def with_foreign(
    shell: Shell, model: str | None, weights: Path | None, options: dict[str, dict[str, Any]] | None
) -> Shell:
    """Make a run of a network that was trained elsewhere, and return the shell with that run chosen."""
    from vbs_cli.stages import foreign

    if weights is None:
        raise InvalidInput(
            f"--model {model} is for a network that was trained elsewhere", hint="give its --weights too"
        )
    more = foreign.settings_of(model, weights)
    dataset = shell.flags.get("dataset") or foreign.DATASET
    flags = {**shell.flags, "dataset": dataset, "methods": shell.flags.get("methods") or foreign.METHODS}
    usual = Path(os.environ.get("VBS_DATA", "data"))
    data_dir = foreign.data_folder(shell.data_dir, usual, dataset, shell.console.progress)
    shell = replace(shell, flags=flags, data_dir=data_dir, run_name=shell.run_name or foreign.run_name(str(model)))
    with shell.job(create=True, options=options, **more) as job:
        if shell.dry_run:
            shell.plan_all(job)
        else:
            foreign.adopt(job, weights)
    return shell
