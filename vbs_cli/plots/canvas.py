"""Sheets, axes, legends and footnotes that every figure shares; without pyplot and without global state."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import product

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from vbs_cli.plots.style import FAINT, GRID, INK

COLUMN, PAGE = 3.5, 7.2  # inches: one column and the full width of a two-column paper
GAP = 0.04  # inches around each panel
MOST_ABREAST = 6  # panels that the full width holds side by side
TEXT, SMALL, TINY = 7.5, 6.5, 5.5  # points
LETTERS_PER_INCH = 19  # of SMALL text in DejaVu Sans, with room to spare
LONGEST_SOURCE = 240  # letters; a longer name is cut so that the figure keeps its place


def sheet(size: tuple[float, float], *, gap: float = GAP, margin: float = 0.0) -> Figure:
    """Empty figure of a size in inches, with a gap around each panel and a margin around all, both in inches."""
    width, height = (margin / each for each in size)
    inside = (width, 0.0, 1 - 2 * width, 1 - height)
    return Figure(figsize=size, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=gap, h_pad=gap, rect=inside))


def panels(
    n_rows: int, n_columns: int, *, size: tuple[float, float], ratios: Sequence[float] | None = None
) -> tuple[Figure, list[list[Axes]]]:
    """Empty figure with a grid of panels that share the x axis by column and the y axis by row."""
    figure = sheet(size)
    grid = figure.subplots(n_rows, n_columns, sharex="col", sharey="row", squeeze=False, height_ratios=ratios)
    axes: list[list[Axes]] = grid.tolist()
    for row in axes:
        for ax in row:
            plain(ax)
    return figure, axes


def blocks(
    count: int, n_rows: int, *, most: int, size: tuple[float, float] | None = None
) -> tuple[Figure, list[list[Axes]]]:
    """Empty figure for `count` things, each a column of `n_rows` panels, as axes[row][thing].

    Columns beyond `most` go on in a further block below. A row shares its y axis over all blocks, a column its x axis.
    """
    n_blocks, n_columns = wrapped(count, most)
    figure = sheet(size or (PAGE, 0.75 + n_blocks * (0.4 + 0.85 * n_rows)))
    grid = figure.add_gridspec(n_blocks * n_rows, n_columns)
    axes: list[list[Axes]] = [[] for _ in range(n_rows)]
    for block in range(n_blocks):
        things = range(count)[block * n_columns : (block + 1) * n_columns]
        for row, thing in product(range(n_rows), things):
            share_x, share_y = axes[0][thing] if row else None, axes[row][0] if thing else None
            place = grid[block * n_rows + row, thing % n_columns]
            ax = figure.add_subplot(place, sharex=share_x, sharey=share_y)
            plain(ax)
            ax.tick_params(labelleft=thing % n_columns == 0, labelbottom=row == n_rows - 1)
            axes[row].append(ax)
    return figure, axes


def wrapped(count: int, most: int) -> tuple[int, int]:
    """Rows and columns, at most `most`, of a grid that holds `count` things with few places left empty."""
    n_rows = -(-count // most)
    return n_rows, -(-count // n_rows)


def plain(ax: Axes) -> None:
    """Style a panel: thin lines, small type, a faint grid behind the data, no box."""
    ax.spines[["top", "right"]].set_visible(False)
    for spine in ax.spines.values():
        spine.set(linewidth=0.6, color=FAINT)
    ax.tick_params(which="major", labelsize=SMALL, width=0.6, length=2.5, color=FAINT, labelcolor=INK)
    ax.tick_params(which="minor", width=0.4, length=1.5, color=FAINT)
    ax.grid(axis="y", which="major", color=GRID, linewidth=0.5)
    ax.set_axisbelow(True)


def name_axes(axes: Sequence[Sequence[Axes]], *, x: str, y: Sequence[str]) -> None:
    """Name the x axis under the lowest panel of each column and the y axis left of each row."""
    for ax in axes[-1]:
        ax.set_xlabel(x, fontsize=TEXT, color=INK)
    for row, label in zip(axes, y, strict=True):
        row[0].set_ylabel(label, fontsize=TEXT, color=INK)


def name_blocks(axes: Sequence[Sequence[Axes]], *, x: str, y: Sequence[str]) -> None:
    """Name the axes of `blocks`: x under panels with nothing beneath, y left of each row of each block."""
    place = axes[0][0].get_subplotspec()
    assert place is not None
    n_columns = place.get_gridspec().ncols
    for ax in axes[-1][-n_columns:]:
        ax.set_xlabel(x, fontsize=TEXT, color=INK)
    for row, label in zip(axes, y, strict=True):
        for ax in row[::n_columns]:
            ax.set_ylabel(label, fontsize=TEXT, color=INK)


def title(ax: Axes, text: str, *, pad: float | None = None) -> None:
    """Set a panel's title, `pad` points above it, taken literally: a `$` in it is a dollar."""
    ax.set_title(text, fontsize=TEXT, color=INK, parse_math=False, pad=pad)


def legend_above(figure: Figure, handles: Sequence[Artist]) -> None:
    """Draw a legend above the panels, where it cannot cover data, in as many columns as fit the width."""
    legend = figure.legend(
        handles=list(handles),
        loc="outside upper center",
        ncols=columns_that_fit([str(handle.get_label()) for handle in handles], figure.get_figwidth()),
        fontsize=SMALL,
        labelcolor=INK,
        frameon=False,
        handlelength=2.8,
        columnspacing=1.5,
        borderpad=0.1,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def columns_that_fit(labels: Sequence[str], width: float) -> int:
    """Largest number of legend columns, filled downwards, that `width` inches hold."""
    for n_rows in range(1, len(labels) + 1):
        columns = [labels[start : start + n_rows] for start in range(0, len(labels), n_rows)]
        letters = sum(max(len(label) for label in column) for column in columns)
        if letters / LETTERS_PER_INCH + 0.5 * len(columns) <= width:
            return len(columns)
    return 1


def footnote(figure: Figure, rows: pd.DataFrame, *notes: str) -> None:
    """Say under the panels where the data come from, so that simulated data are never taken for real."""
    source = " ".join(f"data: {rows['dataset'].iloc[0]}, {rows['source'].iloc[0]}".split())
    if len(source) > LONGEST_SOURCE:
        source = source[: LONGEST_SOURCE - 1] + "…"
    width = int(figure.get_figwidth() * LETTERS_PER_INCH)
    lines = [line for note in (*notes, source) if note for line in textwrap.wrap(note, width)]
    figure.supxlabel(
        "\n".join(lines), x=0.01, ha="left", fontsize=SMALL, color=FAINT, linespacing=1.3, parse_math=False
    )


def page_width(n_columns: int) -> float:
    """Width of a figure in inches: one paper column for a single panel, the full width for more."""
    return COLUMN if n_columns == 1 else PAGE
