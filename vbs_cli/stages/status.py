"""`vbs status` and --dry-run: what is there, what would be made, and why."""

from __future__ import annotations

from collections.abc import Collection

from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.plan import with_everything


def status(job: Job) -> list[dict[str, str]]:
    """One row per artifact that the settings call for or that the run has, in the order of their making."""
    states = with_everything(job).graph.states()
    return [{"artifact": name, "state": state.kind, "why": state.why} for name, state in states.items()]


def dry_run(job: Job, names: Collection[str]) -> list[dict[str, str]]:
    """One row per artifact that a command aims for, and per other one that it would have to make before."""
    states = job.graph.states()
    behind = [artifact.name for artifact in job.graph.behind(names)]
    shown = [name for name in behind if name in set(names) or not states[name].stands]
    return [{"artifact": name, "state": states[name].kind, "why": states[name].why} for name in shown]
