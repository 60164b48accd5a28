"""Results of a run as lines of text for small tables, in the terminal, in reports and in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vbs_cli.conditions import EVERYTHING, MEAN, some_levels
from vbs_cli.metrics import METRICS, NEITHER, Interval
from vbs_cli.metrics.shifts import ALL, FAMILY, NOISE, UNSEEN
from vbs_cli.metrics.shifts import MEAN as MEAN_OF
from vbs_cli.metrics.shifts import WORST as WORST_OF

VISIBLE_DIFFERENCE = 0.0005  # a smaller difference does not show in three digits and counts as none
CHANCE = "by chance"  # what a calibrated predictor would score: a yardstick, not a measurement
INTERVAL_COLUMNS = ("method", "accuracy", "nll", "brier", "ece", CHANCE, "entropy")
DETECTION_COLUMNS = ("method", "aurc", "auroc_confidence", "fpr95_confidence", "auroc_entropy", "auroc_sigma")
DIFFERENCES = ("nll", "brier", "ece")
BASELINE = "conventional"  # what methods are compared with unless another is asked for


def count_seeds(rows: pd.DataFrame) -> int:
    """Number of seeds that a table covers, at least 1; rows made from all seeds together (seed -1) do not count."""
    seeds = rows["seed"]
    return int(seeds[seeds >= 0].nunique()) or 1


def describe_size(values: Sequence[Any]) -> str:
    """Size of a list of numbers in words: "20 numbers", "20 rows of numbers"."""
    rows = len(values) > 0 and isinstance(values[0], (list, tuple))
    return f"{len(values)} {'rows of numbers' if rows else 'numbers'}"


def plus_minus(mean: float, std: float, digits: int = 3) -> str:
    """Format `0.123 ± 0.004`; without ± if `std` is NaN, a dash if `mean` is NaN."""
    if math.isnan(mean):
        return "-"
    return f"{mean:.{digits}f}" if math.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"


def interval_lines(
    metrics: pd.DataFrame, intervals: pd.DataFrame, columns: Sequence[str] = INTERVAL_COLUMNS
) -> list[list[str]]:
    """Lines of `columns`, one per method under one condition: each score ± half its 95 % interval.

    A dash stands for a score that was not measured or is undefined, like an AUROC without errors.
    """
    chance = metrics[metrics["metric"] == "ece_chance"].groupby("method")["value"].mean()
    rows = intervals[intervals["baseline"] == ""]
    own = {(row["method"], row["metric"]): row for _, row in rows.iterrows()}

    def cell(method: str, column: str) -> str:
        if column == "method":
            return method
        if column == CHANCE:
            return plus_minus(chance.get(method, math.nan), math.nan)
        row = own.get((method, column))
        return "-" if row is None else plus_minus(row["value"], (row["high"] - row["low"]) / 2)

    return [[cell(method, column) for column in columns] for method in intervals["method"].unique()]


def best_methods(intervals: pd.DataFrame, metric: str) -> set[str]:
    """Methods that are better than all others under one condition, by paired intervals that exclude zero.

    There are several only if they are equal by construction, like the accuracies of a network under two temperatures.
    """
    sign = METRICS[metric].better if metric in METRICS else NEITHER
    rows = intervals[(intervals["metric"] == metric) & (intervals["baseline"] != "")]
    same = (rows["value"] == 0) & (rows["low"] == 0) & (rows["high"] == 0)
    ahead = (rows["low"] > 0) if sign > 0 else (rows["high"] < 0)
    found = rows.assign(stands=same | ahead, ahead=ahead).groupby("method")[["stands", "ahead"]]
    best = found.agg({"stands": "all", "ahead": "any"})
    return {str(method) for method in best.index[best["stands"] & best["ahead"]]} if sign else set()


def difference_lines(intervals: pd.DataFrame, baseline: str) -> list[list[str]]:
    """Lines with each method's differences from the baseline in the metrics DIFFERENCES, under one condition."""
    rows = intervals[intervals["baseline"] == baseline].set_index(["method", "metric"])
    methods = [method for method in intervals["method"].unique() if method != baseline]
    return [[method, *(format_difference(rows.loc[(method, score)]) for score in DIFFERENCES)] for method in methods]


def format_difference(row: pd.Series[float]) -> str:
    """Format a difference, its interval, and a star if that excludes zero: `-0.008 [-0.012, -0.004] *`.

    Differences that do not show in three digits have no star.
    """
    found = Interval(row["value"], row["low"], row["high"])
    visible = max(abs(found.value), abs(found.low), abs(found.high)) >= VISIBLE_DIFFERENCE
    star = " *" if found.excludes_zero and visible else ""
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]{star}"


SHIFT_SCORES = ("accuracy", *DIFFERENCES)


def with_means(intervals: pd.DataFrame, shifts: pd.DataFrame) -> pd.DataFrame:
    """Table of intervals that also has the mean over all levels of each noise, at the level MEAN."""
    if shifts.empty:
        return intervals
    means = shifts.query("suite == '' and over == 'noise' and severity == 0 and statistic == 'mean'").assign(level=MEAN)
    return pd.concat([intervals, means.rename(columns={"name": "noise"})[intervals.columns]], ignore_index=True)


def suites_in(shifts: pd.DataFrame) -> list[str]:
    """Suites that a table sums up; all that was swept, named "", only if it is several noises and no suite."""
    if shifts.empty:
        return []
    named = [str(name) for name in shifts["suite"].unique() if name != EVERYTHING]
    noises = shifts.query("suite == '' and over == 'noise'")["name"].nunique()
    return named or ([EVERYTHING] if noises > 1 else [])


def suite_size(shifts: pd.DataFrame, suite: str) -> tuple[int, int]:
    """Number of shifts and of noises that a suite sums up."""
    of_suite = shifts[shifts["suite"] == suite]
    count = int(of_suite[of_suite["over"] == ALL]["conditions"].max())
    return count, of_suite[of_suite["over"] == NOISE]["name"].nunique()


def suite_title(shifts: pd.DataFrame, suite: str) -> str:
    """Title of a summary over shifts: `cifar10-c: 70 shifts of 14 noises`."""
    count, noises = suite_size(shifts, suite)
    return f"{suite or 'all that was swept'}: {count} shifts of {noises} noises"


def suite_tables(shifts: pd.DataFrame, suite: str, baseline: str) -> list[tuple[list[str], list[list[str]]]]:
    """Columns and lines of all tables on a suite: scores, differences from a baseline, ECE by family and severity."""
    columns = ["method", *SHIFT_SCORES, *(f"{WORST_OF} {score}" for score in DIFFERENCES)]
    means, worst = (suite_lines(shifts, suite, statistic) for statistic in (MEAN_OF, WORST_OF))
    beside = len(SHIFT_SCORES) - len(DIFFERENCES) + 1  # the worst accuracy tells less than the worst of the others
    tables = [(columns, [[*line, *other[beside:]] for line, other in zip(means, worst, strict=True)])]
    for statistic in (MEAN_OF, WORST_OF):
        if differences := suite_differences(shifts, suite, baseline, statistic):
            columns = [f"Δ vs {baseline}", *(f"{statistic} {score}" for score in DIFFERENCES)]
            tables.append((columns, differences))
    for name in unseen_in(shifts, suite):
        columns = [f"without family {name}", *SHIFT_SCORES]
        tables.append((columns, suite_lines(shifts, suite, MEAN_OF, UNSEEN, name)))
    if len(families := families_in(shifts, suite)) > 1:
        tables.append((["mean ece by family", *families], family_lines(shifts, suite)))
    if len(severities := severities_in(shifts, suite)) > 1:
        tables.append((["mean ece by severity", *map(str, severities)], severity_lines(shifts, suite)))
    return tables


def suite_lines(shifts: pd.DataFrame, suite: str, statistic: str, over: str = ALL, name: str = "") -> list[list[str]]:
    """Lines with each method's mean or worst SHIFT_SCORES over shifts, ± half their 95 % interval."""
    found = summed(shifts, suite, over, name, statistic)
    return [
        [method, *(format_half(found[method, score]) for score in SHIFT_SCORES)] for method in methods_of(shifts, suite)
    ]


def suite_differences(
    shifts: pd.DataFrame, suite: str, baseline: str, statistic: str, over: str = ALL, name: str = ""
) -> list[list[str]]:
    """Lines with each method's differences from the baseline over shifts, in DIFFERENCES, of mean or worst scores."""
    found = summed(shifts, suite, over, name, statistic, baseline=baseline)
    others = [method for method in methods_of(shifts, suite) if (method, DIFFERENCES[0]) in found]
    return [[method, *(format_difference(found[method, score]) for score in DIFFERENCES)] for method in others]


def families_in(shifts: pd.DataFrame, suite: str) -> list[str]:
    """Families of the noises of a suite."""
    return [str(name) for name in shifts[(shifts["suite"] == suite) & (shifts["over"] == FAMILY)]["name"].unique()]


def unseen_in(shifts: pd.DataFrame, suite: str) -> list[str]:
    """Family that settings were chosen under, without which the others of a suite are summed up too; or none."""
    return [str(name) for name in shifts[(shifts["suite"] == suite) & (shifts["over"] == UNSEEN)]["name"].unique()]


def severities_in(shifts: pd.DataFrame, suite: str) -> list[int]:
    """Severities over which all noises of a suite are summed up, if they have equally many levels."""
    rows = shifts[(shifts["suite"] == suite) & (shifts["over"] == ALL)]
    return sorted(int(severity) for severity in rows["severity"].unique() if severity)


def family_lines(shifts: pd.DataFrame, suite: str, metric: str = "ece") -> list[list[str]]:
    """Lines with a method and its mean score in each of the families, ± half its 95 % interval."""
    found = [summed(shifts, suite, FAMILY, family, MEAN_OF) for family in families_in(shifts, suite)]
    return score_by_column(methods_of(shifts, suite), found, metric)


def severity_lines(shifts: pd.DataFrame, suite: str, metric: str = "ece") -> list[list[str]]:
    """Lines with a method and its mean score at each of the severities, ± half its 95 % interval."""
    found = [summed(shifts, suite, ALL, "", MEAN_OF, severity=severity) for severity in severities_in(shifts, suite)]
    return score_by_column(methods_of(shifts, suite), found, metric)


def summed(
    shifts: pd.DataFrame, suite: str, over: str, name: str, statistic: str, *, severity: int = 0, baseline: str = ""
) -> dict[tuple[str, str], Any]:
    """Rows of one group of shifts, keyed by method and metric."""
    columns = ["suite", "over", "name", "statistic", "severity", "baseline"]
    wanted = pd.Series([suite, over, name, statistic, severity, baseline], columns)
    rows = shifts[(shifts[columns] == wanted).all(axis=1)]
    return {(str(row["method"]), str(row["metric"])): row for _, row in rows.iterrows()}


def score_by_column(
    methods: Sequence[str], columns: Sequence[Mapping[tuple[str, str], Any]], metric: str
) -> list[list[str]]:
    """Lines with a method and its score in each of the columns, ± half its 95 % interval."""
    return [[method, *(format_half(column[method, metric]) for column in columns)] for method in methods]


def format_half(row: pd.Series[float]) -> str:
    """Score ± half its 95 % interval."""
    return plus_minus(row["value"], (row["high"] - row["low"]) / 2)


def methods_of(shifts: pd.DataFrame, suite: str) -> list[str]:
    return [str(method) for method in shifts[shifts["suite"] == suite]["method"].unique()]


GROWING = ("sigma", "error")  # shown without noise and at the strongest level
PROXY_COLUMNS = (
    *("noise", "spread of", "sigma_bar", "error rate", "correlation"),
    *("AUROC", "by confidence", "difference", "parts right"),
)


def proxy_lines(proxies: pd.DataFrame) -> list[list[str]]:
    """Lines of PROXY_COLUMNS, one per noise and view: how spread and errors grow, and how the two are related.

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
    """Lines of SWEEP_COLUMNS: means over seeds of every method at some levels of each noise."""
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
    """Lines of a study, one per level and method: each metric ± half its 95 % interval."""
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
    """Lines of a study, one per level: differences of the other method's metrics from the baseline's."""
    lines = []
    for level in some_levels(intervals):
        rows = intervals[(intervals["level"] == level) & (intervals["baseline"] == baseline)]
        by_metric = {str(row["metric"]): row for _, row in rows.iterrows()}
        lines.append([f"{level:.2f}", *(format_difference(by_metric[metric]) for metric in metrics)])
    return lines


def markdown(columns: Sequence[str], lines: Sequence[Sequence[str]], note: str) -> str:
    """Markdown table, and a note that says what the numbers are."""
    return f"{markdown_table(columns, lines)}\n\n{note}\n"


def markdown_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    every = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every)


LATEX_SIGNS = {**{sign: f"\\{sign}" for sign in "&%$#_{}"}, "±": r"$\pm$", "Δ": r"$\Delta$", "\\": r"\textbackslash{}"}


def latex_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """LaTeX tabular, with text aligned to the left and numbers to the right."""

    def row(cells: Sequence[str]) -> str:
        return " & ".join("".join(LATEX_SIGNS.get(sign, sign) for sign in cell) for cell in cells) + r" \\"

    numeric = [all(line[i][:1].isdigit() or line[i][:1] in "+-" for line in lines) for i in range(len(columns))]
    kinds = "".join("r" if each else "l" for each in numeric)
    body = [r"\hline", row(columns), r"\hline", *(row(line) for line in lines), r"\hline"]
    return "\n".join([rf"\begin{{tabular}}{{{kinds}}}", *body, r"\end{tabular}"])
