"""Figures of accuracy against confidence: all methods in one panel, and one panel per method."""

from __future__ import annotations

import statistics
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator

from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import COLUMN, PAGE, TEXT, footnote, legend_above, name_axes, panels, title
from vbs_cli.plots.style import FAINT, INK, MARKER_SIZE, Style, method_style
from vbs_cli.summary import count_seeds, plus_minus

HATCH = "//////"
TARGET: dict[str, Any] = {"colors": "#999999", "lw": 1.0, "zorder": 1.6}
FILL = 0.8  # of a bin's width that its boxes take up


def filled(tables: Tables) -> pd.DataFrame:
    """Reliability bins that hold at least one example."""
    rows = tables.reliability
    return require(rows[rows["count"] > 0], "reliability bins", hint="vbs evaluate")


@drawn("reliability", "reliability")
def reliability(tables: Tables) -> Figure:
    """Reliability of all methods

    A calibrated box sits on its short grey line, the mean confidence; a box below it is overconfident, a box
    above it underconfident, and bins with few examples (the strip beneath) scatter.
    """
    rows = filled(tables)
    methods = in_order(rows["method"])
    figure, axes = panels(2, 1, size=(PAGE, 3.9), ratios=[3.4, 1])
    boxes, counts = axes[0][0], axes[1][0]
    draw_bins(boxes, counts, rows)
    all_bins = mean_bins(tables.reliability)
    for i, method in enumerate(methods):
        bins = all_bins[all_bins["method"] == method]
        slot = (bins["upper"] - bins["lower"]) * FILL / len(methods)
        place = bins["lower"] + (bins["upper"] - bins["lower"]) * (1 - FILL) / 2 + slot * (i + 0.5)
        of_method = rows[rows["method"] == method]
        values = {int(str(index)): group["accuracy"].to_list() for index, group in of_method.groupby("bin")}
        draw_boxes(boxes, [values[index] for index in bins["bin"]], place, 0.75 * slot, method_style(method))
        boxes.hlines(bins["confidence"], place - slot / 2, place + slot / 2, **TARGET)
        draw_counts(counts, bins["count"], place, slot, method_style(method))
    log_counts(counts, all_bins["count"])
    name_axes(axes, x="confidence", y=["accuracy", "count"])
    legend_above(figure, [method_style(method).handle() for method in methods] + [target(), diagonal([0, 1])])
    footnote(figure, rows, seeds_of_boxes(rows))
    return figure


def seeds_of_boxes(rows: pd.DataFrame) -> str:
    """Note on what a box means."""
    n_seeds = count_seeds(rows)
    if n_seeds == 1:
        return "one seed: each mark is its accuracy"
    return f"box: quartiles over {n_seeds} seeds, whiskers: lowest to highest, mark: median; counts: mean"


def mean_bins(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds per method and bin; accuracy and confidence only over seeds that fill the bin."""
    columns = ["lower", "upper", "count", "accuracy", "confidence"]
    bins = table.groupby(["method", "bin"])[columns].mean().reset_index()
    return bins[bins["count"] > 0]


def diagonal(ends: list[float]) -> Line2D:
    """Line of perfect calibration."""
    return Line2D(ends, ends, color=FAINT, lw=0.9, ls=(0, (4, 3)), zorder=1.5, label="perfect calibration")


def target() -> Line2D:
    """Legend entry for the short lines at a method's own mean confidence in a bin."""
    return Line2D([], [], color=TARGET["colors"], lw=TARGET["lw"], label="mean confidence in the bin")


def draw_bins(ax: Axes, counts: Axes, rows: pd.DataFrame) -> None:
    """Draw the background: limits around the filled bins, every other bin shaded, the diagonal, ticks at bin edges."""
    low, high = float(rows["lower"].min()), float(rows["upper"].max())
    edges = sorted({*rows["lower"], *rows["upper"]})
    for _, row in rows[rows["bin"] % 2 == 1].drop_duplicates("bin").iterrows():
        for each in (ax, counts):
            each.axvspan(row["lower"], row["upper"], color="#F5F5F5", lw=0, zorder=0)
    ax.add_line(diagonal([low, high]))
    ax.set(xlim=(low, high), ylim=(-0.03, 1.03))
    counts.set_xticks(edges, [f"{edge:.2g}" for edge in edges])


def log_counts(ax: Axes, counts: pd.Series[float]) -> None:
    """Make the y axis logarithmic, with plain numbers, so that the shortest bar still shows."""
    ax.set_yscale("log")
    ax.set_ylim(min(0.5, float(counts.min()) / 2), float(counts.max()) * 2)
    ax.yaxis.set_major_locator(LogLocator(numticks=4))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,g}"))


def draw_boxes(
    ax: Axes, values: list[list[float]], place: pd.Series[float], width: pd.Series[float], style: Style
) -> None:
    """Draw a box over the seeds at each place, with the method's marker at the median."""
    line = {"color": style.color, "lw": 0.8}
    ax.boxplot(
        values,
        positions=place.to_list(),
        widths=width.to_list(),
        whis=(0, 100),
        showfliers=False,
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": style.color, "alpha": 0.3, "lw": 0},
        medianprops={**line, "lw": 1.4, "solid_capstyle": "butt"},
        whiskerprops=line,
        capprops=line,
    )
    medians = [statistics.median(each) for each in values]
    ax.plot(place, medians, ls="none", marker=style.marker, color=style.color, ms=MARKER_SIZE - 0.5)


def draw_counts(
    ax: Axes, counts: pd.Series[float], place: pd.Series[float], width: pd.Series[float], style: Style
) -> None:
    """Draw bars of the mean number of examples per bin."""
    ax.bar(place, counts, width=width * 0.9, color=style.color, alpha=0.55, lw=0)


@drawn("reliability-methods", "reliability", "metrics")
def reliability_methods(tables: Tables) -> Figure:
    """Reliability of each method

    The hatched gap lies between accuracy and mean confidence: below the diagonal it is overconfidence.
    """
    rows = filled(tables)
    methods = in_order(rows["method"])
    all_bins = mean_bins(tables.reliability)
    n_columns = min(len(methods), 4)
    n_rows = -(-len(methods) // n_columns)
    size = (COLUMN if n_columns < 3 else PAGE, 0.7 + 2.3 * n_rows)
    figure, axes = panels(2 * n_rows, n_columns, size=size, ratios=[2.6, 1] * n_rows)
    for i in range(n_rows * n_columns):
        row, column = divmod(i, n_columns)
        ax, counts = axes[2 * row][column], axes[2 * row + 1][column]
        if i < len(methods):
            style = method_style(methods[i])
            draw_panel(ax, counts, all_bins[all_bins["method"] == methods[i]], style)
            log_counts(counts, all_bins["count"])
            title(ax, style.label + ece_line(tables.metrics, methods[i]))
        else:
            ax.remove()
            counts.remove()
            end_column(axes[2 * row - 1][column])
    name_axes(axes, x="confidence", y=["accuracy", "count"] * n_rows)
    legend_above(figure, legend_of_panels())
    n_seeds = count_seeds(rows)
    note = "one seed" if n_seeds == 1 else f"accuracy, confidence, count: means over {n_seeds} seeds"
    footnote(figure, rows, note)
    return figure


def end_column(ax: Axes) -> None:
    """Give a panel with nothing beneath it the axis name and tick labels of a lowest panel."""
    ax.tick_params(labelbottom=True)
    ax.set_xlabel("confidence", fontsize=TEXT, color=INK)


def draw_panel(ax: Axes, counts: Axes, bins: pd.DataFrame, style: Style) -> None:
    """Draw one method: bars of accuracy, the gap to confidence, and how many examples each bin holds."""
    width = bins["upper"] - bins["lower"]
    middle = bins["lower"] + width / 2
    ax.bar(middle, bins["accuracy"], width=width, color=style.color, alpha=0.45, ec="white", lw=0.6)
    gap = bins["confidence"] - bins["accuracy"]
    ax.bar(middle, gap, bottom=bins["accuracy"], width=width, fc="none", ec=INK, lw=0.4, hatch=HATCH)
    ax.add_line(diagonal([0, 1]))
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"])
    draw_counts(counts, bins["count"], middle, width, style)


def ece_line(metrics: pd.DataFrame, method: str) -> str:
    """Second line for the title with the clean ECE, if the table has it."""
    chosen = (metrics["method"] == method) & (metrics["noise"] == "clean") & (metrics["metric"] == "ece")
    values = metrics[chosen]["value"]
    return f"\nECE {plus_minus(float(values.mean()), float(values.std()))}" if len(values) else ""


def legend_of_panels() -> list[Artist]:
    """Legend entries for bars, hatching and the dashed line, whatever the method's colour."""
    return [
        Patch(facecolor="#BBBBBB", label="accuracy"),
        Patch(facecolor="none", edgecolor=INK, lw=0.4, hatch=HATCH, label="gap to mean confidence"),
        diagonal([0, 1]),
    ]
