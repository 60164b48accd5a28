"""Progress reports of a stage. The classes here are silent; those of `console` show them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Task:
    """Progress of one piece of work of a known size."""

    def advance(self, amount: float) -> None:
        """Report that `amount` more is done."""

    def note(self, text: str) -> None:
        """Report the present state in words, e.g. the loss."""


class Progress:
    """Messages and progress of a stage, ignored here."""

    def say(self, text: str) -> None:
        """Show a line to the user."""

    def detail(self, text: str) -> None:
        """Show a line if the user asked for details (-v)."""

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        """Report a piece of work for the duration of the block; `total` is in the units of `advance`."""
        yield Task()

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """Allow several tasks at once in the block, which may begin and end in any order."""
        yield

    @contextmanager
    def whole(self, label: str, total: float) -> Iterator[None]:
        """Report the progress of all tasks in the block together, in the units of those tasks."""
        yield


SILENT = Progress()
