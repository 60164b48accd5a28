"""`vbs evaluate`: score every method on every cached pass over the test split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from vbs_cli.errors import VbsError
from vbs_cli.logits import Logits
from vbs_cli.methods import Method, TemperatureMethod
from vbs_cli.metrics import METRICS, Bootstrap, Interval, Scored, bootstrap, scored, values_of
from vbs_cli.metrics.reliability import bins_of
from vbs_cli.plots.summary import Condition, conditions
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.run.store import STALE
from vbs_cli.seeding import threads
from vbs_cli.stages import caches, networks
from vbs_cli.stages.base import Job, Target
from vbs_cli.stages.calibrate import calibrate

Row = dict[str, Any]
Fitted = Mapping[int, Mapping[str, Method]]
Cells = dict[str, dict[int, Scored]]  # by method and seed


def targets(job: Job) -> list[Target]:
    """The tables, made from all the logits that are cached now: clean ones and those of any sweep."""
    passes = [*caches.clean_passes(job, "test"), *caches.usable(job)]
    clean, shown = (p for p in passes if p.noise == layout.CLEAN), shown_passes(passes)
    labels = {**job.labels(), "metrics": list(METRICS)}
    bins = {**job.labels(), "reliability_bins": job.run.settings.reliability_bins}

    def made_from(some: Iterable[caches.Pass], settings: Row) -> Recipe:
        return Recipe("evaluate", settings, (layout.METHODS, *sorted({p.name for p in some})))

    return [
        (layout.METRICS, made_from(passes, labels)),
        (layout.INTERVALS, made_from(shown, labels)),
        (layout.RELIABILITY, made_from(clean, bins)),
    ]


def shown_passes(passes: Iterable[caches.Pass]) -> list[caches.Pass]:
    """Those under the conditions that summaries show: clean, and each noise at a middle level."""
    passes = list(passes)
    levels = pd.DataFrame([{"noise": p.noise, "level": p.level} for p in passes])
    shown = conditions(levels)
    return [p for p in passes if Condition(p.noise, p.level) in shown]


def evaluate(job: Job) -> pd.DataFrame:
    """Fit what is not fitted, run what is not cached, and write the tables. Returns the metrics."""
    networks.ensure(job, caches.clean_passes(job, "test"), before=caches.clean_passes(job, "val"))
    fitted = calibrate(replace(job, force=False))
    say_stale(job)
    passes = caches.usable(job)
    makers = {layout.METRICS: metrics_table, layout.INTERVALS: intervals_table, layout.RELIABILITY: reliability_table}
    lost = any(job.needs((p.name, caches.recipe(job, p))) for p in passes)
    for name, recipe in targets(job):
        if job.needs((name, recipe)) or lost:
            table = makers[name](job, fitted, passes).assign(**job.labels())
            columns = ["dataset", "source", *(column for column in table if column not in ("dataset", "source"))]
            job.run.store.write(name, formats.table_bytes(table[columns]), recipe)
    return job.run.metrics


def say_stale(job: Job) -> None:
    """Tell which sweeps no longer belong to the run's settings and are left out."""
    stale = sorted({p.noise for p, state in caches.known(job) if state.kind == STALE})
    if stale:
        again = " ".join(f"--noise {noise}" for noise in stale)
        job.progress.say(f"left out stale logits of {', '.join(stale)}; vbs noise-sweep {again} makes them again")


def scored_conditions(job: Job, fitted: Fitted, passes: Iterable[caches.Pass]) -> Iterator[tuple[Condition, Cells]]:
    """The predictions of every method and seed under each condition, in the order of the run's methods."""

    def condition(p: caches.Pass) -> tuple[str, float]:
        return p.noise, p.level

    for (noise, level), group in groupby(sorted(passes, key=condition), key=condition):
        cells: Cells = {name: {} for name in job.run.settings.methods}
        for (seed, role), record in caches.records(job, group).items():
            for name, method in fitted.get(seed, {}).items():
                if method.model == role:
                    cells[name][seed] = scored_record(method, record)
        yield Condition(noise, level), {name: by_seed for name, by_seed in cells.items() if by_seed}


def scored_record(method: Method, record: Logits) -> Scored:
    """The predictions of a method, with what the sub-predictions behind them did."""
    probs = method.predict_proba(record)
    if isinstance(method, TemperatureMethod):
        check_class_kept(probs, method.scores(record))
    return scored(probs, record.labels, sigma=record.sigma, part_accuracy=record.part_accuracy)


def check_class_kept(probs: Tensor, scores: Tensor) -> None:
    """A temperature never changes the predicted class; if it did, the accuracy of a table would be wrong."""
    changed = int((probs.argmax(1) != scores.argmax(1)).sum())
    if changed:
        raise VbsError(f"a temperature changed {changed} predictions", hint="the logits are beyond double precision")


def metrics_table(job: Job, fitted: Fitted, passes: Iterable[caches.Pass]) -> pd.DataFrame:
    """One row per noise, level, seed, method and metric, in the order of the run's methods."""
    rows: list[Row] = [
        {"seed": seed, "method": name, "noise": at.noise, "level": at.level, "metric": metric, "value": value}
        for at, cells in scored_conditions(job, fitted, passes)
        for name, by_seed in cells.items()
        for seed, predictions in by_seed.items()
        for metric, value in values_of(predictions, tuple(METRICS)).items()
    ]
    table = with_level_zero(pd.DataFrame(rows))
    order = {name: position for position, name in enumerate(job.run.settings.methods)}
    by = ["noise", "level", "seed", "method", "metric"]

    def rank(column: pd.Series[Any]) -> pd.Series[Any]:
        return column.map(order) if column.name == "method" else column

    return table.sort_values(by, key=rank, kind="stable", ignore_index=True)


def with_level_zero(table: pd.DataFrame) -> pd.DataFrame:
    """Noise of level zero is the clean input, so every sweep begins with the clean rows of its seeds and methods."""
    swept = table[table["noise"] != layout.CLEAN][["noise", "seed", "method"]].drop_duplicates()
    clean = table[table["noise"] == layout.CLEAN].drop(columns="noise")
    return pd.concat([table, clean.merge(swept, on=["seed", "method"])[table.columns]], ignore_index=True)


def intervals_table(job: Job, fitted: Fitted, passes: Iterable[caches.Pass]) -> pd.DataFrame:
    """Per condition the interval of each method's metrics, and of their differences from every other method."""
    rows: list[Row] = []
    shown = shown_passes(passes)
    # What a calibrated predictor would score by chance is a yardstick, and has no interval of its own.
    names = [name for name in METRICS if not name.endswith("_chance")]
    with threads(1), job.progress.task("intervals", len({(p.noise, p.level) for p in shown})) as task:
        for at, cells in scored_conditions(job, fitted, shown):
            task.note(at.name)
            found = bootstrap(common_seeds(cells), metrics=names)
            keys = {"noise": at.noise, "level": at.level}
            rows += [{**keys, **row} for row in interval_rows(found, list(cells), names)]
            task.advance(1)
        task.note(f"{len(rows)} of metrics and differences")
    return pd.DataFrame(rows)


def common_seeds(cells: Cells) -> dict[str, list[Scored]]:
    """The predictions of the seeds that every method has; those of all seeds together stand alone."""
    per_seed = [set(by_seed) for by_seed in cells.values() if layout.TOGETHER not in by_seed]
    seeds = sorted(set.intersection(*per_seed)) if per_seed else []
    return {
        name: [by_seed[layout.TOGETHER]] if layout.TOGETHER in by_seed else [by_seed[seed] for seed in seeds]
        for name, by_seed in cells.items()
    }


def interval_rows(found: Bootstrap, methods: list[str], metrics: list[str]) -> Iterator[Row]:
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


def reliability_table(job: Job, fitted: Fitted, passes: Iterable[caches.Pass]) -> pd.DataFrame:
    """Per seed, method and confidence bin of the clean test split."""
    rows: list[Row] = []
    clean = (p for p in passes if p.noise == layout.CLEAN)
    for _, cells in scored_conditions(job, fitted, clean):
        for name, by_seed in cells.items():
            for seed, predictions in by_seed.items():
                rows += reliability_rows(predictions, job.run.settings.reliability_bins, seed=seed, method=name)
    return pd.DataFrame(rows)


def reliability_rows(predictions: Scored, n_bins: int, **keys: Any) -> list[Row]:
    bins = bins_of(predictions.confidence, predictions.correct, n_bins=n_bins)
    columns = (bins.edges[:-1], bins.edges[1:], bins.count, bins.accuracy, bins.confidence)
    return [
        {**keys, "bin": i, "lower": low, "upper": up, "count": int(count), "accuracy": acc, "confidence": conf}
        for i, (low, up, count, acc, conf) in enumerate(torch.stack(columns, 1).tolist())
    ]
