"""Graph of a run's artifacts: what each is made from, which function makes it, and what has to be made again.

Every command uses the same graph: `vbs run` and the stages make what is due, `vbs status` and --dry-run list it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from vbs_cli.errors import MissingArtifact
from vbs_cli.run.store import CLEANED, STALE, Recipe, State, Store

# Maker of artifacts: called with a context, the artifacts to make, and those of the same maker that are up to date.
Make = Callable[[Any, Sequence["Artifact"], Sequence["Artifact"]], None]


@dataclass(frozen=True)
class Artifact:
    """File of a run: its name, what it is made from, and the function that makes it, perhaps together with others."""

    name: str
    recipe: Recipe
    make: Make


class Graph:
    """Artifacts by name, each after those that it is made from, and their states in a store."""

    def __init__(self, store: Store, artifacts: Iterable[Artifact] = ()) -> None:
        self.store = store
        self._artifacts: dict[str, Artifact] = {}
        self.add(artifacts)

    def add(self, artifacts: Iterable[Artifact]) -> None:
        """Add artifacts; those among their inputs that belong to the graph must have been added before them."""
        for artifact in artifacts:
            self._artifacts[artifact.name] = artifact

    def on(self, store: Store) -> Graph:
        """Graph of these artifacts with their states in another store."""
        return Graph(store, self)

    def __iter__(self) -> Iterator[Artifact]:
        return iter(self._artifacts.values())

    def __contains__(self, name: str) -> bool:
        return name in self._artifacts

    def __getitem__(self, name: str) -> Artifact:
        if name not in self._artifacts:
            raise MissingArtifact(f"{self.store.folder / name} is not part of the run", hint="vbs status lists what is")
        return self._artifacts[name]

    def stage(self, *stages: str) -> list[str]:
        """Names of the artifacts that these stages make."""
        return [artifact.name for artifact in self if artifact.recipe.stage in stages]

    def behind(self, names: Collection[str]) -> list[Artifact]:
        """Artifacts of these names and all that they are made from, in order."""
        wanted = {self[name].name for name in names}
        for artifact in reversed(self._artifacts.values()):
            if artifact.name in wanted:
                wanted.update(artifact.recipe.inputs)
        return [artifact for artifact in self if artifact.name in wanted]

    def states(self) -> dict[str, State]:
        """State of every artifact; what was made from something stale is stale too."""
        states: dict[str, State] = {}
        for artifact in self:
            state = self.store.state(artifact.name, artifact.recipe)
            unfit = [name for name in artifact.recipe.inputs if name in states and not states[name].stands]
            if state.stands and unfit:
                state = State(STALE, f"{unfit[0]} is {states[unfit[0]].kind}")
            states[artifact.name] = state
        return states

    def due(
        self, artifacts: Iterable[Artifact], *, forced: Collection[str] = (), to_read: Collection[str] = ()
    ) -> list[Artifact]:
        """Those of the artifacts that have to be made: forced, not up to date, or made from another that is due.

        An artifact whose bytes were cleaned is due only if it is `to_read`. A damaged one is an error.
        """
        due: dict[str, Artifact] = {}
        for artifact in artifacts:
            state = self.store.checked_state(artifact.name, artifact.recipe)
            gone = state.kind == CLEANED and artifact.name in to_read
            if artifact.name in forced or gone or not state.stands or not due.keys().isdisjoint(artifact.recipe.inputs):
                due[artifact.name] = artifact
        return list(due.values())

    def make(
        self, context: Any, names: Collection[str], *, forced: Collection[str] = (), to_read: Collection[str] = ()
    ) -> None:
        """Make the named artifacts and all that they are made from, as far as they are due; makers get `context`.

        Consecutive artifacts with the same maker are given to it together. What is due is found anew for each of these
        groups: an artifact that was made again with the same bytes makes nothing stale.
        """
        self._make(context, self.behind(names), forced, to_read)

    def make_alone(self, context: Any, names: Collection[str], *, forced: Collection[str] = ()) -> list[str]:
        """Make the named artifacts as far as they are due, but none of their inputs; return the names of those made."""
        return self._make(context, [self[name] for name in names], forced, ())

    def _make(
        self, context: Any, artifacts: Iterable[Artifact], forced: Collection[str], to_read: Collection[str]
    ) -> list[str]:
        made: list[str] = []
        for make, group in groupby(artifacts, key=lambda artifact: artifact.make):
            neighbours = list(group)
            due = self.due(neighbours, forced=forced, to_read=to_read)
            if due:
                names = {artifact.name for artifact in due}
                make(context, due, [artifact for artifact in neighbours if artifact.name not in names])
                made += names
        return made
