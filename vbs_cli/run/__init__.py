"""Stage 6: the only code that knows a run directory."""

from vbs_cli.run.directory import Run, find_run, locked, open_run, part_of
from vbs_cli.run.store import Recipe, State, Store

__all__ = ["Recipe", "Run", "State", "Store", "find_run", "locked", "open_run", "part_of"]
