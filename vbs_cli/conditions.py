"""Conditions of the test data: clean, or under one noise at one level; and the choice of those that summaries show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

CLEAN = "clean"  # name in place of a noise's, for data that nothing was done to
EVERYTHING = ""  # in place of a suite's name, for all that was swept
MEAN = -1.0  # in place of a level, for the mean over all levels of a noise
FEW_NOISES = 4  # that summaries show one by one; more of them are summed up
HALFWAY = 0.5  # share of the way from the clean accuracy to chance, at which a noise is shown
FALLBACK = 0.5  # level that is shown, or the nearest to it, where accuracies were not measured


@dataclass(frozen=True)
class Condition:
    """Condition of the test data: `clean`, under one noise at one level, or the mean over all levels of a noise.

    A second test set has its name in place of a noise's, and the level 1 if it has no levels of its own.
    """

    noise: str
    level: float
    one_of_several: bool = field(default=False, compare=False)  # whether the noise has other levels

    @property
    def second_set(self) -> bool:
        """Whether this stands for other test data rather than for a noise on the test split."""
        from vbs_cli.data.noise import NOISES  # which imports torch

        return self.noise != CLEAN and self.noise not in NOISES

    @property
    def alone(self) -> bool:
        """Whether this is the clean data or a second test set that has no levels."""
        return self.noise == CLEAN or (self.level == 1 and self.second_set and not self.one_of_several)

    @property
    def name(self) -> str:
        """Name of the condition: `clean`, `gaussian 0.50`, `gaussian, mean over levels`, `phone`."""
        if self.alone:
            return self.noise
        return f"{self.noise}, mean over levels" if self.level == MEAN else f"{self.noise} {self.level:.2f}"

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """Rows of this condition; for a mean that the table does not hold, the rows of all levels above zero."""
        rows = table[table["noise"] == self.noise]
        at_level = rows[rows["level"] == self.level]
        return rows[rows["level"] > 0] if self.level == MEAN and at_level.empty else at_level


def conditions(table: pd.DataFrame) -> list[Condition]:
    """Conditions that a summary shows of a table of scores or intervals: clean, then each noise at one level.

    That is the level at which accuracy comes nearest to half of the way from clean to chance, at a tie the lowest:
    below it little has happened, beyond it there is little left to lose. Means over levels, where the table has
    them, come behind the level of their noise.
    """
    accuracy, half = accuracies(table)
    found = []
    for noise, rows in table.groupby("noise", sort=False):
        levels = sorted(float(each) for each in rows["level"].unique())
        above = [each for each in levels if each > 0] or [max(levels)]

        def distance(level: float, noise: str = str(noise)) -> float:
            measured = accuracy.get((noise, level))
            # Rounded, so that a sum in another order does not decide between levels of the same accuracy.
            return round(abs(level - FALLBACK) if measured is None else abs(measured - half), 9)

        shown = [min(above, key=distance), *([MEAN] if MEAN in levels and len(above) > 1 else [])]
        found += [Condition(str(noise), level, len(above) > 1) for level in shown]
    return sorted(found, key=lambda condition: condition.noise != CLEAN)


def accuracies(table: pd.DataFrame) -> tuple[dict[tuple[str, float], float], float]:
    """Accuracy of the first method under each condition, and the accuracy half of the way from clean to chance.

    Empty if the table lacks accuracies or what tells the number of classes.
    """
    rows = table[table["baseline"] == ""] if "baseline" in table else table
    if "metric" not in rows or rows.empty:
        return {}, math.nan
    rows = rows[rows["method"] == rows["method"].iloc[0]]
    means = rows.groupby(["metric", "noise", "level"])["value"].mean().to_dict()
    clean = [means.get((metric, CLEAN, 0.0)) for metric in ("accuracy", "entropy", "kl_uniform")]
    if any(value is None for value in clean):
        return {}, math.nan
    chance = math.exp(-(clean[1] + clean[2]))  # entropy and divergence from uniform add up to log K
    found = {(noise, level): value for (metric, noise, level), value in means.items() if metric == "accuracy"}
    return found, clean[0] + HALFWAY * (chance - clean[0])


def some_levels(rows: pd.DataFrame, count: int = 6) -> list[float]:
    """Choose up to `count` levels of a sweep, evenly from its first to its last."""
    return evenly(sorted(float(level) for level in rows["level"].unique()), count)


def evenly(levels: Sequence[float], count: int) -> list[float]:
    """Choose up to `count` of some levels, evenly, with the first and the last among them."""
    last = len(levels) - 1
    return [levels[i] for i in dict.fromkeys(round(last * k / (count - 1)) for k in range(count))]
