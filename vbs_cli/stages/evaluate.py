"""`vbs evaluate`: score every method on every cached pass over the test split."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from vbs_cli.errors import VbsError
from vbs_cli.logits import Logits
from vbs_cli.methods import Method, TemperatureMethod
from vbs_cli.metrics import reliability_bins, score
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.run.store import STALE
from vbs_cli.stages import caches
from vbs_cli.stages.base import Job, Target
from vbs_cli.stages.calibrate import calibrate

Row = dict[str, Any]


def targets(job: Job) -> list[Target]:
    """The two tables, made from all the logits that are cached now: clean ones and those of any sweep."""
    clean = tuple(p.name for p in caches.clean_passes(job, "test"))
    all_names = tuple(sorted({*clean, *(p.name for p in caches.usable(job))}))
    bins = {"reliability_bins": job.run.settings.reliability_bins}
    labels = job.labels()
    return [
        (layout.METRICS, Recipe("evaluate", labels, (layout.METHODS, *all_names))),
        (layout.RELIABILITY, Recipe("evaluate", labels | bins, (layout.METHODS, *clean))),
    ]


def evaluate(job: Job) -> pd.DataFrame:
    """Fit what is not fitted, run what is not cached, and write both tables. Returns the metrics."""
    methods = calibrate(replace(job, force=False))
    caches.ensure(job, caches.clean_passes(job, "test"), "test logits")
    say_stale(job)
    metrics, reliability = targets(job)
    passes = caches.usable(job)
    if job.needs(metrics) or any(job.needs((p.name, caches.recipe(job, p))) for p in passes):
        table = metrics_table(job, methods, passes)
        job.run.store.write(metrics[0], formats.table_bytes(table), metrics[1])
    if job.needs(reliability):
        job.run.store.write(reliability[0], formats.table_bytes(reliability_table(job, methods)), reliability[1])
    return job.run.metrics


def say_stale(job: Job) -> None:
    """Tell which sweeps no longer belong to the run's settings and are left out."""
    stale = sorted({p.noise for p, state in caches.known(job) if state.kind == STALE})
    if stale:
        again = " ".join(f"--noise {noise}" for noise in stale)
        job.progress.say(f"left out stale logits of {', '.join(stale)}; vbs noise-sweep {again} makes them again")


def metrics_table(job: Job, methods: dict[int, dict[str, Method]], passes: Iterable[caches.Pass]) -> pd.DataFrame:
    """One row per seed, method, noise, level and metric, in the order of the run's methods."""
    rows: list[Row] = []
    for p in passes:
        record = caches.load(job, p)
        for name, method in methods[p.seed].items():
            if method.model == p.role:
                keys = {"seed": p.seed, "method": name, "noise": p.noise, "level": p.level}
                rows += [{**keys, "metric": metric, "value": value} for metric, value in scores(method, record).items()]
    table = with_level_zero(pd.DataFrame(rows))
    order = {name: position for position, name in enumerate(job.run.settings.methods)}
    by = ["noise", "level", "seed", "method", "metric"]

    def rank(column: pd.Series[Any]) -> pd.Series[Any]:
        return column.map(order) if column.name == "method" else column

    table = table.assign(**job.labels()).sort_values(by, key=rank, kind="stable", ignore_index=True)
    return table[["dataset", "source", "seed", "method", "noise", "level", "metric", "value"]]


def with_level_zero(table: pd.DataFrame) -> pd.DataFrame:
    """Noise of level zero is the clean input, so every sweep begins with the clean rows of its seeds and methods."""
    swept = table[table["noise"] != layout.CLEAN][["noise", "seed", "method"]].drop_duplicates()
    clean = table[table["noise"] == layout.CLEAN].drop(columns="noise")
    return pd.concat([table, clean.merge(swept, on=["seed", "method"])[table.columns]], ignore_index=True)


def scores(method: Method, record: Logits) -> dict[str, float]:
    """The metrics of the predictions, and what the sub-predictions behind them did."""
    assert record.labels is not None
    assert record.sigma is not None
    assert record.part_accuracy is not None
    probs = method.predict_proba(record)
    if isinstance(method, TemperatureMethod):
        check_class_kept(probs, record)
    parts = {"sigma_bar": float(record.sigma.double().mean())}
    parts["patch_accuracy"] = float(record.part_accuracy.double().mean())
    return {**score(probs, record.labels), **parts}


def check_class_kept(probs: Tensor, record: Logits) -> None:
    """A temperature never changes the predicted class; if it did, the accuracy of a table would be wrong."""
    changed = int((probs.argmax(1) != record.logits.argmax(1)).sum())
    if changed:
        raise VbsError(f"a temperature changed {changed} predictions", hint="the logits are beyond double precision")


def reliability_table(job: Job, methods: dict[int, dict[str, Method]]) -> pd.DataFrame:
    """Per seed, method and confidence bin of the clean test split."""
    n_bins = job.run.settings.reliability_bins
    rows: list[Row] = []
    for p in caches.clean_passes(job, "test"):
        record = caches.load(job, p)
        for name, method in methods[p.seed].items():
            if method.model != p.role:
                continue
            bins = reliability_bins(method.predict_proba(record), record.labels, n_bins=n_bins)
            columns = (bins.edges[:-1], bins.edges[1:], bins.count, bins.accuracy, bins.confidence)
            keys = {**job.labels(), "seed": p.seed, "method": name}
            rows += [
                {**keys, "bin": i, "lower": low, "upper": up, "count": int(count), "accuracy": acc, "confidence": conf}
                for i, (low, up, count, acc, conf) in enumerate(torch.stack(columns, 1).tolist())
            ]
    return pd.DataFrame(rows)
