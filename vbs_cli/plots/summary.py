"""The numbers of a run in one small table: what the terminal prints and the report shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from vbs_cli.metrics import Interval

SCORES = ("accuracy", "nll", "brier", "ece", "ece_chance", "entropy")
INTERVAL_COLUMNS = ("method", "accuracy", "nll", "brier", "ece", "by chance", "entropy")
DIFFERENCES = ("nll", "brier", "ece")
BASELINE = "conventional"  # what methods are compared with unless another is asked for


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


def count_seeds(rows: pd.DataFrame) -> int:
    """Of how many seeds a table tells; what was made from all seeds together (seed -1) is none of its own."""
    seeds = rows["seed"]
    return int(seeds[seeds >= 0].nunique()) or 1


def sized(values: Sequence[Any]) -> str:
    """A table of numbers by its size: "20 numbers", "20 rows of numbers"."""
    rows = len(values) > 0 and isinstance(values[0], (list, tuple))
    return f"{len(values)} {'rows of numbers' if rows else 'numbers'}"


def conditions(metrics: pd.DataFrame, level: float = 0.5) -> list[Condition]:
    """Clean first, then every noise at its level above zero nearest to `level` (of two equally near, the lower)."""
    found = []
    for noise, rows in metrics.groupby("noise", sort=False):
        levels = sorted(float(each) for each in rows["level"].unique())
        levels = [each for each in levels if each > 0] or levels
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


def cost_lines(costs: Iterable[Mapping[Any, Any]]) -> list[list[str]]:
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
        for row in costs
    ]


KERNEL_COLUMNS = ("kernel", "size", "beside", "vbs", "the other", "ratio", "apart")


def kernel_lines(kernels: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of the kernels' bench as KERNEL_COLUMNS; a dash where there was nothing to measure or compare."""

    def told(value: float | None, form: str) -> str:
        return "-" if value is None or math.isnan(value) else form.format(value)

    return [
        [
            row["kernel"],
            row["size"],
            row["rival"],
            told(row["ours_ms"], "{:.3g} ms"),
            told(row["rival_ms"], "{:.3g} ms"),
            told(row["ratio"], "{:.3g}"),
            told(row["apart"], "{:.1g}"),
        ]
        for row in kernels
    ]


def interval_lines(metrics: pd.DataFrame, intervals: pd.DataFrame) -> list[list[str]]:
    """Rows of INTERVAL_COLUMNS, one per method of one condition: each score ± half its 95 % interval."""
    chance = metrics[metrics["metric"] == "ece_chance"].groupby("method")["value"].mean()
    own = intervals[intervals["baseline"] == ""].set_index(["method", "metric"])
    lines = []
    for method in intervals["method"].unique():
        rows = {score: own.loc[(method, score)] for score in SCORES if score != "ece_chance"}
        cells = {score: plus_minus(row["value"], (row["high"] - row["low"]) / 2) for score, row in rows.items()}
        cells |= {"method": method, "by chance": f"{chance[method]:.3f}"}
        lines.append([cells[column] for column in INTERVAL_COLUMNS])
    return lines


def difference_lines(intervals: pd.DataFrame, baseline: str) -> list[list[str]]:
    """Per method of one condition how far its DIFFERENCES lie from the baseline's, [95 % interval]; * excludes zero."""
    rows = intervals[intervals["baseline"] == baseline].set_index(["method", "metric"])
    methods = [method for method in intervals["method"].unique() if method != baseline]
    return [[method, *(signed(rows.loc[(method, score)]) for score in DIFFERENCES)] for method in methods]


def signed(row: pd.Series[float]) -> str:
    """`-0.008 [-0.012, -0.004] *`."""
    found = Interval(row["value"], row["low"], row["high"])
    star = " *" if found.excludes_zero else ""
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]{star}"


# Whose spread it is, by the network that it was taken of.
SPREAD_OF = {"conventional": "patches", "dropout": "draws", "ensemble": "members"}
GROWING = ("sigma", "error")  # told without noise and at its most
PROXY_COLUMNS = (
    *("noise", "spread of", "sigma_bar", "error rate", "correlation"),
    *("AUROC", "by confidence", "difference", "parts right"),
)


def proxy_lines(proxies: pd.DataFrame) -> list[list[str]]:
    """Per noise and network as PROXY_COLUMNS: how spread and errors grew, and what the one tells of the other."""

    def with_doubt(row: pd.Series[Any]) -> str:
        return plus_minus(row["value"], (row["high"] - row["low"]) / 2, digits=2)

    lines = []
    for (noise, model), rows in proxies.groupby(["noise", "model"], sort=False):
        found = {str(row["quantity"]): row for _, row in rows.iterrows()}
        gain = found["auroc_gain"]
        star = " *" if Interval(gain["value"], gain["low"], gain["high"]).excludes_zero else ""
        lines.append(
            [
                str(noise),
                SPREAD_OF.get(str(model), str(model)),
                *(f"{found[f'{of}_clean']['value']:.2f} to {found[f'{of}_most']['value']:.2f}" for of in GROWING),
                *(with_doubt(found[name]) for name in ("rank_correlation", "auroc_sigma", "auroc_confidence")),
                f"{gain['value']:+.2f}{star}",
                f"{found['patch_accuracy']['value']:.2f}",
            ]
        )
    return lines


def some_levels(rows: pd.DataFrame, count: int = 6) -> list[float]:
    """So many levels of a sweep, evenly from its first to its last."""
    levels = sorted(float(level) for level in rows["level"].unique())
    last = len(levels) - 1
    return [levels[i] for i in dict.fromkeys(round(last * k / (count - 1)) for k in range(count))]


SWEEP_COLUMNS = ("noise", "level", "method", "accuracy", "nll", "brier", "ece", "entropy", "sigma_bar")


def sweep_lines(metrics: pd.DataFrame) -> list[list[str]]:
    """Rows of SWEEP_COLUMNS: means over seeds of every method at some levels of each noise."""
    swept = metrics[metrics["noise"] != "clean"]
    lines = []
    for noise, of_noise in swept.groupby("noise", sort=False):
        shown = of_noise[of_noise["level"].isin(some_levels(of_noise))]
        for (level, method), rows in shown.groupby(["level", "method"], sort=False):
            means = rows.groupby("metric")["value"].mean()
            cells = [plus_minus(float(means[score]), math.nan) for score in SWEEP_COLUMNS[3:]]
            lines.append([str(noise), f"{float(str(level)):.2f}", str(method), *cells])
    return lines


def study_lines(intervals: pd.DataFrame, metrics: Sequence[str]) -> list[list[str]]:
    """Per level and method of a study: each metric ± half its 95 % interval."""
    lines = []
    for level in some_levels(intervals):
        at_level = intervals[(intervals["level"] == level) & (intervals["baseline"] == "")]
        for method in intervals["method"].unique():
            own = {str(row["metric"]): row for _, row in at_level[at_level["method"] == method].iterrows()}
            rows = [own[metric] for metric in metrics]
            cells = [plus_minus(row["value"], (row["high"] - row["low"]) / 2) for row in rows]
            lines.append([f"{level:.2f}", str(method), *cells])
    return lines


def study_differences(intervals: pd.DataFrame, baseline: str, metrics: Sequence[str]) -> list[list[str]]:
    """Per level how far the other method's metrics lie from the baseline's."""
    lines = []
    for level in some_levels(intervals):
        rows = intervals[(intervals["level"] == level) & (intervals["baseline"] == baseline)]
        by_metric = {str(row["metric"]): row for _, row in rows.iterrows()}
        lines.append([f"{level:.2f}", *(signed(by_metric[metric]) for metric in metrics)])
    return lines


def markdown(columns: Sequence[str], lines: Sequence[Sequence[str]], note: str) -> str:
    """A Markdown table and a line that says what the numbers are."""
    return f"{markdown_table(columns, lines)}\n\n{note}\n"


def markdown_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    every = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every)
