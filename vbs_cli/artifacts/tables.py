"""Tables of scores: every method on every pass over the test split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from vbs_cli.artifacts import fits, intervals, proxy, shifts
from vbs_cli.artifacts.cells import Cell, Row, cells_of, fingerprints, scored_cells, with_labels
from vbs_cli.artifacts.fits import Fitted
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass, passes_behind
from vbs_cli.metrics import METRICS, Scored, risk_coverage, values_of
from vbs_cli.metrics.reliability import bins_of
from vbs_cli.run import Artifact, Recipe, formats, layout
from vbs_cli.run.graph import Make

STAGE = "evaluate"
REVISION = 2  # of the tables; metrics and methods have their own
KEYS = ["noise", "level", "seed", "method"]
SCORE_COLUMNS = ["seed", "method", "noise", "level", "metric", "value"]


def artifacts(job: Job, passes: Sequence[Pass]) -> list[Artifact]:
    """Artifacts of the tables, made from passes over the test split: clean ones and those of any sweep."""
    clean = [p for p in passes if p.clean]
    shared, bins = {**job.labels(), **job.joins}, {"reliability_bins": job.run.settings.reliability_bins}
    predictions = {"tables": REVISION, **fits.code(job)}
    scores = predictions | METRICS.revisions(METRICS)

    def table(
        name: str, make: Make, behind: Iterable[Pass], *others: str, code: Mapping[str, int], **settings: Any
    ) -> Artifact:
        inputs = (*others, *sorted(p.name for p in behind))
        return Artifact(name, Recipe(STAGE, {**shared, **settings}, inputs, code), make)

    metrics, summed = {"metrics": list(METRICS)}, {"shifts": shifts.REVISION}
    fits_and_scores = (layout.METHODS, layout.METRICS)
    return [
        table(layout.METRICS, make_metrics, passes, layout.METHODS, code=scores, **metrics),
        table(layout.REPLICATES, make_replicates, passes, *fits_and_scores, code=scores, **metrics),
        table(layout.INTERVALS, intervals.make_intervals, [], layout.REPLICATES, code=scores, **metrics),
        table(layout.SHIFTS, shifts.make, [], layout.REPLICATES, code=scores | summed, **shifts.settings(job, passes)),
        table(layout.RELIABILITY, make_reliability, clean, layout.METHODS, code=predictions, **bins),
        table(layout.COVERAGE, make_coverage, passes, *fits_and_scores, code=predictions),
        table(layout.PROXY, make_proxy, passes, code=proxy.code(job), views=list(job.views)),
    ]


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
    """Write the bootstrap replicates that intervals are taken from."""
    intervals.make_replicates(job, due, done, revision=REVISION)


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

    shown, columns = intervals.shown_conditions(job), ["coverage", "risk"]
    cells = [cell for cell in cells_of(job, fitted, passes_behind(job, artifact.name)) if cell.at in shown]
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
