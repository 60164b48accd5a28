"""`vbs bench`: what a prediction of each method costs."""

from __future__ import annotations

from typing import Any

import pandas as pd

from vbs_cli.bench import COLUMNS, Network, bench
from vbs_cli.progress import Progress
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.settings import INPUTS, Settings
from vbs_cli.stages.base import Job, choose_device

Rows = list[dict[str, Any]]


def network_of(settings: Settings, shape: tuple[int, ...], classes: int) -> Network:
    s = settings
    return Network(model=s.model, shape=shape, classes=classes, width=s.width, dropout=s.dropout, kernel=s.kernel)


def bench_run(job: Job, *, batch: int, repeats: int) -> Rows:
    """Measure the run's network, every time it is asked for, and keep the last table."""
    s = job.run.settings
    network = network_of(s, job.data.shape, job.data.classes)
    rows = measure(network, s, batch=batch, repeats=repeats, device=str(job.device), progress=job.progress)
    table = pd.DataFrame(rows, columns=list(COLUMNS)).assign(**job.labels(), batch=batch)
    recipe = Recipe("bench", {"batch": batch, "repeats": repeats, "width": s.width, "draws": s.draws})
    job.run.store.write(layout.BENCH, formats.table_bytes(table), recipe)
    return rows


def bench_protocol(settings: Settings, *, batch: int, repeats: int, device: str, progress: Progress) -> Rows:
    """Measure the network that the settings describe where there is no run yet; nothing is kept."""
    network = network_of(settings, *INPUTS[settings.dataset])
    chosen = str(choose_device(device, progress))
    return measure(network, settings, batch=batch, repeats=repeats, device=chosen, progress=progress)


def measure(network: Network, s: Settings, *, batch: int, repeats: int, device: str, progress: Progress) -> Rows:
    with progress.task("bench", 5) as task:
        return bench(network, batch=batch, draws=s.draws, repeats=repeats, device=device, advance=task.advance)
