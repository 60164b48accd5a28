"""Tables in which commands show their results: scores with intervals, diagnoses, chosen settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from vbs_cli.cli.shell import Shell
from vbs_cli.conditions import EVERYTHING, FEW_NOISES, conditions
from vbs_cli.console import table
from vbs_cli.files import format_size

if TYPE_CHECKING:
    import pandas as pd

    from vbs_cli.conditions import Condition
    from vbs_cli.diagnosis import Diagnosis
    from vbs_cli.stages.auto import Chosen

Shape = Callable[[Sequence[str], Sequence[Sequence[str]]], Any]  # columns and lines -> a table
LEGEND = "±: half the 95 % interval over examples and seeds; *: the interval of the difference excludes zero"
CHANCE_LEGEND = "by chance: the ECE that a perfectly calibrated predictor with the same confidences would score"
SUITE_LEGEND = "mean: over noises, of the mean over the levels of each; worst: the worst single noise and level"
PROXY_LEGEND = """\
sigma_bar, error rate: without noise, to the strongest; correlation: Spearman's, between the two over the levels
AUROC: of high sigma_bar, and of low confidence, for the errors among the inputs of all levels (0.5 is chance)
parts right: accuracy of single patches, draws or members without noise"""
LEVEL_LEGEND = """\
means over seeds from the first level to the last, whose values stand behind; methods share the scale of their noise"""
RELIABILITY_LEGEND = """\
each bar a bin of confidence, from 0 to 1: its accuracy, from 0 to 1, and its examples, on a logarithmic scale"""

DIAGNOSIS_LEGEND = """\
low, high: 95 % interval over examples and seeds, paired where methods or levels are compared; scores and shares under
a noise are means over its levels; reference: what the value is held against, such as chance or the clean value
speaks: for the method, against it, or neither"""


def cell(name: str, value: Any) -> str:
    """Format a value of a row by its name and type, e.g. a number of bytes."""
    if value is None:
        return "-"
    if name.endswith("bytes"):
        return format_size(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def number(value: Any) -> Any:
    """Format a number to four digits, and a list of numbers by its size."""
    from vbs_cli.summary import describe_size

    if isinstance(value, (list, tuple)):
        return describe_size(value)
    return f"{value:.4g}" if isinstance(value, float) else value


def show_metrics(
    shell: Shell,
    metrics: pd.DataFrame,
    intervals: pd.DataFrame,
    shown: Sequence[Condition],
    *after: str,
    shifts: pd.DataFrame | None = None,
    suites: Sequence[str] = (),
    proxies: pd.DataFrame | None = None,
    reliability: pd.DataFrame | None = None,
    against: str | None = None,
    markdown: bool = False,
) -> None:
    """Show a table of scores and one of differences per condition and suite, then curves; with --json, the rows."""
    from vbs_cli import summary

    methods = list(intervals["method"].unique())
    baseline = against or (summary.BASELINE if summary.BASELINE in methods else methods[0])
    shape = table_formatter(markdown=markdown)
    blocks: list[Any] = []
    for condition in shown:
        scores = summary.interval_lines(condition.of(metrics), condition.of(intervals))
        blocks += [
            heading(title_of(condition, metrics), condition.of(metrics)),
            shape(summary.INTERVAL_COLUMNS, scores),
        ]
        differences = summary.difference_lines(condition.of(intervals), baseline)
        if differences:
            blocks.append(shape([f"Δ vs {baseline}", *summary.DIFFERENCES], differences))
        blocks.append("")
    more = {"intervals": intervals.to_dict("records")}
    if shifts is not None:
        more["shifts"] = shifts.to_dict("records")
        for suite in suites:
            blocks += [*suite_blocks(shifts, suite, metrics, baseline, shape), ""]
    if proxies is not None:
        blocks += ["[bold]does the spread tell when predictions are wrong?[/]"]
        blocks += [shape(summary.PROXY_COLUMNS, summary.proxy_lines(proxies)), PROXY_LEGEND, ""]
        more["proxies"] = proxies.to_dict("records")
    blocks += [LEGEND, *([CHANCE_LEGEND] if shown else []), *([SUITE_LEGEND] if suites else [])]
    if not markdown:
        blocks += curves(None if proxies is None else metrics, reliability)
    shell.show(metrics.to_dict("records"), *blocks, *after, more=more)  # type: ignore[arg-type]


def show_sweep(
    shell: Shell,
    metrics: pd.DataFrame,
    intervals: pd.DataFrame,
    shifts: pd.DataFrame,
    proxies: pd.DataFrame,
    *,
    suite: str | None,
    against: str | None,
    markdown: bool,
) -> None:
    """Show the noises of a sweep: each at the level that matters and on average, or all together if they are many."""
    from vbs_cli.summary import with_means

    noises = list(metrics["noise"].unique())
    means = with_means(intervals, shifts)
    shown = [each for each in conditions(means) if each.noise in noises]
    few = suite is None and len(noises) <= FEW_NOISES
    show_metrics(
        shell,
        metrics,
        means[means["noise"].isin(noises)],
        shown if few else (),
        shifts=shifts,
        suites=() if few else [suite or EVERYTHING],
        proxies=proxies[proxies["noise"].isin(noises)] if few else None,
        against=against,
        markdown=markdown,
    )


def suite_blocks(shifts: pd.DataFrame, suite: str, metrics: pd.DataFrame, baseline: str, shape: Shape) -> list[Any]:
    """Title and tables of one summary over shifts."""
    from vbs_cli.summary import suite_tables, suite_title

    tables = [shape(columns, lines) for columns, lines in suite_tables(shifts, suite, baseline)]
    return [heading(suite_title(shifts, suite), metrics), *tables]


def curves(swept: pd.DataFrame | None, reliability: pd.DataFrame | None) -> list[Any]:
    """Tables of sparklines: scores along the levels of a sweep, and accuracy along confidence."""
    from vbs_cli.report import sparks

    shown: list[Any] = []
    if swept is not None and (lines := sparks.level_lines(swept)):
        shown += ["\n[bold]along the levels[/]", table(sparks.LEVEL_COLUMNS, lines), LEVEL_LEGEND]
    if reliability is not None and (lines := sparks.reliability_lines(reliability)):
        shown += ["\n[bold]reliability[/]", table(sparks.RELIABILITY_COLUMNS, lines), RELIABILITY_LEGEND]
    return shown


def show_study(
    shell: Shell, metrics: pd.DataFrame, intervals: pd.DataFrame, distributions: pd.DataFrame, *, markdown: bool
) -> None:
    """Show both ensembles and their differences at some levels; with --json, at all levels."""
    from vbs_cli import summary
    from vbs_cli.artifacts.study import BASELINE, COMPARED, SMOOTHED

    shape = table_formatter(markdown=markdown)
    scores = ("kl_uniform", "ece", "brier")
    shown = [
        f"[bold]{escape(str(metrics['noise'].iloc[0]))}[/], {escape(str(metrics['source'].iloc[0]))}",
        shape(["level", "method", *COMPARED], summary.study_lines(intervals, COMPARED)),
        f"\n[bold]{SMOOTHED}, Δ vs {BASELINE}[/]",
        shape(["level", *scores], summary.study_differences(intervals, BASELINE, scores)),
        LEGEND.replace(" and seeds", ""),
    ]
    more = {"intervals": intervals.to_dict("records"), "distributions": distributions.to_dict("records")}
    shell.show(metrics.to_dict("records"), *shown, more=more)  # type: ignore[arg-type]


def table_formatter(*, markdown: bool, latex: bool = False) -> Shape:
    """Function of columns and lines that formats a table: for the terminal, in Markdown or in LaTeX."""
    from vbs_cli.summary import latex_table, markdown_table

    if markdown or latex:
        written = latex_table if latex else markdown_table
        return lambda columns, lines: f"\n{escape(written(columns, lines))}\n"
    return table


def title_of(condition: Condition, metrics: pd.DataFrame) -> str:
    """Title of a condition: its name, and for a mean the number of levels that it is taken over."""
    levels = condition.of(metrics)["level"].nunique()
    return condition.name.replace("over levels", f"over {levels} levels")


def heading(condition: str, metrics: pd.DataFrame) -> str:
    from vbs_cli.summary import count_seeds

    seeds = count_seeds(metrics)
    counted = f"{seeds} seed{'s' if seeds > 1 else ''}" if (metrics["seed"] >= 0).any() else "all seeds together"
    origin = f"{counted}, {metrics['source'].iloc[0]}"
    return f"[bold]{escape(condition)}[/], {escape(origin)}"


def show_diagnosis(shell: Shell, found: Diagnosis) -> None:
    """Show the findings of a diagnosis, its verdict, and its advice."""
    from vbs_cli.diagnosis.base import QUESTIONS

    lines = [
        [f.noise, QUESTIONS[f.question], *(f"{v:.3f}" for v in (f.value, f.low, f.high, f.reference)), f.speaks]
        for f in found.findings
    ]
    columns = ["data", "question", "value", "low", "high", "reference", "speaks"]
    shown = [table(columns, lines), DIAGNOSIS_LEGEND, f"\n[bold]{found.verdict}[/]: {escape(found.advice)}"]
    more = {"verdict": found.verdict, "advice": found.advice}
    shell.show([vars(f) for f in found.findings], *shown, more=more)


def show_chosen(shell: Shell, chosen: Chosen, fitted: list[dict[str, Any]]) -> None:
    """Show the best settings that were tried, their effect under held-out noises, and the methods fitted with them."""
    at = " and ".join(f"{level:.2f}" for level in chosen.levels)
    names = ", ".join(str(row["noise"]) for row in chosen.held_out) or "no other noise"
    held_out = [
        [row["noise"], f"{row['before']:.4f}", *(f"{row[key]:+.4f}" for key in ("value", "low", "high"))]
        for row in chosen.held_out
    ]
    shown: list[Any] = [
        f"[bold]chosen by NLL[/] on validation data, clean and under {escape(chosen.noise)} noise at {at}; "
        f"held out: {escape(names)}, and the test data",
        table(["kernel", "alpha", "beta", "nll"], [[number(v) for v in row.values()] for row in chosen.rows]),
        *(["", table(["held out", "nll before", "change", "low", "high"], held_out)] if held_out else []),
        f"\n{escape(str(chosen.best))} is now a setting of the run",
        table(["seed", "method", "parameter", "value"], [[number(v) for v in row.values()] for row in fitted]),
    ]
    shell.show(fitted, *shown, more={"tried": chosen.rows, "held_out": chosen.held_out})
