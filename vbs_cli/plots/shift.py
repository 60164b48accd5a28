"""Figures of all methods against the noise level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import (
    COLUMN,
    MOST_ABREAST,
    blocks,
    footnote,
    legend_above,
    name_axes,
    name_blocks,
    panels,
    title,
)
from vbs_cli.plots.curves import LEVEL, band_note, draw_band, few_ticks, level_grid
from vbs_cli.plots.style import FAINT, method_style, noise_style

SWEEP = "vbs noise-sweep --noise gaussian"
SIGMA = r"mean $\bar{\sigma}$ (logits)"
MOST_LINES = 8  # noises that one panel can tell apart


def swept(metrics: pd.DataFrame, quantities: Mapping[str, str]) -> pd.DataFrame:
    """Rows of a noise sweep that hold one of the quantities."""
    rows = metrics[(metrics["noise"] != "clean") & metrics["metric"].isin(list(quantities))]
    return require(rows.dropna(subset="value"), f"noise sweep with {' or '.join(quantities)}", hint=SWEEP)


@drawn("shift", "metrics")
def shift(tables: Tables) -> Figure:
    """Accuracy and entropy under growing noise

    Where accuracy falls, entropy should rise; a flat or falling entropy line is a method too sure of itself.
    """
    quantities = {"accuracy": "accuracy", "entropy": "entropy (nats)"}
    return level_grid(swept(tables.metrics, quantities), quantities)


@drawn("shift-scores", "metrics")
def shift_scores(tables: Tables) -> Figure:
    """Calibration and scores under growing noise

    Lower is better for ECE, NLL and Brier score; KL to uniform is the distance from knowing nothing.
    """
    quantities = {
        "ece": "ECE",
        "nll": "NLL (nats)",
        "brier": "Brier score",
        "kl_uniform": "KL to uniform (nats)",
    }
    return level_grid(swept(tables.metrics, quantities), quantities)


@drawn("sigma", "metrics")
def sigma(tables: Tables) -> Figure:
    """Spread between patches under growing noise

    Variance-based smoothing can answer a noise only if its line rises above the dotted clean value.
    """
    of_method = tables.metrics[tables.metrics["method"] == "vbs"]
    rows = swept(of_method, {"sigma_bar": "sigma_bar"})
    clean = of_method[(of_method["metric"] == "sigma_bar") & (of_method["level"] == 0)]["value"].mean()
    noises = in_order(rows["noise"])
    crowded = len(noises) > MOST_LINES
    figure = sigma_panels(rows, noises) if crowded else sigma_lines(rows, noises)
    for ax in figure.axes:
        ax.axhline(clean, color=FAINT, lw=0.8, ls=":", zorder=1)
    footnote(figure, rows, band_note(rows), "dotted: without noise")
    return figure


def sigma_lines(rows: pd.DataFrame, noises: Sequence[str]) -> Figure:
    """Figure with a line per noise in one panel."""
    figure, axes = panels(1, 1, size=(COLUMN, 2.7))
    for i, noise in enumerate(noises):
        draw_band(axes[0][0], rows[rows["noise"] == noise], noise_style(noise), place=(i, len(noises)))
    name_axes(axes, x=LEVEL, y=[SIGMA])
    legend_above(figure, [noise_style(noise).handle() for noise in noises])
    return figure


def sigma_panels(rows: pd.DataFrame, noises: Sequence[str]) -> Figure:
    """Figure with a small panel per noise, for more noises than one panel can tell apart."""
    figure, axes = blocks(len(noises), 1, most=MOST_ABREAST)
    for ax, noise in zip(axes[0], noises, strict=True):
        draw_band(ax, rows[rows["noise"] == noise], method_style("vbs"))
        title(ax, noise)
    few_ticks(axes)
    name_blocks(axes, x=LEVEL, y=[SIGMA])
    return figure
