"""`vbs evaluate`: score every method on every cached pass over the test split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.metrics import METRICS, Bootstrap, Interval, Scored, bootstrap, risk_coverage, values_of
from vbs_cli.metrics.reliability import bins_of
from vbs_cli.report.tables import Condition, conditions
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.run.store import STALE
from vbs_cli.seeding import threads
from vbs_cli.stages import passes as caches
from vbs_cli.stages import work as networks
from vbs_cli.stages.base import Job, Target
from vbs_cli.stages.calibrate import calibrate
from vbs_cli.stages.cells import Cell, Fitted, cells_of, fingerprints, scored_cells
from vbs_cli.stages.passes import Pass
from vbs_cli.stages.proxy import COLUMNS as PROXY_COLUMNS
from vbs_cli.stages.proxy import proxy_table

Row = dict[str, Any]
KEYS = ["noise", "level", "seed", "method"]
SCORE_COLUMNS = ["seed", "method", "noise", "level", "metric", "value"]


def targets(job: Job) -> list[Target]:
    """The tables, made from all the logits that are known now: clean ones and those of any sweep."""
    passes = list(dict.fromkeys([*caches.clean_passes(job, "test"), *caches.usable(job)]))
    clean, shown = [p for p in passes if p.clean], shown_passes(passes)
    labels = {**job.labels(), "metrics": list(METRICS)}
    bins = {**job.labels(), "reliability_bins": job.run.settings.reliability_bins}

    def made_from(some: Iterable[Pass], settings: Row, *others: str) -> Recipe:
        return Recipe("evaluate", settings, (*others, *sorted(p.name for p in some)))

    return [
        (layout.METRICS, made_from(passes, labels, layout.METHODS)),
        (layout.REPLICATES, made_from(shown, labels, layout.METHODS)),
        (layout.INTERVALS, made_from([], labels, layout.REPLICATES)),
        (layout.RELIABILITY, made_from(clean, bins, layout.METHODS)),
        (layout.COVERAGE, made_from(shown, job.labels(), layout.METHODS)),
        (layout.PROXY, made_from(passes, {**job.labels(), "ensemble": job.has_ensemble})),
    ]


def with_intervals() -> list[str]:
    """What a calibrated predictor would score by chance is a yardstick, and has no interval of its own."""
    return [name for name in METRICS if not name.endswith("_chance")]


def shown_passes(passes: Iterable[Pass]) -> list[Pass]:
    """Those under the conditions that summaries show: clean, and each noise at a middle level."""
    passes = list(passes)
    levels = pd.DataFrame([{"noise": p.noise, "level": p.level} for p in passes])
    shown = conditions(levels)
    return [p for p in passes if Condition(p.noise, p.level) in shown]


def evaluate(job: Job) -> pd.DataFrame:
    """Fit what is not fitted, run what is not cached, and write the tables. Returns the metrics."""
    networks.ensure(job, caches.clean_passes(job, "test"), before=caches.clean_passes(job, "val"))
    fitted = calibrate(replace(job, force=False))
    say_left_out(job)
    passes = caches.usable(job)
    lost = any(caches.is_due(job, p) for p in passes)
    makers = {
        layout.METRICS: metrics_bytes,
        layout.REPLICATES: replicates_bytes,
        layout.INTERVALS: intervals_bytes,
        layout.RELIABILITY: reliability_bytes,
        layout.COVERAGE: coverage_bytes,
        layout.PROXY: proxy_bytes,
    }
    for name, recipe in targets(job):
        if job.needs((name, recipe)) or lost:
            job.run.store.write(name, makers[name](job, fitted, passes), recipe)
    return job.run.metrics


def say_left_out(job: Job) -> None:
    """Tell which sweeps no longer belong to the run's settings, or lack a network, and are left out."""
    known = list(caches.known(job))
    stale = {p.noise for p, state in known if state.kind == STALE}
    incomplete = {p.noise for p, _ in known} - stale - {p.noise for p in caches.usable(job)}
    for why, noises in (("stale", sorted(stale)), ("incomplete", sorted(incomplete))):
        if noises:
            again = " ".join(f"--noise {noise}" for noise in noises)
            job.progress.say(f"left out {why} logits of {', '.join(noises)}; vbs noise-sweep {again} makes them again")


def labelled(job: Job, rows: Sequence[Row] | pd.DataFrame) -> pd.DataFrame:
    """A table that says where its numbers come from, in its first columns."""
    table = pd.DataFrame(rows)
    labels = job.labels()
    return table.assign(**labels)[[*labels, *(column for column in table if column not in labels)]]


def metrics_bytes(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> bytes:
    """One row per noise, level, seed, method and metric."""

    def rows_of(predictions: Scored) -> Iterator[Row]:
        for metric, value in values_of(predictions, tuple(METRICS)).items():
            yield {"metric": metric, "value": value}

    cells = cells_of(job, fitted, passes)
    table, marks = cell_by_cell(job, fitted, cells, layout.METRICS, ["metric", "value"], rows_of, task="scoring")
    ordered = in_order(with_level_zero(table), job.run.settings.methods, "metric")
    return formats.table_bytes(labelled(job, ordered[SCORE_COLUMNS]), marks)


def cell_by_cell(
    job: Job,
    fitted: Fitted,
    cells: Sequence[Cell],
    name: str,
    columns: Sequence[str],
    rows_of: Callable[[Scored], Iterable[Row]],
    *,
    task: str,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Rows of KEYS and `columns` for each cell; those that the table called `name` holds already are taken over.

    Returns the fingerprints of the cells too, by which the next call knows them.
    """
    marks = fingerprints(job, fitted, cells)
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
    """The rows of a table that is there, and the fingerprints of what they belong to."""
    if job.force or not job.run.store.has(name):
        return pd.DataFrame(columns=list(columns)), {}
    data = job.run.store.read(name)
    return formats.table_from(data)[list(columns)], formats.table_notes(data)


def in_order(table: pd.DataFrame, methods: Sequence[str], last: str) -> pd.DataFrame:
    """By noise, level, seed, method (in the order of the run's) and a last column."""
    order = {name: position for position, name in enumerate(methods)}

    def rank(column: pd.Series[Any]) -> pd.Series[Any]:
        return column.map(order) if column.name == "method" else column

    return table.sort_values([*KEYS, last], key=rank, kind="stable", ignore_index=True)


def with_level_zero(table: pd.DataFrame) -> pd.DataFrame:
    """Noise of level zero is the clean input, so every sweep begins with the clean rows of its seeds and methods."""
    swept = table[table["noise"] != layout.CLEAN][["noise", "seed", "method"]].drop_duplicates()
    clean = table[table["noise"] == layout.CLEAN].drop(columns="noise")
    return pd.concat([table, clean.merge(swept, on=["seed", "method"])[table.columns]], ignore_index=True)


def replicates_bytes(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> bytes:
    """Bootstrap replicates of each method's metrics under the shown conditions, (metrics, 1 + R) each.

    They are paired, since every method is drawn the same examples and seeds, and so one alone can be made again.
    """
    every = cells_of(job, fitted, shown_passes(passes))
    groups, of_cell = methods_of(every), fingerprints(job, fitted, every)
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
    return formats.tensors_bytes(found, notes=marks)


def methods_of(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The cells of each method under each condition, of the seeds that all methods have there."""
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


def intervals_bytes(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> bytes:
    """Per condition the interval of each method's metrics, and of their differences from every other method."""
    tensors = formats.tensors_from(job.run.store.read(layout.REPLICATES))
    rows: list[Row] = []
    for at, group in groupby(cells_of(job, fitted, shown_passes(passes)), key=lambda cell: cell.at):
        methods = list(dict.fromkeys(cell.method for cell in group))
        columns = {
            (method, metric): column
            for method in methods
            for metric, column in zip(with_intervals(), tensors[replicates_name(at, method)], strict=True)
        }
        keys = {"noise": at.noise, "level": at.level}
        rows += [{**keys, **row} for row in interval_rows(Bootstrap(columns), methods, with_intervals())]
    return formats.table_bytes(labelled(job, rows))


def interval_rows(found: Bootstrap, methods: Sequence[str], metrics: Sequence[str]) -> Iterator[Row]:
    """Baseline "" is none: the metric itself."""

    def row(method: str, baseline: str, metric: str, interval: Interval) -> Row:
        numbers = {"value": interval.value, "low": interval.low, "high": interval.high}
        return {"method": method, "baseline": baseline, "metric": metric, **numbers}

    for method in methods:
        for metric in metrics:
            yield row(method, "", metric, found.interval(method, metric))
            for baseline in methods:
                if baseline != method:
                    yield row(method, baseline, metric, found.difference(method, baseline, metric))


def reliability_bytes(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> bytes:
    """Per seed, method and confidence bin of the clean test split."""
    rows: list[Row] = []
    for cell, predictions in scored_cells(job, fitted, cells_of(job, fitted, (p for p in passes if p.clean))):
        n_bins = job.run.settings.reliability_bins
        rows += reliability_rows(predictions, n_bins, seed=cell.seed, method=cell.method)
    return formats.table_bytes(labelled(job, rows))


def coverage_bytes(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> bytes:
    """Per seed, method and shown condition: errors among ever more of the most confident predictions."""

    def rows_of(predictions: Scored) -> Iterator[Row]:
        for coverage, risk in torch.stack(risk_coverage(predictions), 1).tolist():
            yield {"coverage": coverage, "risk": risk}

    cells, columns = cells_of(job, fitted, shown_passes(passes)), ["coverage", "risk"]
    table, marks = cell_by_cell(job, fitted, cells, layout.COVERAGE, columns, rows_of, task="risk and coverage")
    ordered = in_order(table, job.run.settings.methods, "coverage")
    return formats.table_bytes(labelled(job, ordered[["seed", "method", "noise", "level", *columns]]), marks)


def proxy_bytes(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> bytes:
    """Per noise and network, whether the spread tells when predictions are wrong."""
    table, marks = proxy_table(job, passes, *earlier_table(job, layout.PROXY, PROXY_COLUMNS))
    return formats.table_bytes(labelled(job, table), marks)


def reliability_rows(predictions: Scored, n_bins: int, **keys: Any) -> list[Row]:
    bins = bins_of(predictions.confidence, predictions.correct, n_bins=n_bins)
    columns = (bins.edges[:-1], bins.edges[1:], bins.count, bins.accuracy, bins.confidence)
    return [
        {**keys, "bin": i, "lower": low, "upper": up, "count": int(count), "accuracy": acc, "confidence": conf}
        for i, (low, up, count, acc, conf) in enumerate(torch.stack(columns, 1).tolist())
    ]
