"""Figure of what the noises do to one input of the test split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from vbs_cli.conditions import some_levels
from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import TEXT, footnote, legend_above, page_width, plain, sheet, title
from vbs_cli.plots.shift import SWEEP
from vbs_cli.plots.style import BLUE, GREEN, INK, LINE_WIDTH, ORANGE

Input = NDArray[np.float64]  # (C, L) or (C, H, W)

MOST_LEVELS = 5
COLORS = (BLUE, ORANGE, GREEN)  # of the channels that are drawn, distinct in grey print too
FIRST = 200  # samples of a signal of several channels: with more of them the lines hide each other
POINTS = 240  # of a line; a longer one is drawn by its envelope, which looks the same at this width
DOT = 2.0  # square points


@dataclass(frozen=True)
class InputView:
    """One way to draw an input, which takes a row of panels per noise."""

    draw: Callable[[Axes, Input], None]
    x: str
    y: str
    height: float  # of a panel, as a share of its width


@drawn("examples", "examples")
def examples(tables: Tables) -> Figure:
    """One input under growing noise

    Each row is the same input of the test split under one noise that grows from left to right; the levels are those
    that the other figures show, so this is what their methods were asked to classify.
    """
    rows = require(tables.examples, "example inputs", hint=SWEEP)
    rows = rows[rows["example"] == rows["example"].iloc[0]]
    noises, levels = in_order(rows["noise"]), some_levels(rows, MOST_LEVELS)
    inputs = by_place(rows)
    shape = next(iter(inputs.values())).shape
    views = views_of(shape)
    figure, grid = empty_grid(len(noises), len(levels), views)
    for i, view in enumerate(views):
        draw_view(grid[i :: len(views)], view, [[inputs.get((noise, level)) for level in levels] for noise in noises])
    for i, noise in enumerate(noises):
        first = grid[i * len(views)][0]
        first.set_ylabel("\n".join(part for part in (noise, views[0].y) if part), fontsize=TEXT, color=INK)
    for ax, level in zip(grid[0], levels, strict=True):
        title(ax, f"λ = {level:.2f}")
    channels = channel_names(shape)
    if len(channels) > 1:
        legend_above(figure, [Line2D([], [], color=COLORS[i], lw=LINE_WIDTH, label=channels[i]) for i in channels])
    about = f"example {rows['example'].iloc[0]} of the test split, label {rows['label'].iloc[0]}"
    footnote(figure, rows, about, *([f"waveforms: the first {FIRST} of {shape[1]} samples"] if cut(shape) else []))
    return figure


def by_place(rows: pd.DataFrame) -> dict[tuple[str, float], Input]:
    """Arrays of one example by (noise, level)."""
    columns = (rows[name] for name in ("noise", "level", "shape", "values"))
    return {
        (str(noise), float(level)): np.asarray(values, dtype=np.float64).reshape([int(n) for n in shape])
        for noise, level, shape, values in zip(*columns, strict=True)
    }


def views_of(shape: tuple[int, ...]) -> list[InputView]:
    """Views of inputs of this shape: images, waveforms, and for I and Q the constellation too."""
    if len(shape) == 3:
        return [InputView(draw_image, "", "", shape[1] / shape[2])]
    waves = InputView(draw_waves, "sample", "amplitude", 0.8)
    return [waves, InputView(draw_constellation, "I", "Q", 1.0)] if shape[0] == 2 else [waves]


def channel_names(shape: tuple[int, ...]) -> Mapping[int, str]:
    """Names of the channels of a signal that are drawn, by their number; none of an image."""
    if len(shape) == 3:
        return {}
    named = ("I", "Q") if shape[0] == 2 else [f"channel {i + 1}" for i in range(shape[0])]
    return dict(enumerate(named[: len(COLORS)]))


def cut(shape: tuple[int, ...]) -> bool:
    """Whether waveforms of this shape show only the beginning."""
    return len(shape) == 2 and shape[0] > 1 and shape[1] > FIRST


def empty_grid(n_noises: int, n_levels: int, views: Sequence[InputView]) -> tuple[Figure, list[list[Axes]]]:
    """Figure with empty panels: the views of the first noise, one row each, then those of the next."""
    width = page_width(n_levels)
    heights = [view.height for view in views] * n_noises
    names = 0.8 if views[-1].x else 0.7  # inches for all that is written above and below
    figure = sheet((width, names + sum(heights) * 0.95 * (width - 0.5) / n_levels))
    grid = figure.subplots(len(heights), n_levels, squeeze=False, height_ratios=heights)
    axes: list[list[Axes]] = grid.tolist()
    return figure, axes


def draw_view(grid: Sequence[Sequence[Axes]], view: InputView, inputs: Sequence[Sequence[Input | None]]) -> None:
    """Draw one view of all inputs, a row per noise, on the same scales; a level that a noise lacks leaves a gap."""
    shown = []
    for row, of_noise in zip(grid, inputs, strict=True):
        for ax, values in zip(row, of_noise, strict=True):
            if values is None:
                ax.set_axis_off()
                continue
            plain(ax)
            ax.xaxis.set_major_locator(MaxNLocator(2))
            ax.yaxis.set_major_locator(MaxNLocator(4))
            view.draw(ax, values)
            ax.tick_params(labelleft=ax is row[0], labelbottom=row is grid[-1])
            shown.append(ax)
    same_scales(shown)
    for ax in grid[-1]:
        ax.set_xlabel(view.x, fontsize=TEXT, color=INK)
    for row in grid:
        row[0].set_ylabel(view.y, fontsize=TEXT, color=INK)


def same_scales(axes: Sequence[Axes]) -> None:
    """Let all panels reach as far as any of them, so that a noise looks as strong as it is."""
    x, y = np.array([ax.get_xbound() for ax in axes]), np.array([ax.get_ybound() for ax in axes])
    for ax in axes:
        ax.set_xbound(x.min(), x.max())
        ax.set_ybound(y.min(), y.max())


def draw_image(ax: Axes, values: Input) -> None:
    """Draw three channels in colour, else the first in grey; values that noise drove out of [0, 1] are clipped."""
    pixels = np.clip(values, 0, 1)
    picture = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels[0]
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.set(xticks=[], yticks=[])


def draw_waves(ax: Axes, values: Input) -> None:
    """Draw amplitude against the number of the sample, a thin line per channel."""
    shown = values[:, :FIRST] if cut(values.shape) else values
    for i in channel_names(values.shape):
        ax.plot(*envelope(shown[i]), color=COLORS[i], lw=0.6)
    ax.margins(x=0)


def envelope(signal: Input, points: int = POINTS) -> tuple[Input, Input]:
    """Sample numbers and values of a line, lows and highs in turn if it is long: (L,) -> (P,), (P,), P <= points."""
    if len(signal) <= points:
        return np.arange(len(signal), dtype=np.float64), signal
    starts = np.linspace(0, len(signal), points // 2, endpoint=False).astype(np.int64)
    ends = np.stack([np.minimum.reduceat(signal, starts), np.maximum.reduceat(signal, starts)], axis=1)
    return np.repeat(starts, 2).astype(np.float64), ends.reshape(-1)


def draw_constellation(ax: Axes, values: Input) -> None:
    """Draw Q against I, a dot per sample."""
    # Drawn as pixels: thousands of dots as shapes would make an SVG of megabytes.
    ax.scatter(values[0], values[1], s=DOT, color=BLUE, alpha=0.3, lw=0, rasterized=True)
    reach = 1.05 * float(np.abs(values).max()) or 1.0
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
    ax.set_aspect("equal")
    ax.xaxis.set_major_locator(MaxNLocator(4))
