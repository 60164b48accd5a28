"""Verdict of a run on variance-based smoothing in plain words, drawn from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from vbs_cli.conditions import CLEAN, FEW_NOISES, MEAN, Condition, conditions
from vbs_cli.metrics import Interval
from vbs_cli.metrics.shifts import ALL
from vbs_cli.metrics.shifts import MEAN as MEAN_OF
from vbs_cli.metrics.shifts import WORST as WORST_OF
from vbs_cli.plots.style import method_style
from vbs_cli.registry import join_names
from vbs_cli.summary import VISIBLE_DIFFERENCE, suite_size, suites_in, with_means

Tone = Literal["better", "worse", "same"]
Trend = Literal["rises", "falls", "mixed"]

BEFORE, AFTER = "conventional", "vbs"
VBS = method_style(AFTER).label
MOST = 0.9  # share of the levels of all seeds that must agree on a trend


@dataclass(frozen=True)
class ConditionFinding:
    """Effect of smoothing under one condition, in words."""

    condition: str
    tone: Tone
    text: str
    details: str = ""


@dataclass(frozen=True)
class Verdict:
    """Leading sentence, then one finding per condition."""

    lead: str
    findings: Sequence[ConditionFinding]


@dataclass(frozen=True)
class Change:
    """Values of a metric without and with smoothing in some place, and the interval of the paired difference."""

    place: str  # in words: `on clean data`
    before: float
    after: float
    difference: Interval

    @property
    def tone(self) -> Tone:
        """Direction of the change: better or worse only if the interval excludes zero and the difference is visible."""
        if not self.difference.excludes_zero or abs(self.difference.value) < VISIBLE_DIFFERENCE:
            return "same"
        return "better" if self.difference.value < 0 else "worse"

    def __str__(self) -> str:
        """Change in words: `from 0.154 to 0.148 (paired difference -0.007 [-0.015, -0.001])`."""
        return f"from {self.before:.3f} to {self.after:.3f} ({self.difference_text})"

    @property
    def difference_text(self) -> str:
        d = self.difference
        return f"paired difference {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"


def verdict(metrics: pd.DataFrame, intervals: pd.DataFrame, shifts: pd.DataFrame | None = None) -> Verdict:
    """Compare variance-based smoothing with the conventional prediction, by paired 95 % intervals.

    Under a noise that is the mean over its levels where `shifts` has it, else the level that summaries show. More
    than FEW_NOISES noises are judged together, and apart only where smoothing makes a difference.
    """
    shifts = pd.DataFrame() if shifts is None else shifts
    intervals = with_means(intervals, shifts)
    shown = conditions(intervals)
    averaged = {each.noise for each in shown if each.level == MEAN}
    judged = {
        each: change
        for each in shown
        if each.level == MEAN or each.noise not in averaged
        if (change := find_change(each.of(intervals), place(each), "ece"))
    }
    if not judged:
        return Verdict(f"No verdict: the run does not compare {VBS} with the conventional prediction.", ())
    falling = [each.noise for each in judged if sigma_trend(metrics, each.noise) == "falls"]
    noises = [each for each in judged if each.noise != CLEAN and not each.second_set]
    together = suite_changes(shifts) if len(noises) > FEW_NOISES else []
    if not together:
        findings = [finding(metrics, intervals, each, judged[each]) for each in judged]
        return Verdict(lead_sentence(list(judged.values()), falling), findings)
    others = [each for each in judged if each not in noises]
    alike = [each for each in noises if judged[each].tone == "same"]
    apart = [each for each in noises if each not in alike]
    findings = [
        *(finding(metrics, intervals, each, judged[each]) for each in others),
        *(found for _, found in together),
        *(finding(metrics, intervals, each, judged[each]) for each in apart),
        *(no_difference(alike) if alike else ()),
    ]
    leading = [*(judged[each] for each in others), *(change for change, _ in together)]
    return Verdict(lead_sentence(leading, falling), findings)


def find_change(rows: pd.DataFrame, where: str, metric: str) -> Change | None:
    """Change of a metric by the rows of one place; None if one of the two methods was not measured."""
    found = {
        (row["method"], row["baseline"]): Interval(row["value"], row["low"], row["high"])
        for _, row in rows[rows["metric"] == metric].iterrows()
    }
    if not {(BEFORE, ""), (AFTER, ""), (AFTER, BEFORE)} <= set(found):
        return None
    return Change(where, found[BEFORE, ""].value, found[AFTER, ""].value, found[AFTER, BEFORE])


def finding(metrics: pd.DataFrame, intervals: pd.DataFrame, condition: Condition, change: Change) -> ConditionFinding:
    """Finding on ECE under one condition, with details on NLL, the best method and sigma_bar."""
    rows = condition.of(intervals)
    details = (
        nll_sentence(find_change(rows, change.place, "nll")),
        best_sentence(rows),
        sigma_sentence(metrics, condition.noise),
    )
    return ConditionFinding(condition.name, change.tone, ece_sentence(change), " ".join(filter(None, details)))


def suite_changes(shifts: pd.DataFrame) -> list[tuple[Change, ConditionFinding]]:
    """Change of the mean ECE over the shifts of each suite, and the finding on it."""
    found = []
    for suite in suites_in(shifts):
        count, noises = suite_size(shifts, suite)
        where = f"over {count} shifts of {noises} noises" + (f" (suite {suite})" if suite else "")
        rows = shifts[(shifts["suite"] == suite) & (shifts["over"] == ALL) & (shifts["severity"] == 0)]
        means, worst = (rows[rows["statistic"] == statistic] for statistic in (MEAN_OF, WORST_OF))
        change = find_change(means, where, "ece")
        if change is None:
            continue
        at_worst = find_change(worst, where, "ece")
        details = (
            nll_sentence(find_change(means, where, "nll")),
            f"At worst ECE goes {at_worst}." if at_worst else "",
            best_sentence(means),
        )
        text = ConditionFinding(suite, change.tone, ece_sentence(change), " ".join(filter(None, details)))
        found.append((change, text))
    return found


def no_difference(alike: Sequence[Condition]) -> list[ConditionFinding]:
    """Finding on all noises under which smoothing makes no difference."""
    names = join_names([each.noise for each in alike])
    text = f"Under {names} noise no difference in ECE can be told, on average over the levels."
    return [ConditionFinding("", "same", text)]


def place(condition: Condition) -> str:
    """Condition in words: `on clean data`, `under gaussian noise at 0.50`, `on phone`."""
    if condition.noise == CLEAN:
        return "on clean data"
    if condition.second_set:
        return f"on {condition.name}"
    level = "on average over its levels" if condition.level == MEAN else f"at {condition.level:.2f}"
    return f"under {condition.noise} noise {level}"


def ece_sentence(pair: Change) -> str:
    """Sentence on what smoothing does to the calibration error."""
    where = pair.place[0].upper() + pair.place[1:]
    return {
        "better": f"{where} {VBS} lowers ECE {pair}.",
        "worse": f"{where} {VBS} raises ECE {pair}.",
        "same": f"{where} ECE is {pair.before:.3f} without and {pair.after:.3f} with {VBS}: "
        f"no difference can be told ({pair.difference_text}).",
    }[pair.tone]


def nll_sentence(pair: Change | None) -> str:
    """Sentence on what smoothing does to NLL, a proper score, as a check on ECE."""
    if pair is None:
        return ""
    if pair.tone == "same":
        return f"NLL is {pair.before:.3f} and {pair.after:.3f}: no difference can be told ({pair.difference_text})."
    return f"NLL goes {pair}."


def best_sentence(rows: pd.DataFrame) -> str:
    """Sentence on the method with the lowest ECE under one condition, and whether smoothing is clearly above it."""
    ece = rows[rows["metric"] == "ece"]
    own = ece[ece["baseline"] == ""].set_index("method")["value"]
    if set(own.index) <= {BEFORE, AFTER}:
        return ""
    best = str(own.idxmin())
    if best == AFTER:
        return "No other method has a lower ECE here."
    apart = ece[(ece["method"] == best) & (ece["baseline"] == AFTER)].iloc[0]
    doubt = "" if Interval(0, apart["low"], apart["high"]).excludes_zero else ", not told from the smoothed one"
    return f"Lowest ECE here: {method_style(best).label}, {own[best]:.3f}{doubt}."


def sigma_curves(metrics: pd.DataFrame, noise: str) -> pd.DataFrame:
    """Table of `sigma_bar` of the smoothed method: a row per level, a column per seed that has all levels."""
    rows = metrics[(metrics["noise"] == noise) & (metrics["method"] == AFTER) & (metrics["metric"] == "sigma_bar")]
    return rows.pivot_table(index="level", columns="seed", values="value").dropna(axis="columns")


def sigma_trend(metrics: pd.DataFrame, noise: str) -> Trend | None:
    """Trend of `sigma_bar` relative to its value without noise; None if there is no sweep from level 0.

    The method's threshold comes from clean data, so what counts is not the slope but on which side of the clean value
    the noisy levels lie: a dip that recovers half way still counts as below.
    """
    curves = sigma_curves(metrics, noise)
    if curves.empty or len(curves) < 2 or curves.index[0] != 0:
        return None
    change = curves.iloc[1:] - curves.iloc[0]
    if (change > 0).to_numpy().mean() >= MOST:
        return "rises"
    return "falls" if (change < 0).to_numpy().mean() >= MOST else "mixed"


def sigma_sentence(metrics: pd.DataFrame, noise: str) -> str:
    """Sentence on what `sigma_bar` did with growing noise, and what follows from it."""
    trend = sigma_trend(metrics, noise)
    if trend is None:
        return ""
    mean = sigma_curves(metrics, noise).mean(axis=1)
    course = f"from {mean.iloc[0]:.2f} to {mean.iloc[-1]:.2f} at level {float(str(mean.index[-1])):.2f}"
    return {
        "rises": f"sigma_bar rises with the noise, {course}, as the method needs.",
        "falls": f"sigma_bar falls with the noise, {course}: noisy inputs are smoothed less than clean ones, "
        "so the method cannot be relied on here.",
        "mixed": f"sigma_bar neither rises nor falls clearly with the noise, {course} "
        f"(lowest {mean.min():.2f}, highest {mean.max():.2f}): smoothing follows the noise only in part.",
    }[trend]


def lead_sentence(pairs: Sequence[Change], falling: Sequence[str]) -> str:
    """Sentence on where ECE changed and by how much, and a warning where `sigma_bar` falls."""
    verbs = {"better": "lowers", "worse": "raises"}
    clauses = []
    for tone, verb in verbs.items():
        changes = [f"{pair.place} {pair}" for pair in pairs if pair.tone == tone]
        if changes:
            clauses.append(f"{verb} ECE {join_names(changes)}")
    alike = join_names([pair.place for pair in pairs if pair.tone == "same"])
    if alike:
        clauses.append(f"{alike} no difference can be told" if clauses else f"makes no difference to ECE {alike}")
    lead = f"{VBS.capitalize()} {'; '.join(clauses)}."
    if falling:
        lead += f" sigma_bar falls under {join_names(falling)} noise, so the method cannot be relied on there."
    return lead
