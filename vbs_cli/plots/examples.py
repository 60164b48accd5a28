"""Figure of what growing noises do to one input of the test split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vbs_cli.conditions import CLEAN, evenly, some_levels
from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import COLUMN, GAP, PAGE, TEXT, footnote, legend_above, page_width, plain, sheet, title
from vbs_cli.plots.curves import few_ticks
from vbs_cli.plots.inputs import (
    Input,
    about_example,
    annotate_level,
    by_place,
    channel_handles,
    cut,
    cut_note,
    draw_constellation,
    draw_image,
    draw_waves,
    first_example,
    levels_by_noise,
    reach_note,
    reach_of,
    same_scales,
)
from vbs_cli.plots.shift import SWEEP
from vbs_cli.plots.style import INK

AMPLITUDE = "amplitude"
SMALL_IMAGE, SMALL_WAVE, SMALL_CONSTELLATION = 0.6, (0.9, 0.45), (0.8, 0.8)  # inches: height; width and height
MOST_LEVELS = 6  # of a noise, with the clean input
MOST_ROOMY = 6  # noises; the panels of more are small
SMALL_GAP = 0.02  # inches around each small panel
MARGIN = 0.06  # inches around all small panels: text is laid out at one resolution and may be wider at another
NAMES = 1.2  # inches left of small panels, for the names of the noises
ABOVE = 10  # points between a panel and its title, for the level of its noise


@dataclass(frozen=True)
class InputView:
    """One way to draw an input, which takes a row of panels per noise."""

    draw: Callable[[Axes, Input], None]
    x: str
    y: str
    height: float  # of a panel, as a share of its width
    small: tuple[float, float]  # inches, width and height of a small panel


@dataclass(frozen=True)
class Columns:
    """Levels of each noise by column, None for a gap; unless a column has one level for all, panels name theirs."""

    titles: Sequence[str]
    levels: Mapping[str, Sequence[float | None]]  # by noise
    common: bool


@drawn("examples", "examples")
def examples(tables: Tables) -> Figure:
    """One input under growing noise

    Each row is the same input of the test split under one noise that grows from left to right; the levels are those
    that the other figures show, so this is what their methods were asked to classify.
    """
    rows = first_example(require(tables.examples, "example inputs", hint=SWEEP))
    inputs, columns = by_place(rows), columns_of(rows)
    noises, small = list(columns.levels), len(columns.levels) > MOST_ROOMY
    shape = next(iter(inputs.values())).shape
    views = small_views(inputs) if small else views_of(shape)
    figure, grid = empty_grid(columns, views, small=small)
    placed = [[input_at(inputs, noise, level) for level in columns.levels[noise]] for noise in noises]
    for i, view in enumerate(views):
        draw_view(grid[i :: len(views)], view, placed, small=small)
    name_panels(grid[:: len(views)], columns, views[0], small=small)
    waves = views[0].y == AMPLITUDE
    if waves and (handles := channel_handles(shape)):
        legend_above(figure, handles)
    notes = [cut_note(shape)] if waves and cut(shape) else []
    if small and views[0].y:
        notes += [f"y axis: {views[0].y}", reach_note(ascending(inputs))]
    footnote(figure, rows, about_example(rows), *notes)
    return figure


def columns_of(rows: pd.DataFrame) -> Columns:
    """Columns of levels where the noises have them in common, else of the first, second, ... level of each noise."""
    by_noise = levels_by_noise(rows)
    every = {level for levels in by_noise.values() for level in levels}
    noises = [noise for noise in in_order(rows["noise"]) if noise in by_noise]
    noises = list(by_noise) if len(by_noise) > MOST_ROOMY else noises
    if any(every == set(levels) for levels in by_noise.values()):
        shown = some_levels(rows, MOST_LEVELS)
        levels = {noise: [level if level in (0, *by_noise[noise]) else None for level in shown] for noise in noises}
        return Columns([f"λ = {level:.2f}" for level in shown], levels, common=True)
    some = {noise: evenly(by_noise[noise], MOST_LEVELS - 1) for noise in noises}
    most = max(len(levels) for levels in some.values())
    word = "severity" if most == max(len(levels) for levels in by_noise.values()) else "step"
    ranks = {noise: [0.0, *levels, *[None] * (most - len(levels))] for noise, levels in some.items()}
    return Columns([CLEAN, *(f"{word} {k}" for k in range(1, most + 1))], ranks, common=False)


def input_at(inputs: Mapping[tuple[str, float], Input], noise: str, level: float | None) -> Input | None:
    """Input under a noise; without noise any clean input, None if there is none at this level."""
    if level is None:
        return None
    clean = (values for (_, at), values in inputs.items() if at == 0)
    return inputs.get((noise, level), next(clean, None) if level == 0 else None)


def views_of(shape: tuple[int, ...]) -> list[InputView]:
    """Views of inputs of this shape: images, waveforms, and for I and Q the constellation too."""
    if len(shape) == 3:
        return [InputView(draw_image, "", "", shape[1] / shape[2], (SMALL_IMAGE * shape[2] / shape[1], SMALL_IMAGE))]
    waves = InputView(draw_waves, "sample", AMPLITUDE, 0.8, SMALL_WAVE)
    return [waves, InputView(draw_constellation, "I", "Q", 1.0, SMALL_CONSTELLATION)] if shape[0] == 2 else [waves]


def small_views(inputs: Mapping[tuple[str, float], Input]) -> list[InputView]:
    """View of inputs for small panels: of I and Q the constellation alone; signals end at the reach of all panels."""
    shape = next(iter(inputs.values())).shape
    view = views_of(shape)[-1]
    if len(shape) == 3:
        return [view]
    draw = draw_constellation if view.draw is draw_constellation else draw_waves
    return [replace(view, draw=partial(draw, reach=reach_of(ascending(inputs))))]


def ascending(inputs: Mapping[tuple[str, float], Input]) -> list[Input]:
    """Inputs by their level, clean ones first."""
    return [values for (_, _), values in sorted(inputs.items(), key=lambda item: item[0][1])]


def empty_grid(columns: Columns, views: Sequence[InputView], *, small: bool) -> tuple[Figure, list[list[Axes]]]:
    """Figure with empty panels: the views of the first noise, one row each, then those of the next."""
    n_noises, n_columns = len(columns.levels), len(columns.titles)
    heights = [view.height for view in views] * n_noises
    edges = 0.8 if views[-1].x else 0.7  # inches for all that is written above and below
    width = page_width(n_columns)
    height = sum(heights) * 0.95 * (width - 0.5) / n_columns
    if small:
        width = max(min(NAMES + n_columns * (views[0].small[0] + 2 * SMALL_GAP), PAGE), COLUMN)
        height = n_noises * (views[0].small[1] + 2 * SMALL_GAP)
    named = 0.0 if columns.common else 0.1 * (n_noises + 1)
    gap, margin = (SMALL_GAP, MARGIN) if small else (GAP, 0.0)
    figure = sheet((width, edges + height + named), gap=gap, margin=margin)
    grid = figure.subplots(len(heights), n_columns, squeeze=False, height_ratios=heights)
    axes: list[list[Axes]] = grid.tolist()
    return figure, axes


def draw_view(
    grid: Sequence[Sequence[Axes]], view: InputView, inputs: Sequence[Sequence[Input | None]], *, small: bool
) -> None:
    """Draw one view of all inputs, a row per noise, on the same scales; a level that a noise lacks leaves a gap."""
    shown = []
    for row, of_noise in zip(grid, inputs, strict=True):
        for ax, values in zip(row, of_noise, strict=True):
            if values is None:
                ax.set_axis_off()
                continue
            plain(ax)
            if small:
                ax.set_anchor("NW")  # the layout does not foresee where names of a panel amid its place go
            ax.xaxis.set_major_locator(MaxNLocator(2))
            ax.yaxis.set_major_locator(MaxNLocator(4))
            view.draw(ax, values)
            ax.tick_params(labelleft=ax is row[0], labelbottom=row is grid[-1])
            shown.append(ax)
    same_scales(shown)
    if small and view.x:
        few_ticks([shown])
    for ax in grid[-1]:
        ax.set_xlabel(view.x, fontsize=TEXT, color=INK)
    for row in grid:
        row[0].set_ylabel(view.y, fontsize=TEXT, color=INK)


def name_panels(grid: Sequence[Sequence[Axes]], columns: Columns, view: InputView, *, small: bool) -> None:
    """Name the noises left of their rows, the columns above the first row, and levels that are a panel's own."""
    for row, (noise, levels) in zip(grid, columns.levels.items(), strict=True):
        row[0].set_ylabel(noise if small or not view.y else f"{noise}\n{view.y}", fontsize=TEXT, color=INK)
        if small:
            row[0].yaxis.label.set(rotation=0, ha="right", va="center")
        for ax, level in zip(row, levels, strict=True):
            if level and not columns.common:
                annotate_level(ax, level)
    for ax, text in zip(grid[0], columns.titles, strict=True):
        title(ax, text, pad=None if columns.common else ABOVE)
