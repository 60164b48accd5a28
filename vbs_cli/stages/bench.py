"""`vbs bench`: what a prediction of each method costs, and how fast vbs is beside what people use instead."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from vbs_cli.bench import COLUMNS, CONTENDERS, Network, bench
from vbs_cli.bench.kernels import bench_kernels, duels
from vbs_cli.bench.noises import noise_duels
from vbs_cli.bench.training import Lesson, bench_training
from vbs_cli.progress import Progress
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.settings import INPUTS, Settings, protocol
from vbs_cli.stages.base import Job, choose_device

Rows = list[dict[str, Any]]
TRAINED = ("radio", "librispeech", "cifar10")  # those of the paper, whose inputs are known


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    batch: int
    draws: int
    repeats: int


def network_of(settings: Settings, shape: tuple[int, ...], classes: int) -> Network:
    s = settings
    return Network(model=s.model, shape=shape, classes=classes, width=s.width, dropout=s.dropout, kernel=s.kernel)


def bench_run(job: Job, plan: Plan) -> Rows:
    """Measure the run's network, every time it is asked for, and keep the last table."""
    network = network_of(job.run.settings, job.data.shape, job.data.classes)
    rows = measure(network, plan, device=str(job.device), progress=job.progress)
    table = pd.DataFrame(rows, columns=list(COLUMNS)).assign(**job.labels(), batch=plan.batch)
    recipe = Recipe("bench", {**asdict(plan), "width": network.width})
    job.run.store.write(layout.BENCH, formats.table_bytes(table), recipe)
    return rows


def bench_protocol(settings: Settings, plan: Plan, *, device: str, progress: Progress) -> Rows:
    """Measure the network that the settings describe where there is no run yet; nothing is kept."""
    network = network_of(settings, *INPUTS[settings.dataset])
    return measure(network, plan, device=str(choose_device(device, progress)), progress=progress)


def measure(network: Network, plan: Plan, *, device: str, progress: Progress) -> Rows:
    with progress.task("bench", len(CONTENDERS)) as task:
        return bench(network, **asdict(plan), device=device, advance=task.advance)


def bench_kernels_of(what: str, progress: Progress) -> Rows:
    """The kernels of "methods" or "noise", or "training", beside what people use instead; nothing is kept."""
    if what == "training":
        return bench_training_of(lessons(), progress)
    every = list(noise_duels() if what == "noise" else duels())
    with progress.task(f"bench {what}", len(every)) as task:
        return list(bench_kernels(every, advance=task.advance))


def bench_training_of(every: list[Lesson], progress: Progress) -> Rows:
    """All lessons, and the first two, which take the least time, once more with networks side by side."""
    together = every[:2]
    with progress.task("bench training", len(every) + len(together)) as task:
        return list(bench_training(every, together, advance=task.advance))


def lessons() -> list[Lesson]:
    """Both networks of each dataset's quick profile."""
    return [
        Lesson(
            name=f"{dataset} {'MC-dropout' if dropout else 'conventional'}",
            network=network_of(s, *INPUTS[dataset]),
            dropout=dropout,
            batch=s.batch,
            lr=s.lr,
            weight_decay=s.weight_decay,
        )
        for dataset in TRAINED
        for s in [protocol(dataset, "quick")]
        for dropout in (False, True)
    ]
