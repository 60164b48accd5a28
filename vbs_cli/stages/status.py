"""`vbs status` and --dry-run: what is there, what would be made, and why."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from vbs_cli.run.graph import Graph

if TYPE_CHECKING:
    from vbs_cli.artifacts.job import Job

Rows = list[dict[str, str]]


def status(job: Job) -> Rows:
    """One row per artifact that the settings call for or that the run has, in the order in which they are made."""
    from vbs_cli.artifacts.plan import with_everything  # which imports torch

    return rows_of(with_everything(job).graph)


def rows_of(graph: Graph) -> Rows:
    """One row per artifact of a graph, with its state."""
    return [{"artifact": name, "state": state.kind, "why": state.why} for name, state in graph.states().items()]


def dry_run(job: Job, names: Collection[str]) -> Rows:
    """One row per artifact that a command is to make, and per other one that it would have to make before."""
    states = job.graph.states()
    behind = [artifact.name for artifact in job.graph.behind(names)]
    shown = [name for name in behind if name in set(names) or not states[name].stands]
    return [{"artifact": name, "state": states[name].kind, "why": states[name].why} for name in shown]
