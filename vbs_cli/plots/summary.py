"""The numbers of a run in one small table: what the terminal prints and the report shows."""

from __future__ import annotations

import math
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


def markdown(metrics: pd.DataFrame, level: float = 0.5) -> str:
    """The summary as a Markdown table, with a line that says what the numbers are."""
    lines = [" | ".join(["condition", "method", *SCORES]), " | ".join(["---"] * (2 + len(SCORES)))]
    for row in summary(metrics, level).to_dict("records"):
        numbers = [plus_minus(row[f"{score}_mean"], row[f"{score}_std"]) for score in SCORES]
        lines.append(" | ".join([str(row["condition"]), str(row["method"]), *numbers]))
    body = "\n".join(f"| {line} |" for line in lines)
    origin = f"{metrics['dataset'].iloc[0]}, {metrics['source'].iloc[0]}"
    return f"{body}\n\nMean ± standard deviation over {metrics['seed'].nunique()} seeds; data: {origin}.\n"
