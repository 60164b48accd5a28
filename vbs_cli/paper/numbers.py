"""Numbers of a run that claims are judged by, read from tables that may be empty, and formatted as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from vbs_cli.metrics import Interval
from vbs_cli.plots.base import Tables
from vbs_cli.plots.style import method_style


class NotTested(Exception):
    """Error for a claim that cannot be judged: what the run lacks, and the command that makes it."""


@dataclass(frozen=True)
class Results:
    """Tables, dataset and fitted parameters of a run, by which claims are judged."""

    tables: Tables
    dataset: str
    fitted: Mapping[str, Mapping[str, Mapping[str, Any]]]  # parameters by seed and method


def rows_of(table: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    """Rows of a table with these values; none if it lacks a column."""
    if any(column not in table for column in wanted):
        return table.iloc[:0]
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


def label(method: str) -> str:
    return "VBS" if method == "vbs" else method_style(method).label


def metric_label(metric: str) -> str:
    return {"ece": "ECE", "brier": "Brier score"}.get(metric, metric)


def means(table: pd.DataFrame, **wanted: object) -> pd.Series[float]:
    """Values by level, mean over seeds, at the levels that all seeds have."""
    rows = rows_of(table, **wanted)
    if rows.empty:
        return pd.Series(dtype=float)
    return rows.pivot_table(index="level", columns="seed", values="value").dropna().mean(axis=1)


def need(run: Results, method: str) -> None:
    """Refuse to judge a method that the run does not have."""
    if len(run.tables.metrics) and rows_of(run.tables.metrics, method=method).empty:
        raise NotTested(f"{label(method)} is not among the run's methods: vbs evaluate --methods all")


def curve(run: Results, noise: str, method: str, metric: str) -> pd.Series[float]:
    """Metric by level over a sweep of at least three levels from 0 on, or NotTested."""
    command = f"vbs noise-sweep --noise {noise}"
    if rows_of(run.tables.metrics, noise=noise).empty:
        raise NotTested(f"no sweep of {noise} noise: {command}")
    need(run, method)
    found = means(run.tables.metrics, noise=noise, method=method, metric=metric)
    if len(found) < 3 or found.index[0] != 0:
        raise NotTested(f"no {metric} of {label(method)} at three levels from 0 on: {command}")
    return found


def strongest(found: pd.Series[float]) -> float:
    return float(str(found.index[-1]))


def difference(run: Results, method: str, baseline: str, metric: str, noise: str = "clean") -> tuple[float, Interval]:
    """Strongest level with an interval of the paired difference of two methods, and that interval."""
    for each in (method, baseline):
        need(run, each)
    rows = rows_of(run.tables.intervals, noise=noise, method=method, baseline=baseline, metric=metric)
    rows = rows.dropna(subset=["value", "low", "high"]) if len(rows) else rows
    if rows.empty:
        where = "on clean data" if noise == "clean" else f"under {noise} noise"
        command = "vbs evaluate" if noise == "clean" else f"vbs noise-sweep --noise {noise}"
        pair = f"{label(method)} and {label(baseline)}"
        raise NotTested(f"no difference in {metric_label(metric)} between {pair} {where}: {command}")
    row = rows.sort_values("level").iloc[-1]
    return float(row["level"]), Interval(float(row["value"]), float(row["low"]), float(row["high"]))


def format_interval(found: Interval) -> str:
    """Format as `difference -0.001 [-0.002, +0.000]`, with a remark if it may be zero."""
    text = f"difference {found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    if found.low == found.high == 0:
        return f"{text}: they are the same"
    return text if found.excludes_zero else f"{text}: no difference can be told"


def both(run: Results, method: str, baseline: str, metric: str, *, noise: str, level: float) -> str:
    """Format the values of two methods as `ECE 0.010 of VBS and 0.011 of conventional, `."""
    at_level = rows_of(run.tables.intervals, noise=noise, level=level, baseline="", metric=metric)
    parts = [
        f"{rows['value'].iloc[0]:.3f} of {label(each)}"
        for each in (method, baseline)
        if len(rows := rows_of(at_level, method=each))
    ]
    return f"{metric_label(metric)} {' and '.join(parts)}, "
