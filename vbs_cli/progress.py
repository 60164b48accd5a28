"""How a stage tells what it is doing. This one is silent; the console's shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Task:
    """One piece of work of a known size."""

    def advance(self, amount: float) -> None:
        """Some of it is done."""

    def note(self, text: str) -> None:
        """What it looks like now, e.g. the loss."""


class Progress:
    """Words and bars."""

    def say(self, text: str) -> None:
        """A line for the user."""

    def detail(self, text: str) -> None:
        """A line for the curious (-v)."""

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        """A piece of work; `total` is in the units that `advance` counts."""
        yield Task()

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """Several tasks at once, which may begin and end in any order."""
        yield

    @contextmanager
    def whole(self, label: str, total: float) -> Iterator[None]:
        """Everything until the end, in the same units as the tasks inside."""
        yield


SILENT = Progress()
