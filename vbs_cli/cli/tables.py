"""Results as people read them: numbers in cells, scores with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from vbs_cli.cli.shell import Shell
from vbs_cli.console import table

if TYPE_CHECKING:
    import pandas as pd

LEGEND = """\
±: half the 95 % interval over examples and seeds; *: the interval of the difference excludes zero
by chance: the ECE that a perfectly calibrated predictor with the same confidences would score"""


def cell(name: str, value: Any) -> str:
    """A value of a row about a dataset, for people."""
    if value is None:
        return "-"
    if name.endswith("bytes"):
        unit, size = next((pair for pair in (("GB", 1e9), ("MB", 1e6)) if value >= pair[1]), ("kB", 1e3))
        return f"{value / size:.1f} {unit}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def number(value: Any) -> Any:
    """A number to four digits; of a table of numbers, its size."""
    from vbs_cli.plots.summary import sized

    if isinstance(value, (list, tuple)):
        return sized(value)
    return f"{value:.4g}" if isinstance(value, float) else value


def show_metrics(
    shell: Shell,
    metrics: pd.DataFrame,
    intervals: pd.DataFrame,
    *after: str,
    against: str | None = None,
    markdown: bool = False,
) -> None:
    """A table of scores and one of differences per condition; the rows themselves with --json."""
    from vbs_cli.plots import summary

    methods = list(intervals["method"].unique())
    baseline = against or (summary.BASELINE if summary.BASELINE in methods else methods[0])

    def shape(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> Any:
        return f"\n{escape(summary.markdown_table(columns, lines))}\n" if markdown else table(columns, lines)

    shown: list[Any] = []
    for condition in summary.conditions(intervals):
        scores = summary.interval_lines(condition.of(metrics), condition.of(intervals))
        shown += [heading(condition.name, condition.of(metrics)), shape(summary.INTERVAL_COLUMNS, scores)]
        differences = summary.difference_lines(condition.of(intervals), baseline)
        if differences:
            shown.append(shape([f"less {baseline}", *summary.DIFFERENCES], differences))
        shown.append("")
    shown.append(LEGEND)
    more = {"intervals": intervals.to_dict("records")}
    shell.show(metrics.to_dict("records"), *shown, *after, more=more)  # type: ignore[arg-type]


def heading(condition: str, metrics: pd.DataFrame) -> str:
    from vbs_cli.plots.summary import count_seeds

    seeds = count_seeds(metrics)
    counted = f"{seeds} seed{'s' if seeds > 1 else ''}" if (metrics["seed"] >= 0).any() else "all seeds together"
    origin = f"{counted}, {metrics['source'].iloc[0]}"
    return f"[bold]{escape(condition)}[/], {escape(origin)}"
