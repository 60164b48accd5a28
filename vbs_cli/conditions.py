"""Conditions of the test data: clean, or under one noise at one level; and the choice of those that summaries show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Condition:
    """Condition of the test data: `clean`, or under one noise at one level."""

    noise: str
    level: float

    @property
    def name(self) -> str:
        """Name of the condition: `clean`, `gaussian 0.50`."""
        return "clean" if self.noise == "clean" else f"{self.noise} {self.level:.2f}"

    def of(self, metrics: pd.DataFrame) -> pd.DataFrame:
        """Rows that were measured under this condition."""
        return metrics[(metrics["noise"] == self.noise) & (metrics["level"] == self.level)]


def conditions(metrics: pd.DataFrame, level: float = 0.5) -> list[Condition]:
    """Conditions of a summary: clean, then each noise at its level above 0 nearest to `level` (at a tie, the lower)."""
    found = []
    for noise, rows in metrics.groupby("noise", sort=False):
        levels = sorted(float(each) for each in rows["level"].unique())
        levels = [each for each in levels if each > 0] or levels
        found.append(Condition(str(noise), min(levels, key=lambda each: abs(each - level))))
    return sorted(found, key=lambda condition: condition.noise != "clean")


def some_levels(rows: pd.DataFrame, count: int = 6) -> list[float]:
    """Choose up to `count` levels of a sweep, evenly from its first to its last."""
    return evenly(sorted(float(level) for level in rows["level"].unique()), count)


def evenly(levels: Sequence[float], count: int) -> list[float]:
    """Choose up to `count` of some levels, evenly, with the first and the last among them."""
    last = len(levels) - 1
    return [levels[i] for i in dict.fromkeys(round(last * k / (count - 1)) for k in range(count))]
