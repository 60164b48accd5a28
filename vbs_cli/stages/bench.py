"""`vbs bench`: what a prediction of each method costs, and how fast vbs is compared with other implementations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vbs_cli import files
from vbs_cli.artifacts.job import Job, choose_device
from vbs_cli.bench import COLUMNS, CONTENDERS, BenchNetwork, bench
from vbs_cli.bench.kernels import bench_kernels, duels
from vbs_cli.bench.noises import noise_duels
from vbs_cli.bench.scaling import bench_scaling, exponents, plans
from vbs_cli.bench.shifts import signal_duels, suite_duels
from vbs_cli.bench.training import Lesson, bench_training
from vbs_cli.data import DATASETS
from vbs_cli.models.base import MODELS, format_shape
from vbs_cli.progress import Progress
from vbs_cli.protocols import QUICK, protocol, resolve
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.settings import Settings

Rows = list[dict[str, Any]]
TRAINED = ("radio", "librispeech", "cifar10")  # the paper's datasets, whose input shapes are known


@dataclass(frozen=True)
class BenchSizes:
    """Size of a measurement: examples per batch, draws of MC-dropout, members of an ensemble, repeats."""

    batch: int
    draws: int
    members: int
    repeats: int


def network_of(settings: Settings, shape: tuple[int, ...], classes: int) -> BenchNetwork:
    s = settings
    return BenchNetwork(model=s.model, shape=shape, classes=classes, width=s.width, dropout=s.dropout, kernel=s.kernel)


@dataclass(frozen=True)
class Subject:
    """Network to measure, its device and progress, and the function that saves its table."""

    network: BenchNetwork
    labels: Mapping[str, str]  # columns that say which data it is for
    device: str
    progress: Progress
    keep: Callable[[pd.DataFrame, BenchSizes], Path]

    @property
    def title(self) -> str:
        """Description of the network: `nin of width 192 for inputs of 3 x 32 x 32 and 10 classes`."""
        n = self.network
        width = f" of width {n.width}" if n.model in MODELS else ""
        return f"{n.model}{width} for inputs of {format_shape(n.shape)} and {n.classes} classes"


def of_run(job: Job) -> Subject:
    """Subject with the run's network; the run keeps the last table."""

    def keep(table: pd.DataFrame, plan: BenchSizes) -> Path:
        recipe = Recipe("bench", {**asdict(plan), "width": network.width, "columns": list(COLUMNS)})
        job.run.store.write(layout.BENCH, formats.table_bytes(table), recipe)
        return job.run.path / layout.BENCH

    network = network_of(job.run.settings, job.data.shape, job.data.classes)
    return Subject(network, job.labels(), str(job.device), job.progress, keep)


def of_protocol(
    given: Mapping[str, Any], runs_dir: Path, *, size: int | None, device: str, progress: Progress
) -> Subject:
    """Subject with the network that the settings describe, by default the paper's for CIFAR-10.

    `size` is the length of its inputs, or their height and width, by default those of the dataset.
    """

    def keep(table: pd.DataFrame, plan: BenchSizes) -> Path:
        files.write_bytes(runs_dir / layout.BENCH, formats.table_bytes(table))
        return runs_dir / layout.BENCH

    settings = resolve({"dataset": "cifar10", "profile": "paper", **given})
    shape, classes = DATASETS[settings.dataset].inputs
    if size is not None:
        shape = (shape[0], *(size for _ in shape[1:]))
    network = network_of(settings, shape, classes)
    labels = {"dataset": settings.dataset, "source": "random inputs"}
    return Subject(network, labels, str(choose_device(device, progress)), progress, keep)


def bench_network(subject: Subject, plan: BenchSizes) -> tuple[Rows, Path]:
    """Measure all methods anew; return the rows and the path of the saved table."""
    with subject.progress.task("bench", len(CONTENDERS)) as task:
        rows = bench(subject.network, **asdict(plan), device=subject.device, advance=task.advance)
    table = pd.DataFrame(rows, columns=list(COLUMNS)).assign(**subject.labels, batch=plan.batch)
    return rows, subject.keep(table, plan)


def bench_growth(subject: Subject, plan: BenchSizes) -> tuple[Rows, Rows]:
    """Measure how the costs grow; return the rows and the exponents of growth. Nothing is saved."""
    measured, batch = subject.network, plan.batch
    with subject.progress.task("bench scaling", len([*plans(measured, batch)])) as task:
        rows = bench_scaling(measured, batch=batch, repeats=plan.repeats, device=subject.device, advance=task.advance)
    return rows, exponents(rows)


def bench_kernels_of(what: str, progress: Progress) -> Rows:
    """Measure the kernels of "methods" or "noise", or "training", against other implementations; nothing is saved."""
    if what == "training":
        return bench_training_of(lessons(), progress)
    every = [*noise_duels(), *signal_duels(), *suite_duels()] if what == "noise" else duels()
    with progress.task(f"bench {what}", len(every)) as task:
        return list(bench_kernels(every, advance=task.advance))


def bench_training_of(every: list[Lesson], progress: Progress) -> Rows:
    """Measure all lessons, and the first two, which take the least time, again with several networks at once."""
    together = every[:2]
    with progress.task("bench training", len(every) + len(together)) as task:
        return list(bench_training(every, together, advance=task.advance))


def lessons() -> list[Lesson]:
    """Lessons for both networks of each dataset's quick profile."""
    return [
        Lesson(
            name=f"{dataset} {'MC-dropout' if dropout else 'conventional'}",
            network=network_of(s, *DATASETS[dataset].inputs),
            dropout=dropout,
            batch=s.batch,
            lr=s.lr,
            weight_decay=s.weight_decay,
        )
        for dataset in TRAINED
        for s in [protocol(dataset, QUICK)]
        for dropout in (False, True)
    ]
