"""The only code that knows a run directory: where things lie, what they were made from, and what is due."""

from vbs_cli.run.directory import Run, find_run, locked, open_run, part_of
from vbs_cli.run.graph import Artifact, Graph
from vbs_cli.run.store import Entry, Recipe, State, Store

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
