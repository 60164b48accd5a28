"""Intervals of every method's scores under every condition, and of their paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.artifacts.cells import Cell, cells_of, fingerprints, scored_cells, with_labels
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import passes_behind
from vbs_cli.conditions import Condition, conditions
from vbs_cli.metrics import METRICS, SCORES, bootstrap
from vbs_cli.metrics.bootstrap import between
from vbs_cli.run import Artifact, formats, layout
from vbs_cli.seeding import threads

Replicates = Mapping[str, Tensor]


def detailed() -> list[str]:
    """Metrics that have intervals where summaries show them: all but yardsticks, like the ECE expected by chance."""
    return [name for name, metric in METRICS.items() if not metric.yardstick]


def shown_conditions(job: Job) -> list[Condition]:
    """Conditions that summaries show, by the accuracies in the table of metrics."""
    return conditions(job.run.metrics)


def make_replicates(job: Job, due: Sequence[Artifact], done: Sequence[Artifact], *, revision: int) -> None:
    """Write bootstrap replicates of each method's scores under every condition, (metrics, 1 + R) each.

    Under the conditions that summaries show they are of all metrics, elsewhere of SCORES. They are paired, since the
    same examples and seeds are drawn for all methods and conditions; so those of one method can be made again alone.
    """
    [artifact] = due
    fitted = job.run.methods
    every = cells_of(job, fitted, passes_behind(job, artifact.name))
    groups, of_cell = cells_by_method(every), fingerprints(job, fitted, every, revision)
    metrics = metrics_of(job, groups)
    marks = {
        name: files.sha256_of_json([metrics[name], [of_cell[cell.name] for cell in cells]])
        for name, cells in groups.items()
    }
    tensors, known = earlier_replicates(job)
    found = {name: tensors[name] for name in groups if known.get(name) == marks[name]}
    todo = [name for name in groups if name not in found]
    with threads(1), job.progress.task("intervals", len(todo)) as task:
        for name in todo:
            cells = groups[name]
            task.note(f"{cells[0].method}, {cells[0].at.name}")
            predictions = [scored for _, scored in scored_cells(job, fitted, cells)]
            drawn = bootstrap({name: predictions}, metrics=metrics[name])
            found[name] = torch.stack([drawn.columns[name, metric] for metric in metrics[name]])
            task.advance(1)
        task.note(f"{len(todo)} methods and conditions")
    job.run.store.write(artifact.name, formats.tensors_bytes(found, notes=marks), artifact.recipe)


def metrics_of(job: Job, groups: Mapping[str, Sequence[Cell]]) -> dict[str, list[str]]:
    """Metrics of each of the replicates, keyed like `cells_by_method`."""
    shown, every = shown_conditions(job), detailed()
    scores = [name for name in every if name in SCORES]
    return {name: every if cells[0].at in shown else scores for name, cells in groups.items()}


def cells_by_method(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Cells of each method under each condition, keyed by `replicates_name`, for the seeds that all methods have."""
    groups: dict[str, list[Cell]] = {}
    for at, group in groupby(cells, key=lambda cell: cell.at):
        by_method: dict[str, list[Cell]] = {}
        for cell in group:
            by_method.setdefault(cell.method, []).append(cell)
        seeds = [{cell.seed for cell in some} for some in by_method.values() if some[0].seed != layout.TOGETHER]
        common = {layout.TOGETHER}.union(set.intersection(*seeds) if seeds else ())
        for method, some in by_method.items():
            groups[replicates_name(at, method)] = [cell for cell in some if cell.seed in common]
    return groups


def replicates_name(at: Condition, method: str) -> str:
    return f"{at.noise} {at.level!r} {method}"


def earlier_replicates(job: Job) -> tuple[Replicates, Mapping[str, str]]:
    if job.force or not job.run.store.has(layout.REPLICATES):
        return {}, {}
    data = job.run.store.read(layout.REPLICATES)
    return formats.tensors_from(data), formats.tensors_notes(data)


def read_replicates(job: Job) -> dict[Condition, dict[str, tuple[list[str], Tensor]]]:
    """Metrics and replicates of every method, keyed by condition and method."""
    tensors = formats.tensors_from(job.run.store.read(layout.REPLICATES))
    groups = cells_by_method(cells_of(job, job.run.methods, passes_behind(job, layout.REPLICATES)))
    metrics = metrics_of(job, groups)
    found: dict[Condition, dict[str, tuple[list[str], Tensor]]] = {}
    for name, cells in groups.items():
        found.setdefault(cells[0].at, {})[cells[0].method] = metrics[name], tensors[name]
    return found


def make_intervals(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the interval of each method's metrics per condition, and of their differences from every other method."""
    [artifact] = due
    tables = []
    for at, by_method in read_replicates(job).items():
        metrics = next(iter(by_method.values()))[0]
        columns = torch.stack([tensor for _, tensor in by_method.values()])
        tables.append(interval_table(columns, list(by_method), metrics).assign(noise=at.noise, level=at.level))
    table = pd.concat(tables, ignore_index=True)
    ordered = table[["noise", "level", *(name for name in table if name not in ("noise", "level"))]]
    job.run.store.write(artifact.name, formats.table_bytes(with_labels(job, ordered)), artifact.recipe)


def interval_table(columns: Tensor, methods: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """Interval of each metric (baseline "") and of its difference from each other method: (M, metrics, 1 + R) -> rows.

    Rows have the columns method, baseline, metric, value, low and high.
    """
    own = between(columns)[:, :, None]  # (3, M, 1, metrics)
    apart = between(columns[:, None] - columns[None, :])  # (3, M, M, metrics), a method less a baseline
    values = torch.cat([own, apart], 2).transpose(2, 3).flatten(1).numpy()
    baselines = ["", *methods]
    method, metric, baseline = (
        np.array(each).reshape(-1) for each in np.meshgrid(methods, metrics, baselines, indexing="ij")
    )
    names = {"method": method, "baseline": baseline, "metric": metric}
    table = pd.DataFrame(names | dict(zip(("value", "low", "high"), values, strict=True)))
    return table[table["method"] != table["baseline"]].reset_index(drop=True)
