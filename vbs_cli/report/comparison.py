"""Several runs side by side in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from vbs_cli.conditions import Condition, conditions
from vbs_cli.metrics import HIGHER, METRICS, NEITHER
from vbs_cli.paper.claims import claims
from vbs_cli.plots.base import FIGURES
from vbs_cli.report.page import ReportData, figure_view, flat, page
from vbs_cli.report.questions import NAMES, Group, TableCell, TableView, method_label, plain_rows
from vbs_cli.report.verdict import verdict
from vbs_cli.summary import PROXY_COLUMNS, plus_minus, proxy_lines

COMPARED = ("accuracy", "nll", "brier", "ece", "entropy")
Runs = Mapping[str, ReportData]


def render_comparison(runs: Runs) -> str:
    """Text of an HTML file that compares runs; the keys of `runs` are the names that it shows."""
    return page(
        "comparison.html.j2",
        title=" beside ".join(runs),
        runs=runs,
        verdicts={
            name: verdict(data.tables.metrics, data.tables.intervals, data.tables.shifts).lead
            for name, data in runs.items()
        },
        differing=list(differing(runs)),
        tables=[*score_tables(runs), *spread_tables(runs)],
        figures=list(shared_figures(runs)),
        claims=list(claim_rows(runs)),
    )


def differing(runs: Runs) -> Iterator[tuple[str, list[str]]]:
    """Yield the settings that are not the same in all runs, each with its values."""
    settings = [dict(flat(data.settings)) for data in runs.values()]
    for name in dict.fromkeys(name for some in settings for name in some):
        values = [some.get(name, "-") for some in settings]
        if len(set(values)) > 1:
            yield name, values


def score_tables(runs: Runs) -> Iterator[TableView]:
    """Yield a table for clean data and per noise: rows of methods, columns of runs, a group per score."""
    shown = [{each.noise: each for each in conditions(data.tables.intervals)} for data in runs.values()]
    for noise in dict.fromkeys(noise for some in shown for noise in some):
        at = [some.get(noise) for some in shown]
        rows = [scores_of(data, each) if each is not None else {} for data, each in zip(runs.values(), at, strict=True)]
        methods = list(dict.fromkeys(method for some in rows for method, _ in some))
        groups = [Group(NAMES[metric], [compared(rows, method, metric) for method in methods]) for metric in COMPARED]
        yield TableView(condition_title(at), ("Method", *runs), groups, note=NOTE)


NOTE = (
    "± half the 95 % interval over the examples and seeds of each run. Runs are not paired: bold only where a run's "
    "interval lies wholly on the better side of all others', which asks more than a paired difference would."
)


def scores_of(data: ReportData, condition: Condition) -> dict[tuple[str, str], pd.Series[Any]]:
    """Intervals of the scores under one condition, keyed by method and metric."""
    rows = condition.of(data.tables.intervals)
    own = rows[(rows["baseline"] == "") & rows["metric"].isin(COMPARED)]
    return {(str(row["method"]), str(row["metric"])): row for _, row in own.iterrows()}


def compared(
    runs: Sequence[Mapping[tuple[str, str], pd.Series[Any]]], method: str, metric: str
) -> tuple[str, list[TableCell]]:
    """Row with one method's score in every run; a dash where a run has none."""
    found = [rows.get((method, metric)) for rows in runs]
    best = best_place(found, metric)
    return method_label(method), [
        TableCell("-")
        if row is None
        else TableCell(plus_minus(row["value"], (row["high"] - row["low"]) / 2), place == best)
        for place, row in enumerate(found)
    ]


def best_place(found: Sequence[pd.Series[Any] | None], metric: str) -> int | None:
    """Index of the run whose interval lies on the better side of all others', or None."""
    there = {place: row for place, row in enumerate(found) if row is not None}
    better = METRICS[metric].better
    if len(there) < 2 or better == NEITHER:
        return None
    for place, row in there.items():
        others = [other for at, other in there.items() if at != place]
        if all(row["low"] > each["high"] if better == HIGHER else row["high"] < each["low"] for each in others):
            return place
    return None


def condition_title(at: Sequence[Condition | None]) -> str:
    """Title of a condition: `clean`, `gaussian 0.50`, or each run's level if they differ: `gaussian 0.50, 0.47`."""
    there = [each for each in at if each is not None]
    names = list(dict.fromkeys(each.name for each in there))
    return names[0] if len(names) == 1 else f"{there[0].noise} {', '.join(f'{each.level:.2f}' for each in there)}"


def spread_tables(runs: Runs) -> Iterator[TableView]:
    """Yield a table of how well the spread between patches indicates errors in each run, if any run measured it."""
    groups: dict[str, list[tuple[str, list[TableCell]]]] = {}
    for name, data in runs.items():
        proxies = data.tables.proxy
        if len(proxies):
            for noise, *line in proxy_lines(proxies[proxies["view"] == "patches"]):
                groups.setdefault(noise, []).extend(plain_rows([[name, *line[1:]]]))
    if groups:
        shown = [Group(noise, rows) for noise, rows in groups.items()]
        yield TableView("Does the spread between patches tell when predictions are wrong?", COLUMNS, shown)


COLUMNS = ("Run", *PROXY_COLUMNS[2:])


def shared_figures(runs: Runs) -> Iterator[tuple[str, str, list[tuple[str, dict[str, str]]]]]:
    """Yield (title, caption, [(run, figure)]) of the figures that at least two runs have."""
    for name in FIGURES:
        views = [(run, figure_view(name, data.figures[name])) for run, data in runs.items() if name in data.figures]
        if len(views) > 1:
            yield views[0][1]["title"], views[0][1]["caption"], views


def claim_rows(runs: Runs) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (number, claim, state in each run) of the paper's claims that at least one run has tested."""
    found = [claims(data.tables, dataset=data.dataset, fitted=data.methods) for data in runs.values()]
    for same in zip(*found, strict=True):
        if any(claim.state != "not tested" for claim in same):
            yield same[0].number, same[0].text, [claim.state for claim in same]
