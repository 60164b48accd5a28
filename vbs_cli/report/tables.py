"""The numbers of a run in one small table: what the terminal prints and the report shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from vbs_cli.conditions import some_levels
from vbs_cli.metrics import METRICS, NEITHER, Interval

CHANCE = "by chance"  # what a calibrated predictor would score: a yardstick, not a measurement
INTERVAL_COLUMNS = ("method", "accuracy", "nll", "brier", "ece", CHANCE, "entropy")
DETECTION_COLUMNS = ("method", "aurc", "auroc_confidence", "fpr95_confidence", "auroc_entropy", "auroc_sigma")
DIFFERENCES = ("nll", "brier", "ece")
BASELINE = "conventional"  # what methods are compared with unless another is asked for


def count_seeds(rows: pd.DataFrame) -> int:
    """Of how many seeds a table tells; what was made from all seeds together (seed -1) is none of its own."""
    seeds = rows["seed"]
    return int(seeds[seeds >= 0].nunique()) or 1


def sized(values: Sequence[Any]) -> str:
    """A table of numbers by its size: "20 numbers", "20 rows of numbers"."""
    rows = len(values) > 0 and isinstance(values[0], (list, tuple))
    return f"{len(values)} {'rows of numbers' if rows else 'numbers'}"


def plus_minus(mean: float, std: float, digits: int = 3) -> str:
    """`0.123 ± 0.004`; without the ± where there is no spread to tell, a dash where there is no number."""
    if math.isnan(mean):
        return "-"
    return f"{mean:.{digits}f}" if math.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"


def interval_lines(
    metrics: pd.DataFrame, intervals: pd.DataFrame, columns: Sequence[str] = INTERVAL_COLUMNS
) -> list[list[str]]:
    """Rows of `columns`, one per method of one condition: each score ± half its 95 % interval.

    A dash stands for what was not measured, or has no value, like an AUROC without errors.
    """
    chance = metrics[metrics["metric"] == "ece_chance"].groupby("method")["value"].mean()
    rows = intervals[intervals["baseline"] == ""]
    own = {(row["method"], row["metric"]): row for _, row in rows.iterrows()}

    def told(method: str, column: str) -> str:
        if column == "method":
            return method
        if column == CHANCE:
            return plus_minus(chance.get(method, math.nan), math.nan)
        row = own.get((method, column))
        return "-" if row is None else plus_minus(row["value"], (row["high"] - row["low"]) / 2)

    return [[told(method, column) for column in columns] for method in intervals["method"].unique()]


def best_methods(intervals: pd.DataFrame, metric: str) -> set[str]:
    """The methods of one condition that are better than all others by a paired interval that excludes zero.

    Several only where they are the same by construction, like the accuracies of a network under two temperatures.
    """
    sign = METRICS[metric].better if metric in METRICS else NEITHER
    rows = intervals[(intervals["metric"] == metric) & (intervals["baseline"] != "")]
    same = (rows["value"] == 0) & (rows["low"] == 0) & (rows["high"] == 0)
    ahead = (rows["low"] > 0) if sign > 0 else (rows["high"] < 0)
    found = rows.assign(stands=same | ahead, ahead=ahead).groupby("method")[["stands", "ahead"]]
    best = found.agg({"stands": "all", "ahead": "any"})
    return {str(method) for method in best.index[best["stands"] & best["ahead"]]} if sign else set()


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


GROWING = ("sigma", "error")  # told without noise and at its most
PROXY_COLUMNS = (
    *("noise", "spread of", "sigma_bar", "error rate", "correlation"),
    *("AUROC", "by confidence", "difference", "parts right"),
)


def proxy_lines(proxies: pd.DataFrame) -> list[list[str]]:
    """Per noise and view as PROXY_COLUMNS: how spread and errors grew, and what the one tells of the other.

    The name of a view says what its spread is taken over: patches, draws, members.
    """

    def with_doubt(row: pd.Series[Any]) -> str:
        return plus_minus(row["value"], (row["high"] - row["low"]) / 2, digits=2)

    lines = []
    for (noise, view), rows in proxies.groupby(["noise", "view"], sort=False):
        found = {str(row["quantity"]): row for _, row in rows.iterrows()}
        gain = found["auroc_gain"]
        star = " *" if Interval(gain["value"], gain["low"], gain["high"]).excludes_zero else ""
        lines.append(
            [
                str(noise),
                str(view),
                *(f"{found[f'{of}_clean']['value']:.2f} to {found[f'{of}_most']['value']:.2f}" for of in GROWING),
                *(with_doubt(found[name]) for name in ("rank_correlation", "auroc_sigma", "auroc_confidence")),
                f"{gain['value']:+.2f}{star}",
                f"{found['patch_accuracy']['value']:.2f}",
            ]
        )
    return lines


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


LATEX_SIGNS = {**{sign: f"\\{sign}" for sign in "&%$#_{}"}, "±": r"$\pm$", "Δ": r"$\Delta$", "\\": r"\textbackslash{}"}


def latex_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A tabular environment, text to the left and numbers to the right."""

    def row(cells: Sequence[str]) -> str:
        return " & ".join("".join(LATEX_SIGNS.get(sign, sign) for sign in cell) for cell in cells) + r" \\"

    numeric = [all(line[i][:1].isdigit() or line[i][:1] in "+-" for line in lines) for i in range(len(columns))]
    kinds = "".join("r" if each else "l" for each in numeric)
    body = [r"\hline", row(columns), r"\hline", *(row(line) for line in lines), r"\hline"]
    return "\n".join([rf"\begin{{tabular}}{{{kinds}}}", *body, r"\end{tabular}"])
