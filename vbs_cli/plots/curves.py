"""Lines over a noise level or another number: the mean over seeds with a band, and a grid by noises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vbs_cli.plots.base import in_order
from vbs_cli.plots.canvas import MOST_ABREAST, blocks, footnote, legend_above, name_blocks, page_width, title
from vbs_cli.plots.style import LINE_WIDTH, MARKER_SIZE, Style, method_style
from vbs_cli.registry import join_names
from vbs_cli.summary import count_seeds

LEVEL = "noise level λ"
PLAIN_STEPS = (1, 2, 5, 10)  # between ticks, times a power of ten
BELOW_ZERO = 0.04  # of the y axis is shown below zero, so that markers there stay whole
FEW_LEVELS = 8  # up to this many levels every point of a line has its marker


def spread(rows: pd.DataFrame, *, x: str, y: str) -> pd.DataFrame:
    """Mean, min and max of `y` over seeds at each `x`, as columns."""
    return rows.groupby(x)[y].agg(["mean", "min", "max"]).dropna()


def seeds_note(rows: pd.DataFrame, shown: str) -> str:
    """Note on what a line and its surroundings (`shown`) mean; a single seed has a line alone."""
    n_seeds = count_seeds(rows)
    return "one seed" if n_seeds == 1 else f"line: mean over {n_seeds} seeds, {shown}"


def band_note(rows: pd.DataFrame) -> str:
    """Note on what lines drawn by `draw_band` mean."""
    return seeds_note(rows, "band: lowest to highest seed")


def draw_line(ax: Axes, curve: pd.Series[float], style: Style, *, every: int | tuple[int, int]) -> None:
    """Draw a line in its style, with a marker at every `every`-th point."""
    ax.plot(
        curve.index,
        curve,
        color=style.color,
        linestyle=style.line,
        marker=style.marker,
        markevery=every,
        lw=LINE_WIDTH,
        ms=MARKER_SIZE,
        label=style.label,
    )


def draw_band(
    ax: Axes, rows: pd.DataFrame, style: Style, *, place: tuple[int, int] = (0, 1), x: str = "level", y: str = "value"
) -> None:
    """Draw the mean of `y` over seeds against `x` as a line, lowest to highest seed as a band.

    `place` is (i, n) for the i-th of n lines: their markers stand at different `x`, so none hides another.
    """
    curve = spread(rows, x=x, y=y)
    draw_line(ax, curve["mean"], style, every=marks(len(curve), place))
    ax.fill_between(curve.index, curve["min"], curve["max"], color=style.color, alpha=0.15, lw=0)


def marks(n_levels: int, place: tuple[int, int]) -> tuple[int, int]:
    """Start and step of the markers of the i-th of n lines; about six each, and at least one."""
    i, n = place
    step = min(max(n, n_levels // 6, 1), max(n_levels, 1))
    return i * step // n, step


def draw_methods(
    ax: Axes, rows: pd.DataFrame, followers: Mapping[str, str], *, x: str = "level", y: str = "value"
) -> None:
    """Draw a line per method; one that equals another is shown by its markers on that line."""
    methods = in_order(rows["method"])
    staggered = bool(followers) or rows[x].nunique() > FEW_LEVELS
    for i, method in enumerate(methods):
        style = method_style(method)
        if method in followers:
            style = Style(style.label, style.color, style.marker, "none")
        place = (i, len(methods)) if staggered else (0, 1)
        draw_band(ax, rows[rows["method"] == method], style, place=place, x=x, y=y)


def same_curves(
    rows: pd.DataFrame, *, x: str = "level", y: str = "value", by: Sequence[str] = ("noise", "level", "seed")
) -> dict[str, str]:
    """Methods whose values equal those of an earlier method everywhere, at each `by` and `x`: {follower: leader}."""
    wide = rows.pivot_table(index=list(dict.fromkeys([*by, x])), columns="method", values=y)
    followers: dict[str, str] = {}
    methods = in_order(rows["method"])
    for i, method in enumerate(methods):
        leaders = [name for name in methods[:i] if name not in followers]
        same = [name for name in leaders if np.allclose(wide[name], wide[method], 0, 1e-9, equal_nan=True)]
        if same:
            followers[method] = same[0]
    return followers


def same_note(quantity: str, followers: Mapping[str, str]) -> list[str]:
    """Notes on lines that lie on another one, a sentence for each leader."""
    notes = []
    for leader in dict.fromkeys(followers.values()):
        names = [method for method, first in followers.items() if first == leader]
        # One positive divisor per example never changes the largest logit.
        reason = " by construction" if quantity == "accuracy" and set(names) <= {"temperature", "vbs"} else ""
        labels = join_names([method_style(name).label for name in names])
        notes.append(f"{quantity} of {labels}: same as {method_style(leader).label}{reason}")
    return notes


def level_grid(rows: pd.DataFrame, quantities: Mapping[str, str]) -> Figure:
    """Figure with a row per quantity ({metric: axis name}), a column per noise and a line per method.

    Many noises go on in further blocks of rows, on the same y axes.
    """
    noises = in_order(rows["noise"])
    present = {metric: name for metric, name in quantities.items() if (rows["metric"] == metric).any()}
    roomy = (page_width(len(noises)), 0.8 + 1.5 * len(present)) if len(noises) <= MOST_ABREAST else None
    figure, axes = blocks(len(noises), len(present), most=MOST_ABREAST, size=roomy)
    notes = [band_note(rows)]
    for metric, line in zip(present, axes, strict=True):
        of_metric = rows[rows["metric"] == metric]
        followers = same_curves(of_metric)
        notes += same_note(metric, followers)
        for ax, noise in zip(line, noises, strict=True):
            draw_methods(ax, of_metric[of_metric["noise"] == noise], followers)
        start_at_zero(line[0])
    for ax, noise in zip(axes[0], noises, strict=True):
        title(ax, noise)
    names = list(present.values())
    if roomy is None:
        few_ticks(axes)
        names = [name.replace(" (", "\n(") for name in names]
    name_blocks(axes, x=LEVEL, y=names)
    legend_above(figure, [method_style(method).handle() for method in in_order(rows["method"])])
    footnote(figure, rows, *notes)
    return figure


def few_ticks(axes: Sequence[Sequence[Axes]]) -> None:
    """Thin out the ticks of small panels."""
    for ax in (ax for row in axes for ax in row):
        ax.xaxis.set_major_locator(MaxNLocator(2, steps=PLAIN_STEPS))
        ax.yaxis.set_major_locator(MaxNLocator(3, steps=PLAIN_STEPS))


def start_at_zero(ax: Axes) -> None:
    """Let the y axis begin at zero, or slightly lower, so that markers there stay whole."""
    # Treat zero as one of the data: for values close to each other the margin above would shrink to nothing.
    ax.update_datalim([(0, 0)], updatex=False)
    ax.autoscale_view(scalex=False)
    top = ax.get_ylim()[1]
    ax.set_ylim(-BELOW_ZERO * top, top)
