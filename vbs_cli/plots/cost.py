"""Figure of the calibration of methods against their cost."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import PAGE, TEXT, footnote, legend_above, name_axes, panels
from vbs_cli.plots.curves import start_at_zero
from vbs_cli.plots.style import FAINT, INK, Style, method_style
from vbs_cli.registry import join_names
from vbs_cli.summary import count_seeds

BENCH = "vbs bench --batch 128"
COSTS = {"flops_ratio": "FLOPs, relative to conventional", "latency_ratio": "latency, relative to conventional"}
TIMES = "\N{MULTIPLICATION SIGN}"
BIG, SMALLER, SMALLEST = 7.5, 2.5, 3.5  # points: largest marker, how much smaller each marker on it is, and the least
NEAR = 0.06  # of an axis: closer than this, one marker would hide another
MARGIN = 1.35  # an axis begins at the smallest ratio over this, and ends at the largest times this
MOST_NAMED = 6  # noises; more of them are counted
WIDEST_IN_STEPS = 100.0  # up to this ratio of its ends an axis has ticks at 1, 2 and 5, beyond it at powers of ten


@drawn("cost", "metrics", "bench")
def cost(tables: Tables) -> Figure:
    """Calibration against cost

    Lower left is better: a small calibration error at little cost. The dotted line is the cost of a conventional
    prediction; a method far to the right pays for its calibration each time it predicts.
    """
    metrics = require(tables.metrics, "metrics", hint="vbs evaluate")
    bench = require(tables.bench, "costs", hint=BENCH)
    noises = in_order(metrics[metrics["level"] > 0]["noise"])
    quality = mean_ece(metrics[metrics["level"] > 0] if noises else metrics)
    points = require(with_quality(bench, quality), "method with both a cost and an ECE", hint=BENCH)
    figure, axes = panels(1, len(COSTS), size=(PAGE, 2.9))
    for ax, (ratio, name) in zip(axes[0], COSTS.items(), strict=True):
        draw_costs(ax, points, ratio)
        ratio_axis(ax, points[ratio])
        name_axes([[ax]], x=name, y=[""])
    start_at_zero(axes[0][0])
    axes[0][0].set_ylabel("ECE under noise" if noises else "ECE (clean)", fontsize=TEXT, color=INK)
    legend_above(figure, [sample(method_style(method)) for method in in_order(points["method"])])
    used = metrics[metrics["method"].isin(points["method"])]
    footnote(figure, points, ece_note(used, noises), *bench_notes(points))
    return figure


def mean_ece(metrics: pd.DataFrame) -> pd.Series[float]:
    """ECE by method, averaged over seeds, levels and noises in turn; only of methods measured under all of them."""
    of_ece = metrics[metrics["metric"] == "ece"]
    by_level = of_ece.pivot_table(index="method", columns=["noise", "level"], values="value").dropna()
    return by_level.T.groupby(level="noise").mean().mean()


def with_quality(bench: pd.DataFrame, quality: pd.Series[float]) -> pd.DataFrame:
    """Rows of the bench with a known ECE; `hollow` marks the paper's variant of a method that vbs runs differently."""
    points = bench[bench["method"].isin(quality.index)]
    twice = points.groupby("method")["variant"].transform("nunique") > 1
    hollow = twice & (points["variant"] == "paper")
    return points.assign(ece=points["method"].map(quality), hollow=hollow)


def draw_costs(ax: Axes, every: pd.DataFrame, ratio: str) -> None:
    """Draw a marker per row; one that lies on those of other methods is smaller than they are, so that all show."""
    points = apart(every, ratio)
    ax.set_xscale("log")
    ax.margins(y=0.1)
    ax.axvline(1, color=FAINT, lw=0.8, ls=":", zorder=1)
    sizes = marker_sizes(points, ratio)
    for place, (_, row) in enumerate(points.iterrows()):
        point = sample(method_style(row["method"]), [row[ratio]], [row["ece"]])
        point.set(markersize=sizes[place], zorder=3 + place / len(points))
        if row["hollow"]:
            point.set(markerfacecolor="none", markeredgecolor=point.get_color())
        ax.add_line(point)
    ax.autoscale_view()


def apart(points: pd.DataFrame, ratio: str) -> pd.DataFrame:
    """Rows without the hollow markers that would lie on the filled one of their method, as they do in FLOPs."""
    x = points[ratio].map(math.log)
    filled = points["method"].map(x[~points["hollow"]].groupby(points["method"]).first())
    return points[~points["hollow"] | ((x - filled).abs() >= NEAR * log_width(x))]


def log_width(x: pd.Series[float]) -> float:
    return max(float(x.max() - x.min()), 2 * math.log(MARGIN))


def sample(style: Style, x: list[float] | None = None, y: list[float] | None = None) -> Line2D:
    """Marker of a method without a line, at a point or for the legend."""
    return Line2D(
        x or [],
        y or [],
        ls="none",
        label=style.label,
        color=style.color,
        marker=style.marker,
        markersize=BIG - 2,
        markeredgewidth=0.7,
    )


def marker_sizes(points: pd.DataFrame, ratio: str) -> list[float]:
    """Size of each marker: the more earlier ones lie at its place, the smaller."""
    x, y = points[ratio].map(math.log), points["ece"]
    width, height = log_width(x), float(y.max())
    sizes = []
    for i in range(len(points)):
        beside = (x.iloc[:i] - x.iloc[i]).abs() < NEAR * width
        level = (y.iloc[:i] - y.iloc[i]).abs() < NEAR * height
        sizes.append(max(BIG - SMALLER * int((beside & level).sum()), SMALLEST))
    return sizes


def ratio_axis(ax: Axes, ratios: pd.Series[float]) -> None:
    """Make the x axis logarithmic around the ratios, with plain ticks: one, two, five, ten times."""
    low, high = min(float(ratios.min()), 1.0) / MARGIN, max(float(ratios.max()), 2.0) * MARGIN
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low <= WIDEST_IN_STEPS else (1,)
    ax.xaxis.set_major_locator(FixedLocator([step * 10.0**power for power in powers for step in steps]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{TIMES}"))
    ax.set_xlim(low, high)


def ece_note(metrics: pd.DataFrame, noises: list[str]) -> str:
    """Note on what the ECE is a mean of."""
    n_seeds = count_seeds(metrics)
    seeds = "one seed" if n_seeds == 1 else f"{n_seeds} seeds"
    named = f"{join_names(noises)} noise" if len(noises) <= MOST_NAMED else f"{len(noises)} noises"
    return f"ECE: mean over {seeds}{f' and all levels of {named}' if noises else ', without noise'}"


def bench_notes(points: pd.DataFrame) -> list[str]:
    """Notes on how the costs were measured, and on what hollow markers are."""
    batches = join_names([f"{batch}" for batch in sorted(points["batch"].unique())])
    note = f"costs: of predicting a batch of {batches}"
    ways = "filled: as vbs runs it; hollow: as the paper ran it, where that differs"
    return [note, ways] if points["hollow"].any() else [note]
