"""Run directories: where artifacts lie, what they were made from, and which are due. No other code knows the layout.

The store and the graph of artifacts do without torch; the rest is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vbs_cli.run.graph import Artifact, Graph
from vbs_cli.run.layout import find_run
from vbs_cli.run.store import Entry, Recipe, State, Store

if TYPE_CHECKING:
    from vbs_cli.run.directory import Run, locked, open_run, part_of

__all__ = [
    "Artifact",
    "Entry",
    "Graph",
    "Recipe",
    "Run",
    "State",
    "Store",
    "find_run",
    "locked",
    "open_run",
    "part_of",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vbs_cli.run import directory

    return getattr(directory, name)
