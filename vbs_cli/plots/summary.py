"""The numbers of a run in one small table: what the terminal prints and the report shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

SCORES = ("accuracy", "nll", "brier", "ece", "entropy")


@dataclass(frozen=True)
class Condition:
    """The test data as they are (`clean`), or under one noise at one level."""

    noise: str
    level: float

    @property
    def name(self) -> str:
        """`clean`, `gaussian 0.50`."""
        return "clean" if self.noise == "clean" else f"{self.noise} {self.level:.2f}"

    def of(self, metrics: pd.DataFrame) -> pd.DataFrame:
        """The rows that were measured under this condition."""
        return metrics[(metrics["noise"] == self.noise) & (metrics["level"] == self.level)]


def conditions(metrics: pd.DataFrame, level: float = 0.5) -> list[Condition]:
    """Clean first, then every noise at its level nearest to `level` (of two equally near, the lower)."""
    found = []
    for noise, rows in metrics.groupby("noise", sort=False):
        levels = sorted(float(each) for each in rows["level"].unique())
        found.append(Condition(str(noise), min(levels, key=lambda each: abs(each - level))))
    return sorted(found, key=lambda condition: condition.noise != "clean")


def summary(metrics: pd.DataFrame, level: float = 0.5) -> pd.DataFrame:
    """One row per condition and method: `<metric>_mean` and `<metric>_std` (sample, over seeds) per score.

    Methods stand in the order in which they first appear. The standard deviation of a single seed is NaN.
    """
    columns = ["condition", "method", *(f"{score}_{part}" for score in SCORES for part in ("mean", "std"))]
    methods = list(metrics["method"].unique())
    records = []
    for condition in conditions(metrics, level):
        rows = condition.of(metrics)
        for method in methods:
            values = rows[rows["method"] == method]
            if len(values):
                records.append({"condition": condition.name, "method": method, **_moments(values)})
    return pd.DataFrame(records, columns=columns)


def _moments(rows: pd.DataFrame) -> dict[str, float]:
    """Mean and sample standard deviation of each score; NaN for a score that was not measured."""
    moments = {}
    for score in SCORES:
        values = rows[rows["metric"] == score]["value"]
        moments[f"{score}_mean"] = float(values.mean())
        moments[f"{score}_std"] = float(values.std(ddof=1))
    return moments


def plus_minus(mean: float, std: float, digits: int = 3) -> str:
    """`0.123 ± 0.004`; without the ± where there is no spread to tell, a dash where there is no number."""
    if math.isnan(mean):
        return "-"
    return f"{mean:.{digits}f}" if math.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"


COST_COLUMNS = ("method", "variant", "memory", "ratio", "latency", "ratio", "FLOPs", "ratio")


def cost_lines(costs: pd.DataFrame) -> list[list[str]]:
    """Rows of the bench as COST_COLUMNS, each cost beside its ratio to the conventional prediction."""
    return [
        [
            row["method"],
            row["variant"],
            f"{row['memory_bytes'] / 1e6:.1f} MB",
            f"{row['memory_ratio']:.2f}",
            f"{row['latency_ms']:.1f} ms",
            f"{row['latency_ratio']:.2f}",
            f"{row['flops'] / 1e9:.3f} G",
            f"{row['flops_ratio']:.3f}",
        ]
        for row in costs.to_dict("records")
    ]


def score_lines(metrics: pd.DataFrame, level: float = 0.5) -> list[list[str]]:
    """Rows of the summary as text: condition, method, then the scores."""
    return [
        [
            str(row["condition"]),
            str(row["method"]),
            *(plus_minus(row[f"{score}_mean"], row[f"{score}_std"]) for score in SCORES),
        ]
        for row in summary(metrics, level).to_dict("records")
    ]


def markdown(columns: Sequence[str], lines: Sequence[Sequence[str]], note: str) -> str:
    """A Markdown table and a line that says what the numbers are."""
    every = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every) + f"\n\n{note}\n"
