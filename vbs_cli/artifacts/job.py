"""The job that every stage works on: a run, its data, how to compute, and what the run's settings call for."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch

from vbs_cli.data import DATASETS, NOISES, Prepared, Split, described
from vbs_cli.data.base import SEVERITY, SPLITS
from vbs_cli.data.given import condition_of
from vbs_cli.data.shifted import conditions_of, open_shifted
from vbs_cli.errors import InvalidInput, MissingArtifact, VbsError
from vbs_cli.executors import Crew
from vbs_cli.methods import Method
from vbs_cli.networks import NETWORKS, Network
from vbs_cli.pairs import Pair, check_extras, check_options, configured, find_pair, method_of
from vbs_cli.progress import SILENT, Progress
from vbs_cli.run import Graph, Run, layout
from vbs_cli.views import VIEWS, View

Levels = Mapping[str, Sequence[float]]  # by noise

# Contents that every record has; passes record further ones if a method reads them.
USUAL_CONTENTS = {"sigma", "mean_softmax", "part_accuracy"}


@dataclass(frozen=True, eq=False)
class Source:
    """Split that passes read: its dataset, its name there, and a hash of its content."""

    data: Prepared
    split: str
    fingerprint: str
    further: bool = False  # whether it is further test data, which stand for a condition by themselves

    def __len__(self) -> int:
        return self.data.counts[self.split]

    def read(self) -> Split:
        """Inputs and labels, after their hashes have been checked."""
        return self.data.split(self.split)


@dataclass(frozen=True)
class Job:
    """Run that a stage works on, its data, and how to compute."""

    run: Run
    data: Prepared
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    force: bool = False
    progress: Progress = SILENT
    crew: Crew | None = None  # executor that trains and runs networks; None is this process
    device_name: str = "auto"  # as the user gave it, since workers may have other devices
    tensorboard: bool = False
    keep_patches: bool = False  # whether passes over noisy inputs keep their parts too
    trains: bool = False  # whether networks that are missing may be trained
    planned: Graph | None = field(default=None, repr=False)  # made by artifacts.plan

    @property
    def seeds(self) -> range:
        return range(self.run.settings.seeds)

    @property
    def given(self) -> bool:
        """Whether the run was made from the user's own logits, so that there is no network."""
        return self.run.settings.given

    @property
    def graph(self) -> Graph:
        """Graph of the run's artifacts, made by `artifacts.plan`."""
        assert self.planned is not None, "plan the job first"
        return self.planned

    @cached_property
    def second_tests(self) -> dict[str, Prepared]:
        """Second test sets of the user's own, keyed by name."""
        return {} if self.given else {name: self._second_test(name) for name in self.run.settings.shifts}

    def _second_test(self, name: str) -> Prepared:
        """Second test set as it was prepared, or the run's description of it, enough for all that needs no inputs."""
        data_dir = self.data.folder.parent
        try:
            return open_shifted(data_dir, self.data.name, name)
        except MissingArtifact:
            if layout.second_test(name) not in self.run.store.entries:
                raise
        return described(json.loads(self.run.store.read(layout.second_test(name))), data_dir / name)

    @cached_property
    def further(self) -> dict[tuple[str, float], Source]:
        """Further test data, keyed by the condition that they stand for: a name in place of a noise's, and a level.

        They are second test sets, or conditions of logits that the user gave.
        """
        given = [split for split in self.data.counts if split not in SPLITS] if self.given else []
        found = {
            condition_of(split): Source(self.data, split, str(self.data.recipe[split]), further=True) for split in given
        }
        for name, data in self.second_tests.items():
            for split, condition in conditions_of(data, name).items():
                found[condition] = Source(data, split, data.fingerprint, further=True)
        return found

    @cached_property
    def splits(self) -> dict[str, Source]:
        """Splits of the run's own data, keyed by name."""
        return {split: Source(self.data, split, self.data.fingerprint) for split in SPLITS if split in self.data.counts}

    def family_of(self, noise: str) -> str:
        """Family of a noise or of a corruption among further test data; others of these are a family of their own."""
        if noise in NOISES:
            return NOISES[noise].family
        for (name, _), source in self.further.items():
            if name == noise and source.data.name in DATASETS:
                return DATASETS[source.data.name].families.get(source.split.partition(SEVERITY)[0], noise)
        return noise

    @property
    def file_suites(self) -> dict[str, dict[str, list[float]]]:
        """Levels of the corruptions in each test set that has several, such as official files of CIFAR-10-C."""
        found: dict[str, dict[str, list[float]]] = {}
        for name, data in self.second_tests.items():
            if len(data.counts) > 1:
                names = dict.fromkeys(noise for noise, _ in conditions_of(data, name).values())
                found[f"{name} files"] = {noise: self.levels_of(noise) for noise in names}
        return found

    def levels_of(self, name: str) -> list[float]:
        """Levels of further test data of this name, none if it names a noise."""
        return sorted(level for noise, level in self.further if noise == name)

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """Pairs of method and view that the run compares, keyed by name."""
        return {name: find_pair(name) for name in self.run.settings.methods}

    @cached_property
    def methods(self) -> dict[str, Method]:
        """Methods that the run compares, keyed by name, with their options, not yet fitted."""
        options = self.run.settings.options
        check_options(options)
        methods = {name: method_of(pair, options.get(name, {})) for name, pair in self.pairs.items()}
        for name, pair in self.pairs.items():
            check_extras(pair, methods[name], passes=self.views[pair.view].passes)
        return methods

    @cached_property
    def views(self) -> dict[str, View]:
        """Views that the run's methods read, keyed by name, each after the view whose records it joins."""
        names = [name for pair in self.pairs.values() for name in (VIEWS[pair.view].source, pair.view) if name]
        return {name: configured(VIEWS[name], name, self.run.settings) for name in dict.fromkeys(names)}

    @cached_property
    def passing(self) -> dict[str, View]:
        """Views whose records are made by passes of a network, keyed by name."""
        return {name: view for name, view in self.views.items() if not view.source}

    @cached_property
    def joining(self) -> dict[str, View]:
        """Views whose records are joined from those of all seeds, keyed by name."""
        return {name: view for name, view in self.views.items() if view.source}

    @property
    def joins(self) -> dict[str, Any]:
        """Settings of the views that join records, for recipes of what is made from joined records; empty if none."""
        found = {name: asdict(view) for name, view in self.joining.items()}
        return {"joins": found} if found else {}

    @cached_property
    def networks(self) -> dict[str, Network]:
        """Networks whose weights the run's views read, keyed by name."""
        names = dict.fromkeys(view.network for view in self.passing.values())
        return {name: configured(NETWORKS[name], name, self.run.settings) for name in names}

    def extras(self, view: str) -> list[str]:
        """Contents that the run's methods read of a view's records beyond those that every record has."""
        reads = {name for pair, method in self._paired() if pair.view == view for name in method.reads}
        return sorted(reads - USUAL_CONTENTS)

    def _paired(self) -> list[tuple[Pair, Method]]:
        return [(self.pairs[name], method) for name, method in self.methods.items()]

    def make(self, names: Collection[str], *, forced: Collection[str] = (), to_read: Collection[str] = ()) -> None:
        """Make the named artifacts and all that they are made from, as far as they are due."""
        self.graph.make(self, names, forced=forced, to_read=to_read)

    def need_seeds(self) -> None:
        """Refuse a run of one seed whose methods join the records of several seeds."""
        if self.joining and len(self.seeds) < 2:
            raise InvalidInput("an ensemble needs at least two seeds", hint="--seeds 2 or more, or leave ensembles out")

    def labels(self) -> dict[str, Any]:
        """Values of the columns that say where the numbers of a table come from."""
        return {"dataset": self.data.name, "source": self.data.source}


def choose_device(name: str, progress: Progress = SILENT) -> torch.device:
    """Device of this name, which must be available; `auto` is the fastest available one."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, there in available.items() if there)
        progress.detail(f"device: {name}")
    if not available.get(name.split(":")[0], False):
        raise VbsError(f"no {name} device here", hint="--device auto takes what there is")
    return torch.device(name)
