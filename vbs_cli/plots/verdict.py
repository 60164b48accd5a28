"""What the numbers say about variance-based smoothing, in plain words, for better or worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from vbs_cli.plots.base import listed
from vbs_cli.plots.style import method_style
from vbs_cli.plots.summary import Condition, conditions, plus_minus, summary

Tone = Literal["better", "worse", "mixed", "same"]
Trend = Literal["rises", "falls", "mixed"]

BEFORE, AFTER = "conventional", "vbs"
VBS = method_style(AFTER).label
VISIBLE = 0.0005  # a smaller difference does not show in three digits and counts as none
MOST = 0.9  # of the levels: a trend may have this many exceptions


@dataclass(frozen=True)
class Finding:
    """What happened under one condition."""

    condition: str
    tone: Tone
    text: str
    details: str = ""


@dataclass(frozen=True)
class Verdict:
    """One sentence for everybody, then one finding per condition."""

    lead: str
    findings: Sequence[Finding]


def verdict(metrics: pd.DataFrame, level: float = 0.5) -> Verdict:
    """Compare variance-based smoothing with the conventional prediction, seed by seed."""
    compared = {each: paired(each.of(metrics), "ece") for each in conditions(metrics, level)}
    compared = {condition: pairs for condition, pairs in compared.items() if len(pairs)}
    if not compared:
        return Verdict(f"No verdict: no seed has an ECE of both the conventional prediction and {VBS}.", ())
    table = summary(metrics, level)
    findings = [finding(metrics, table, condition, pairs) for condition, pairs in compared.items()]
    falling = [each.noise for each in compared if sigma_trend(metrics, each.noise) == "falls"]
    return Verdict(lead_sentence(findings, falling), findings)


def finding(metrics: pd.DataFrame, table: pd.DataFrame, condition: Condition, pairs: pd.DataFrame) -> Finding:
    """The effect on ECE under one condition (`pairs`), and what else one should know about it."""
    details = (
        nll_sentence(paired(condition.of(metrics), "nll")),
        best_sentence(table[table["condition"] == condition.name]),
        sigma_sentence(metrics, condition.noise),
    )
    return Finding(condition.name, effect(pairs), ece_sentence(condition, pairs), " ".join(filter(None, details)))


def paired(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Per seed the metric without and with smoothing, of seeds that have both."""
    wide = rows[rows["metric"] == metric].pivot_table(index="seed", columns="method", values="value")
    return wide.reindex(columns=[BEFORE, AFTER]).dropna()


def changes(pairs: pd.DataFrame) -> tuple[int, int]:
    """How many seeds went visibly down, and how many up."""
    difference = pairs[AFTER] - pairs[BEFORE]
    return int((difference < -VISIBLE).sum()), int((difference > VISIBLE).sum())


def effect(pairs: pd.DataFrame) -> Tone:
    """Better or worse only if every seed says so."""
    lower, higher = changes(pairs)
    if lower == higher == 0:
        return "same"
    if lower == len(pairs):
        return "better"
    return "worse" if higher == len(pairs) else "mixed"


def seeds_clause(pairs: pd.DataFrame) -> str:
    """`(lower in 2 of 3 seeds)`."""
    lower, higher = changes(pairs)
    if len(pairs) == 1:
        return "(one seed)"
    word, count = ("lower", lower) if lower >= higher else ("higher", higher)
    return f"({word} in {count} of {len(pairs)} seeds)"


def before_and_after(pairs: pd.DataFrame) -> tuple[str, str]:
    """Mean ± standard deviation over the seeds, without and with smoothing."""
    without, smoothed = (plus_minus(float(pairs[m].mean()), float(pairs[m].std())) for m in (BEFORE, AFTER))
    return without, smoothed


def ece_sentence(condition: Condition, pairs: pd.DataFrame) -> str:
    """What smoothing does to the calibration error."""
    under = f"Under {condition.noise} noise at level {condition.level:.2f}"
    where = "On clean data" if condition.noise == "clean" else under
    without, smoothed = before_and_after(pairs)
    seeds = seeds_clause(pairs)
    return {
        "better": f"{where} {VBS} lowers ECE from {without} to {smoothed} {seeds}.",
        "worse": f"{where} {VBS} raises ECE from {without} to {smoothed} {seeds}.",
        "mixed": f"{where} {VBS} has a mixed effect on ECE: {without} without, {smoothed} with it {seeds}.",
        "same": f"{where} {VBS} leaves ECE at {without}.",
    }[effect(pairs)]


def nll_sentence(pairs: pd.DataFrame) -> str:
    """The same for NLL, a proper score, as a check on ECE."""
    if pairs.empty:
        return ""
    without, smoothed = before_and_after(pairs)
    if effect(pairs) == "same":
        return f"NLL stays at {without}."
    return f"NLL goes from {without} to {smoothed} {seeds_clause(pairs)}."


def best_sentence(rows: pd.DataFrame) -> str:
    """Which method has the lowest ECE under this condition, if there are rivals."""
    rivals = rows[~rows["method"].isin([BEFORE, AFTER])].dropna(subset="ece_mean")
    if rivals.empty:
        return ""
    best = rows.sort_values("ece_mean", kind="stable").iloc[0]
    if best["method"] == AFTER:
        return "No other method has a lower ECE here."
    lowest = plus_minus(float(best["ece_mean"]), float(best["ece_std"]))
    return f"The lowest ECE here is that of {method_style(str(best['method'])).label}, {lowest}."


def sigma_curves(metrics: pd.DataFrame, noise: str) -> pd.DataFrame:
    """`sigma_bar` of the smoothed model: a row per level, a column per seed that has all levels."""
    rows = metrics[(metrics["noise"] == noise) & (metrics["method"] == AFTER) & (metrics["metric"] == "sigma_bar")]
    return rows.pivot_table(index="level", columns="seed", values="value").dropna(axis="columns")


def sigma_trend(metrics: pd.DataFrame, noise: str) -> Trend | None:
    """Where `sigma_bar` goes from its value without noise; None if there is no sweep from level 0.

    The method's threshold comes from clean data, so what counts is not the slope but which side of clean
    the noisy levels lie on: a dip that recovers half way still is below.
    """
    curves = sigma_curves(metrics, noise)
    if curves.empty or len(curves) < 2 or curves.index[0] != 0:
        return None
    change = curves.iloc[1:] - curves.iloc[0]
    if ((change > 0).mean() >= MOST).all():
        return "rises"
    return "falls" if ((change < 0).mean() >= MOST).all() else "mixed"


def sigma_sentence(metrics: pd.DataFrame, noise: str) -> str:
    """What `sigma_bar` did with growing noise, and what follows from it."""
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


def lead_sentence(findings: Sequence[Finding], falling: Sequence[str]) -> str:
    """The conditions by outcome, and the warning that matters most."""
    words: dict[Tone, str] = {"better": "better", "worse": "worse", "mixed": "mixed", "same": "the same"}
    outcomes = []
    for tone, word in words.items():
        names = [each.condition for each in findings if each.tone == tone]
        noisy = [name for name in names if name != "clean"]
        places = ["on clean data"] * ("clean" in names) + [f"under {listed(noisy)}"] * bool(noisy)
        if places:
            outcomes.append(f"{word} {listed(places)}")
    lead = f"Calibration (ECE) of {VBS} against the conventional prediction: {'; '.join(outcomes)}."
    if falling:
        lead += f" sigma_bar falls under {listed(falling)} noise, so the method cannot be relied on there."
    return lead
