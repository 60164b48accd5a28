"""Sparklines: curves as short text, for tables in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from vbs_cli.summary import plus_minus

BARS = "▁▂▃▄▅▆▇█"
MOST = 16  # characters of a curve, so that three of them with their numbers fit into 120 columns
CURVES = ("accuracy", "ece", "entropy")
LEVEL_COLUMNS = ("noise", "method", *CURVES)
RELIABILITY_COLUMNS = ("method", "accuracy by confidence", "examples")
CALIBRATED = "if calibrated"


def spark(values: Iterable[float], low: float, high: float) -> str:
    """Bars as text, one per value, on a scale from `low` to `high`; a space for NaN, the lowest bar without a range."""
    return "".join(bar(float(value), low, high) for value in values)


def bar(value: float, low: float, high: float) -> str:
    """Bar for the one of eight equal steps from `low` to `high` in which the value lies, or the nearest."""
    if math.isnan(value):
        return " "
    if not high > low or value <= low:
        return BARS[0]
    share = 1.0 if value >= high else (value - low) / (high - low)
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)] if math.isfinite(share) else BARS[0]


def thinned(values: Sequence[float], most: int = MOST) -> list[float]:
    """At most `most` of the values, evenly spaced from the first to the last."""
    last = len(values) - 1
    if last < most:
        return list(values)
    return [values[round(last * k / (most - 1))] for k in range(most)]


def level_lines(metrics: pd.DataFrame) -> list[list[str]]:
    """Lines of LEVEL_COLUMNS: means over seeds along a noise's levels, on one scale for all its methods."""
    lines = []
    swept = metrics[(metrics["noise"] != "clean") & metrics["metric"].isin(CURVES)]
    for noise, rows in swept.groupby("noise", sort=False):
        means = rows.pivot_table(index="level", columns=["metric", "method"], values="value", aggfunc="mean")
        lines += [
            [str(noise), str(method), *(level_cell(means, score, method) for score in CURVES)]
            for method in rows["method"].unique()
        ]
    return lines


def level_cell(means: pd.DataFrame, score: str, method: str) -> str:
    """Sparkline of a score with its first and last value, `▁▂▄▆█ 0.17 → 1.06`; a dash if it was not measured."""
    if (score, method) not in means.columns:
        return "-"
    values = [float(value) for value in means[score, method]]
    of_all: Any = means[score]
    curve = spark(thinned(values), float(of_all.min().min()), float(of_all.max().max()))
    return f"{curve} {' → '.join(plus_minus(value, math.nan, 2) for value in (values[0], values[-1]))}"


def reliability_lines(reliability: pd.DataFrame) -> list[list[str]]:
    """Lines of RELIABILITY_COLUMNS: accuracy and number of examples per bin of confidence.

    Seeds are weighted by their examples. The first line is what a calibrated method would show: the middle of each bin.
    """
    if reliability.empty:
        return []
    bins = pooled(reliability)
    most = float(bins["many"].max())
    middles = bins.groupby("bin")["middle"].first()
    lines = [[CALIBRATED, spark(middles, 0, 1), ""]]
    for method in reliability["method"].unique():
        own = bins[bins["method"] == method]
        lines.append([str(method), spark(own["accuracy"], 0, 1), spark(own["many"], 0, most)])
    return lines


def pooled(reliability: pd.DataFrame) -> pd.DataFrame:
    """Table of all seeds pooled, per method and bin: its middle, its accuracy and the logarithm of its count."""
    rows = reliability.assign(
        right=(reliability["accuracy"] * reliability["count"]).fillna(0.0),
        middle=(reliability["lower"] + reliability["upper"]) / 2,
    )
    sums = rows.groupby(["method", "bin"]).agg({"right": "sum", "count": "sum", "middle": "first"}).reset_index()
    filled = sums["count"].where(sums["count"] > 0)  # NaN where a bin is empty
    return sums.assign(accuracy=sums["right"] / filled, many=(filled + 1).map(math.log))
