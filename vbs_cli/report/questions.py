"""Questions of a report, with the tables and figures of a run that answer them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from vbs_cli.conditions import CLEAN, MEAN, Condition, conditions
from vbs_cli.metrics.shifts import ALL, UNSEEN
from vbs_cli.metrics.shifts import MEAN as MEAN_OF
from vbs_cli.metrics.shifts import WORST as WORST_OF
from vbs_cli.plots.base import Tables
from vbs_cli.plots.style import method_style
from vbs_cli.report.costs import COST_COLUMNS, cost_lines, cost_notes
from vbs_cli.summary import (
    BASELINE,
    CHANCE,
    DETECTION_COLUMNS,
    DIFFERENCES,
    INTERVAL_COLUMNS,
    PROXY_COLUMNS,
    SHIFT_SCORES,
    best_methods,
    difference_lines,
    families_in,
    family_lines,
    interval_lines,
    proxy_lines,
    severities_in,
    severity_lines,
    study_lines,
    suite_differences,
    suite_lines,
    suite_title,
    suites_in,
    unseen_in,
    with_means,
)

NAMES = {
    **{"method": "Method", "accuracy": "Accuracy", "nll": "NLL", "brier": "Brier", "ece": "ECE", CHANCE: "by chance"},
    **{"entropy": "Entropy", "aurc": "AURC", "auroc_confidence": "AUROC, confidence"},
    **{"fpr95_confidence": "FPR at 95 %", "auroc_entropy": "AUROC, entropy", "auroc_sigma": "AUROC, sigma_bar"},
    **{"kl_uniform": "KL to uniform", "level": "Level"},
}
STUDIED = ("accuracy", "kl_uniform", "ece", "brier", "entropy")


@dataclass(frozen=True)
class TableCell:
    """Text of one number, and whether its interval shows it to be the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Group:
    """Rows under one heading, each a name and its cells."""

    title: str
    rows: Sequence[tuple[str, Sequence[TableCell]]]


@dataclass(frozen=True)
class TableView:
    """Table of an HTML page: its title, columns, groups of rows, and a note."""

    title: str
    columns: Sequence[str]
    groups: Sequence[Group]
    note: str = ""


@dataclass(frozen=True)
class Question:
    """Section of a report: a question, the tables that answer it, and the names of its figures."""

    title: str
    tables: Sequence[TableView]
    figures: Sequence[str]


def questions(tables: Tables) -> list[Question]:
    """Questions of a report in order, each with the tables that the run has for it."""
    tables = replace(tables, intervals=with_means(tables.intervals, tables.shifts))
    every = conditions(tables.intervals) if len(tables.intervals) else []
    shown = [each for each in every if each.level != MEAN]
    clean = [each for each in every if each.noise == CLEAN]
    noisy = [each for each in every if each.noise != CLEAN]
    return [
        Question("Can the confidence be believed?", scores(tables, clean), ("reliability", "reliability-methods")),
        Question("Does it hold under all shifts together?", suites(tables), ("families", "noises")),
        Question("And when the inputs get worse?", scores(tables, noisy), ("shift", "shift-scores")),
        Question("Does the spread tell when predictions are wrong?", spread(tables), ("sigma",)),
        Question("Which predictions can be kept?", detection(tables, shown), ("risk-coverage",)),
        Question("What does it cost?", costs(tables), ("cost",)),
        Question("Does smoothing help an ensemble?", ensembles(tables), ("ensemble-study",)),
        Question("What did the networks see, and how did they learn?", (), ("examples", "training")),
    ]


def scores(tables: Tables, shown: Sequence[Condition]) -> list[TableView]:
    """Tables of the scores of all methods, and of their differences from the conventional prediction's."""
    if not shown:
        return []
    own = TableView(
        "Scores",
        headings(INTERVAL_COLUMNS),
        [Group(each.name, score_rows(tables, each, INTERVAL_COLUMNS)) for each in shown],
        note="± half the 95 % interval over examples and seeds. Bold: better than every other method by a paired "
        "interval that excludes zero (accuracy high; NLL, Brier and ECE low). By chance: the ECE that a perfectly "
        "calibrated predictor with the same confidences would score.",
    )
    if BASELINE not in set(tables.intervals["method"]):
        return [own]
    groups = [
        Group(each.name, list(plain_rows(difference_lines(each.of(tables.intervals), BASELINE), method_label)))
        for each in shown
    ]
    apart = TableView(
        f"Difference from the {BASELINE} prediction",
        headings(("method", *DIFFERENCES)),
        groups,
        note="Paired, with its 95 % interval; * where that excludes zero. Below zero is better.",
    )
    return [own, apart] if any(group.rows for group in groups) else [own]


def score_rows(tables: Tables, condition: Condition, columns: Sequence[str]) -> list[tuple[str, list[TableCell]]]:
    """Rows of the methods under one condition, the best value of a column marked where an interval supports it."""
    intervals = condition.of(tables.intervals)
    best = {column: best_methods(intervals, column) for column in columns}
    return [
        (
            method_style(line[0]).label,
            [TableCell(text, line[0] in best[column]) for column, text in zip(columns[1:], line[1:], strict=True)],
        )
        for line in interval_lines(condition.of(tables.metrics), intervals, columns)
    ]


def suites(tables: Tables) -> list[TableView]:
    """Tables of mean and worst scores over the shifts of each suite, of differences, and of ECE by family."""
    found = []
    for suite in suites_in(tables.shifts):
        found += views_of_suite(tables.shifts, suite)
    return found


def views_of_suite(shifts: pd.DataFrame, suite: str) -> list[TableView]:
    """Tables of one suite; what was fitted under one family's noise is shown on the other families too."""
    groups = {(ALL, ""): suite_title(shifts, suite)}
    groups |= {
        (UNSEEN, name): f"without the family {name}, under which settings were chosen"
        for name in unseen_in(shifts, suite)
    }
    own, apart = [], []
    for (over, name), title in groups.items():
        for statistic in (MEAN_OF, WORST_OF):
            lines = suite_lines(shifts, suite, statistic, over, name)
            own.append(Group(f"{title}, {statistic}", list(plain_rows(lines, method_label))))
            lines = suite_differences(shifts, suite, BASELINE, statistic, over, name)
            apart.append(Group(f"{title}, {statistic}", list(plain_rows(lines, method_label))))
    columns = headings(("method", *SHIFT_SCORES))
    views = [TableView("Mean and worst scores over shifts", columns, own, note=SUITE_NOTE)]
    if BASELINE in set(shifts["method"]):
        note = "Paired, with its 95 % interval; * where that excludes zero. Below zero is better."
        title = f"Difference from the {BASELINE} prediction over shifts"
        views.append(TableView(title, headings(("method", *DIFFERENCES)), apart, note=note))
    for by, names, lines in (
        ("family of noises", families_in(shifts, suite), family_lines(shifts, suite)),
        ("severity", list(map(str, severities_in(shifts, suite))), severity_lines(shifts, suite)),
    ):
        if len(names) > 1:
            rows = list(plain_rows(lines, method_label))
            views.append(TableView(f"Mean ECE by {by}", ["Method", *names], [Group("", rows)], note=HALF_NOTE))
    return views


HALF_NOTE = "± half the 95 % interval over examples and seeds."
SUITE_NOTE = (
    "± half the 95 % interval over examples and seeds, which are the same under every shift. Means are over noises of "
    "the mean over the levels of each, so that every noise weighs the same; the worst is the worst single noise and "
    "level."
)


def detection(tables: Tables, shown: Sequence[Condition]) -> list[TableView]:
    """Table of how well the uncertainty of each method detects its errors."""
    note = (
        "AURC: mean error rate over all shares of predictions that one could keep, the most confident first. AUROC: of "
        "low confidence, high entropy and high sigma_bar for errors (0.5 is chance). FPR at 95 %: share of right "
        "predictions rejected along with 95 % of the errors. ± and bold as above."
    )
    groups = [Group(each.name, score_rows(tables, each, DETECTION_COLUMNS)) for each in shown]
    return [TableView("Errors found by doubt", headings(DETECTION_COLUMNS), groups, note)] if groups else []


def spread(tables: Tables) -> list[TableView]:
    """Table that shows whether sigma_bar rises with the errors as each noise grows."""
    if tables.proxy.empty:
        return []
    groups = [
        Group(str(noise), list(plain_rows([line[1:] for line in proxy_lines(rows)])))
        for noise, rows in tables.proxy.groupby("noise", sort=False)
    ]
    note = (
        "sigma_bar and error rate: without noise, and at its most. Correlation: Spearman's, between the two over the "
        "levels. AUROC: of high sigma_bar, and by low confidence, for the errors among the inputs of all levels "
        "together (0.5 is chance; * where the interval of the difference excludes zero). Parts right: accuracy of "
        "single patches, draws or members without noise."
    )
    return [TableView("Spread and errors", PROXY_COLUMNS[1:], groups, note)]


def costs(tables: Tables) -> list[TableView]:
    """Table of what a prediction of each method costs, with ratios to the conventional one."""
    if tables.bench.empty:
        return []
    costs = tables.bench.to_dict("records")
    rows = plain_rows(cost_lines(costs), method_label)
    notes_text = ". ".join(note[0].upper() + note[1:] for note in cost_notes(costs))
    note = f"Batches of {tables.bench['batch'].iloc[0]}. {notes_text}."
    return [TableView("Cost of a prediction", ("Method", *COST_COLUMNS[1:]), [Group("", list(rows))], note)]


def ensembles(tables: Tables) -> list[TableView]:
    """Table of the deep and the smoothed ensemble at some levels."""
    if tables.study_intervals.empty:
        return []
    groups: dict[str, list[Sequence[str]]] = {}
    for level, *line in study_lines(tables.study_intervals, STUDIED):
        groups.setdefault(level, []).append(line)
    noise = tables.study_intervals["noise"].iloc[0]
    shown = [Group(f"{noise} {level}", list(plain_rows(lines, method_label))) for level, lines in groups.items()]
    note = "± half the 95 % interval over examples. KL to uniform is the distance from knowing nothing."
    return [TableView("Ensembles", headings(("method", *STUDIED)), shown, note)]


def plain_rows(
    lines: Sequence[Sequence[str]], name: Callable[[str], str] = str
) -> Iterator[tuple[str, list[TableCell]]]:
    """Yield lines of text as rows of cells, none of them marked as best."""
    for first, *rest in lines:
        yield name(first), [TableCell(text) for text in rest]


def method_label(name: str) -> str:
    return method_style(name).label


def headings(columns: Sequence[str], names: Mapping[str, str] = NAMES) -> list[str]:
    return [names.get(column, column) for column in columns]
