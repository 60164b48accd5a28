"""Registries of things chosen by name: datasets, noises, models, networks, views, methods, metrics, figures."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from vbs_cli.errors import UnknownName, VbsError

T = TypeVar("T")
MOST = 30  # names that an error lists


class Registry(Generic[T]):
    """A mapping from names to things of one kind; a wrong name is answered with the nearest right one.

    Each thing has a revision, which is raised by hand whenever its results change. Artifacts record the revisions of
    the code that made them, so a change makes them stale.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}
        self._revisions: dict[str, int] = {}

    def register(self, name: str, *, revision: int = 1) -> Callable[[T], T]:
        """Decorator: enter the decorated thing under `name`."""

        def enter(thing: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = thing
            self._revisions[name] = revision
            return thing

        return enter

    def revisions(self, names: Iterable[str]) -> dict[str, int]:
        """Revisions of some things as a recipe records them: {"metric brier": 1}."""
        return {f"{self.kind} {name}": self._revisions[name] for name in names if self[name] is not None}

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterable[tuple[str, T]]:
        return self._entries.items()


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that does not exist, with a suggestion."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known[:MOST])}{more}"
    return UnknownName(f"unknown {kind} {name!r}", hint=hint)


def join_names(names: Sequence[str]) -> str:
    """Join names as in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def load_submodules(package: str, path: Iterable[str], *groups: str) -> None:
    """Import every module of `package`, so that a new file registers what it holds by being there.

    Then import the modules that installed packages name under these groups of entry points, so that another
    package can register things without a change here.
    """
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
    for plugin in (each for group in groups for each in importlib.metadata.entry_points(group=group)):
        try:
            plugin.load()
        except Exception as error:
            owner = plugin.dist.name if plugin.dist is not None else plugin.value
            why = f"{owner} registers {plugin.value} for {plugin.group}, which fails: {type(error).__name__}: {error}"
            raise VbsError(why, hint=f"mend it, or pip uninstall {owner}") from error
