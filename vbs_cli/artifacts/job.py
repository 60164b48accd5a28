"""What the stages share: the run and the data that they work on, and what the run's settings call for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from vbs_cli.data import Prepared
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.executors import Crew
from vbs_cli.methods import Method
from vbs_cli.networks import NETWORKS, Network
from vbs_cli.pairs import Pair, check_extras, check_options, configured, find_pair, method_of
from vbs_cli.progress import SILENT, Progress
from vbs_cli.run import Graph, Run
from vbs_cli.views import VIEWS, View

# What every record has; methods that read more have their passes leave it.
USUAL_CONTENTS = {"sigma", "mean_softmax", "part_accuracy"}


@dataclass(frozen=True)
class Job:
    """A stage's surroundings: the run, its data, and how to work."""

    run: Run
    data: Prepared
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    force: bool = False
    progress: Progress = SILENT
    crew: Crew | None = None  # who works on networks; without one, this process does
    device_name: str = "auto"  # as asked for: other machines may have others
    tensorboard: bool = False
    keep_patches: bool = False  # of noisy inputs too
    trains: bool = False  # whether networks that are missing may be trained
    planned: Graph | None = field(default=None, repr=False)  # see stages.plan

    @property
    def seeds(self) -> range:
        return range(self.run.settings.seeds)

    @property
    def given(self) -> bool:
        """Whether the run was made from logits that the user has, so that there is no network."""
        return self.run.settings.given

    @property
    def graph(self) -> Graph:
        """The artifacts of the run; `stages.plan` enters them."""
        assert self.planned is not None, "plan the job first"
        return self.planned

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """The method and view behind each name that the run compares."""
        return {name: find_pair(name) for name in self.run.settings.methods}

    @cached_property
    def methods(self) -> dict[str, Method]:
        """The methods behind each name that the run compares, with their options, not yet fitted."""
        options = self.run.settings.options
        check_options(options)
        methods = {name: method_of(pair, options.get(name, {})) for name, pair in self.pairs.items()}
        for name, pair in self.pairs.items():
            check_extras(pair, methods[name], passes=self.views[pair.view].passes)
        return methods

    @cached_property
    def views(self) -> dict[str, View]:
        """The views that the run's methods read, each after the one whose records it joins."""
        names = [name for pair in self.pairs.values() for name in (VIEWS[pair.view].source, pair.view) if name]
        return {name: configured(VIEWS[name], name, self.run.settings) for name in dict.fromkeys(names)}

    @cached_property
    def passing(self) -> dict[str, View]:
        """Those of the views whose records are made by passes of a network."""
        return {name: view for name, view in self.views.items() if not view.source}

    @cached_property
    def joining(self) -> dict[str, View]:
        """Those of the views whose records are joined from those of all seeds."""
        return {name: view for name, view in self.views.items() if view.source}

    @cached_property
    def networks(self) -> dict[str, Network]:
        """The networks whose weights the run's views read."""
        names = dict.fromkeys(view.network for view in self.passing.values())
        return {name: configured(NETWORKS[name], name, self.run.settings) for name in names}

    def extras(self, view: str) -> list[str]:
        """What the run's methods read of a view's records beyond what every record has."""
        reads = {name for pair, method in self._paired() if pair.view == view for name in method.reads}
        return sorted(reads - USUAL_CONTENTS)

    def _paired(self) -> list[tuple[Pair, Method]]:
        return [(self.pairs[name], method) for name, method in self.methods.items()]

    def make(self, names: Collection[str], *, forced: Collection[str] = (), to_read: Collection[str] = ()) -> None:
        """Make what is due of some artifacts and of all that they are made from."""
        self.graph.make(self, names, forced=forced, to_read=to_read)

    def need_seeds(self) -> None:
        """Refuse a view across seeds of a run that has one."""
        if self.joining and len(self.seeds) < 2:
            raise InvalidInput("an ensemble needs at least two seeds", hint="--seeds 2 or more, or leave ensembles out")

    def labels(self) -> dict[str, Any]:
        """The columns that say where the numbers of a table come from."""
        return {"dataset": self.data.name, "source": self.data.source}


def choose_device(name: str, progress: Progress = SILENT) -> torch.device:
    """`auto` takes the fastest that is there; any other must be there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, there in available.items() if there)
        progress.detail(f"device: {name}")
    if not available.get(name.split(":")[0], False):
        raise VbsError(f"no {name} device here", hint="--device auto takes what there is")
    return torch.device(name)
