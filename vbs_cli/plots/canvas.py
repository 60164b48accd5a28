"""Sheets, axes, legends and footnotes that every figure shares; without pyplot and without global state."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from vbs_cli.plots.style import FAINT, GRID, INK

COLUMN, PAGE = 3.5, 7.2  # inches: one column and the full width of a two-column paper
TEXT, SMALL = 7.5, 6.5  # points
LETTERS_PER_INCH = 19  # of SMALL text in DejaVu Sans, with room to spare
LONGEST_SOURCE = 240  # letters; a longer name is cut so that the figure keeps its place


def sheet(size: tuple[float, float]) -> Figure:
    """Empty figure of a size in inches."""
    return Figure(figsize=size, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.04))


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


def title(ax: Axes, text: str) -> None:
    """Set a panel's title, taken literally: a `$` in it is a dollar."""
    ax.set_title(text, fontsize=TEXT, color=INK, parse_math=False)


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
