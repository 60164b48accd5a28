"""Tables of scores: every method on every pass over the test split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.artifacts import fits, proxy
from vbs_cli.artifacts.cells import Cell, cells_of, fingerprints, scored_cells
from vbs_cli.artifacts.fits import Fitted
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass, passes_behind
from vbs_cli.conditions import Condition, conditions
from vbs_cli.metrics import METRICS, Bootstrap, Interval, Scored, bootstrap, risk_coverage, values_of
from vbs_cli.metrics.reliability import bins_of
from vbs_cli.run import Artifact, Recipe, formats, layout
from vbs_cli.run.graph import Make
from vbs_cli.seeding import threads

STAGE = "evaluate"
REVISION = 1  # of the tables; metrics and methods have their own
Row = dict[str, Any]
KEYS = ["noise", "level", "seed", "method"]
SCORE_COLUMNS = ["seed", "method", "noise", "level", "metric", "value"]


def artifacts(job: Job, passes: Sequence[Pass]) -> list[Artifact]:
    """Artifacts of the tables, made from passes over the test split: clean ones and those of any sweep."""
    clean, shown = [p for p in passes if p.clean], shown_passes(passes)
    shared, bins = {**job.labels(), **job.joins}, {"reliability_bins": job.run.settings.reliability_bins}
    predictions = {"tables": REVISION, **fits.code(job)}
    scores = predictions | METRICS.revisions(METRICS)

    def table(
        name: str, make: Make, behind: Iterable[Pass], *others: str, code: Mapping[str, int], **settings: Any
    ) -> Artifact:
        inputs = (*others, *sorted(p.name for p in behind))
        return Artifact(name, Recipe(STAGE, {**shared, **settings}, inputs, code), make)

    metrics = {"metrics": list(METRICS)}
    return [
        table(layout.METRICS, make_metrics, passes, layout.METHODS, code=scores, **metrics),
        table(layout.REPLICATES, make_replicates, shown, layout.METHODS, code=scores, **metrics),
        table(layout.INTERVALS, make_intervals, [], layout.REPLICATES, code=scores, **metrics),
        table(layout.RELIABILITY, make_reliability, clean, layout.METHODS, code=predictions, **bins),
        table(layout.COVERAGE, make_coverage, shown, layout.METHODS, code=predictions),
        table(layout.PROXY, make_proxy, passes, code=proxy.code(job), views=list(job.views)),
    ]


def with_intervals() -> list[str]:
    """Names of metrics with intervals; yardsticks, like the ECE of a calibrated predictor by chance, have none."""
    return [name for name, metric in METRICS.items() if not metric.yardstick]


def shown_passes(passes: Iterable[Pass]) -> list[Pass]:
    """Passes under the conditions that summaries show: clean, and each noise at a middle level."""
    passes = list(passes)
    levels = pd.DataFrame([{"noise": p.noise, "level": p.level} for p in passes])
    shown = conditions(levels)
    return [p for p in passes if Condition(p.noise, p.level) in shown]


def with_labels(job: Job, rows: Sequence[Row] | pd.DataFrame) -> pd.DataFrame:
    """Table of these rows whose first columns say where its numbers come from."""
    table = pd.DataFrame(rows)
    labels = job.labels()
    return table.assign(**labels)[[*labels, *(column for column in table if column not in labels)]]


def make_metrics(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the table with one row per noise, level, seed, method and metric."""
    [artifact] = due
    fitted = job.run.methods

    def rows_of(predictions: Scored) -> Iterator[Row]:
        for metric, value in values_of(predictions, tuple(METRICS)).items():
            yield {"metric": metric, "value": value}

    cells = cells_of(job, fitted, passes_behind(job, artifact.name))
    table, marks = score_changed_cells(job, fitted, cells, artifact.name, ["metric", "value"], rows_of, task="scoring")
    ordered = sort_table(with_level_zero(table), job.run.settings.methods, "metric")
    data = formats.table_bytes(with_labels(job, ordered[SCORE_COLUMNS]), marks)
    job.run.store.write(artifact.name, data, artifact.recipe)


def score_changed_cells(
    job: Job,
    fitted: Fitted,
    cells: Sequence[Cell],
    name: str,
    columns: Sequence[str],
    rows_of: Callable[[Scored], Iterable[Row]],
    *,
    task: str,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Table of KEYS and `columns` for all cells, and the fingerprint of each cell, by which the next call knows it.

    Rows of cells that the present table called `name` holds with the same fingerprint are taken from it.
    """
    marks = fingerprints(job, fitted, cells, REVISION)
    table, known = earlier_table(job, name, [*KEYS, *columns])
    todo = [cell for cell in cells if known.get(cell.name) != marks[cell.name]]
    kept = [(c.at.noise, c.at.level, c.seed, c.method) for c in cells if known.get(c.name) == marks[c.name]]
    rows: list[Row] = []
    with job.progress.task(task, len(todo)) as meter:
        for cell, predictions in scored_cells(job, fitted, todo):
            keys = {"noise": cell.at.noise, "level": cell.at.level, "seed": cell.seed, "method": cell.method}
            rows += [{**keys, **row} for row in rows_of(predictions)]
            meter.advance(1)
        done = f"{len(todo)} of {len(cells)}" if kept else f"{len(cells)}"
        meter.note(f"{done} combinations of method, seed and level")
    taken_over = table.merge(pd.DataFrame(kept, columns=KEYS), on=KEYS) if kept else None
    return pd.concat([taken_over, pd.DataFrame(rows)]), marks


def earlier_table(job: Job, name: str, columns: Sequence[str]) -> tuple[pd.DataFrame, Mapping[str, str]]:
    """Rows of an existing table and the fingerprints stored in it; empty if there are none to take over."""
    if job.force or not job.run.store.has(name):
        return pd.DataFrame(columns=list(columns)), {}
    data = job.run.store.read(name)
    table = formats.table_from(data)
    if not set(columns) <= set(table):  # written by an earlier version
        return pd.DataFrame(columns=list(columns)), {}
    return table[list(columns)], formats.table_notes(data)


def sort_table(table: pd.DataFrame, methods: Sequence[str], last: str) -> pd.DataFrame:
    """Sort a table by noise, level, seed, method (in the order of `methods`) and a last column."""
    order = {name: position for position, name in enumerate(methods)}

    def rank(column: pd.Series[Any]) -> pd.Series[Any]:
        return column.map(order) if column.name == "method" else column

    return table.sort_values([*KEYS, last], key=rank, kind="stable", ignore_index=True)


def with_level_zero(table: pd.DataFrame) -> pd.DataFrame:
    """Begin every sweep with the clean rows of its seeds and methods: noise of level zero is the clean input."""
    swept = table[table["noise"] != layout.CLEAN][["noise", "seed", "method"]].drop_duplicates()
    clean = table[table["noise"] == layout.CLEAN].drop(columns="noise")
    return pd.concat([table, clean.merge(swept, on=["seed", "method"])[table.columns]], ignore_index=True)


def make_replicates(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write bootstrap replicates of each method's metrics under the shown conditions, (metrics, 1 + R) each.

    They are paired, since the same examples and seeds are drawn for all methods; so those of one method can be made
    again alone.
    """
    [artifact] = due
    fitted = job.run.methods
    every = cells_of(job, fitted, passes_behind(job, artifact.name))
    groups, of_cell = cells_by_method(every), fingerprints(job, fitted, every, REVISION)
    marks = {name: files.sha256_of_json([of_cell[cell.name] for cell in cells]) for name, cells in groups.items()}
    tensors, known = earlier_replicates(job)
    kept = {name: tensors[name] for name in groups if known.get(name) == marks[name]}
    found = dict(kept)
    with threads(1), job.progress.task("intervals", len(groups) - len(kept)) as task:
        for name, cells in groups.items():
            if name not in kept:
                task.note(f"{cells[0].method}, {cells[0].at.name}")
                predictions = [scored for _, scored in scored_cells(job, fitted, cells)]
                drawn = bootstrap({name: predictions}, metrics=with_intervals())
                found[name] = torch.stack([drawn.columns[name, metric] for metric in with_intervals()])
                task.advance(1)
        task.note(f"{len(groups) - len(kept)} methods and conditions")
    job.run.store.write(artifact.name, formats.tensors_bytes(found, notes=marks), artifact.recipe)


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


def earlier_replicates(job: Job) -> tuple[Mapping[str, Tensor], Mapping[str, str]]:
    if job.force or not job.run.store.has(layout.REPLICATES):
        return {}, {}
    data = job.run.store.read(layout.REPLICATES)
    return formats.tensors_from(data), formats.tensors_notes(data)


def make_intervals(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the interval of each method's metrics per condition, and of their differences from every other method."""
    [artifact] = due
    passes = passes_behind(job, layout.REPLICATES)
    tensors = formats.tensors_from(job.run.store.read(layout.REPLICATES))
    rows: list[Row] = []
    for at, group in groupby(cells_of(job, job.run.methods, passes), key=lambda cell: cell.at):
        methods = list(dict.fromkeys(cell.method for cell in group))
        columns = {
            (method, metric): column
            for method in methods
            for metric, column in zip(with_intervals(), tensors[replicates_name(at, method)], strict=True)
        }
        keys = {"noise": at.noise, "level": at.level}
        rows += [{**keys, **row} for row in interval_rows(Bootstrap(columns), methods, with_intervals())]
    job.run.store.write(artifact.name, formats.table_bytes(with_labels(job, rows)), artifact.recipe)


def interval_rows(found: Bootstrap, methods: Sequence[str], metrics: Sequence[str]) -> Iterator[Row]:
    """Yield rows with the interval of each metric (baseline "") and of its difference from each other method."""

    def row(method: str, baseline: str, metric: str, interval: Interval) -> Row:
        numbers = {"value": interval.value, "low": interval.low, "high": interval.high}
        return {"method": method, "baseline": baseline, "metric": metric, **numbers}

    for method in methods:
        for metric in metrics:
            yield row(method, "", metric, found.interval(method, metric))
            for baseline in methods:
                if baseline != method:
                    yield row(method, baseline, metric, found.difference(method, baseline, metric))


def make_reliability(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write accuracy and confidence per seed, method and confidence bin of the clean test split."""
    [artifact] = due
    fitted = job.run.methods
    rows: list[Row] = []
    for cell, predictions in scored_cells(job, fitted, cells_of(job, fitted, passes_behind(job, artifact.name))):
        n_bins = job.run.settings.reliability_bins
        rows += reliability_rows(predictions, n_bins, seed=cell.seed, method=cell.method)
    job.run.store.write(artifact.name, formats.table_bytes(with_labels(job, rows)), artifact.recipe)


def make_coverage(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the error rate at each coverage (share of predictions kept), per seed, method and shown condition."""
    [artifact] = due
    fitted = job.run.methods

    def rows_of(predictions: Scored) -> Iterator[Row]:
        for coverage, risk in torch.stack(risk_coverage(predictions), 1).tolist():
            yield {"coverage": coverage, "risk": risk}

    cells, columns = cells_of(job, fitted, passes_behind(job, artifact.name)), ["coverage", "risk"]
    table, marks = score_changed_cells(job, fitted, cells, artifact.name, columns, rows_of, task="risk and coverage")
    ordered = sort_table(table, job.run.settings.methods, "coverage")
    data = formats.table_bytes(with_labels(job, ordered[["seed", "method", "noise", "level", *columns]]), marks)
    job.run.store.write(artifact.name, data, artifact.recipe)


def make_proxy(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write how well the spread indicates wrong predictions, per noise and view."""
    [artifact] = due
    earlier = earlier_table(job, artifact.name, proxy.COLUMNS)
    table, marks = proxy.proxy_table(job, passes_behind(job, artifact.name), *earlier)
    job.run.store.write(artifact.name, formats.table_bytes(with_labels(job, table), marks), artifact.recipe)


def reliability_rows(predictions: Scored, n_bins: int, **keys: Any) -> list[Row]:
    """Rows of the reliability table, one per bin, each with these keys."""
    bins = bins_of(predictions.confidence, predictions.correct, n_bins=n_bins)
    columns = (bins.edges[:-1], bins.edges[1:], bins.count, bins.accuracy, bins.confidence)
    return [
        {**keys, "bin": i, "lower": low, "upper": up, "count": int(count), "accuracy": acc, "confidence": conf}
        for i, (low, up, count, acc, conf) in enumerate(torch.stack(columns, 1).tolist())
    ]
