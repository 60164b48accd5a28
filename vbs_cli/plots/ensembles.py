"""Figure of the deep ensemble and the variance-smoothed one under growing noise."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETDOWN, MarkerStyle
from matplotlib.ticker import MaxNLocator

from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import PAGE, footnote, legend_above, name_axes, plain, sheet, title
from vbs_cli.plots.curves import LEVEL, band_note, draw_methods, same_curves, same_note, start_at_zero
from vbs_cli.plots.style import BLACK, FAINT, MARKER_SIZE, method_style

STUDY = "vbs noise-sweep --study ensemble"
QUANTITIES = {"accuracy": "accuracy", "kl_uniform": "KL to uniform (nats)", "ece": "ECE", "brier": "Brier score"}
TYPICAL = 0.5  # the rank of the example whose distributions are drawn
THINNEST = 1 / 150  # of a panel's width: least width of a bar, so that one of hundreds still shows
MARGIN = 0.02  # of a panel's width, between the y axis and the first class


@drawn("ensemble-study", "study", "distributions")
def ensemble_study(tables: Tables) -> Figure:
    """Deep ensemble and variance-smoothed ensemble under growing noise

    Where accuracy falls, KL to uniform should fall with it; an ensemble that stays far from uniform claims to know
    what it does not. The bars are what each ensemble predicts for one input under the strongest noise.
    """
    study = require(tables.study, "ensemble study", hint=STUDY)
    noise = in_order(study["noise"])[0]
    rows = study[study["noise"] == noise]
    figure = sheet((PAGE, 4.2))
    axes = [figure.add_subplot(2, 3, place) for place in range(1, 7)]
    for ax in axes:
        plain(ax)
    notes = draw_quantities(axes[:4], rows, f"{noise} {LEVEL}")
    draw_distributions(axes[4:], typical(tables.distributions, noise))
    methods = [method_style(method).handle() for method in in_order(rows["method"])]
    legend_above(figure, [*methods, true_class(), uniform()])
    footnote(figure, rows, *notes, "distributions: the input of median entropy under the deep ensemble")
    return figure


def typical(distributions: pd.DataFrame, noise: str) -> pd.DataFrame:
    """Predictions of each method for the example of median entropy at the strongest level of a noise."""
    rows = require(distributions, "predicted distributions", hint=STUDY)
    rows = rows[(rows["noise"] == noise) & (rows["rank"] == TYPICAL)]
    strongest = float(rows["level"].max())
    return rows[rows["level"] == strongest]


def draw_quantities(axes: Sequence[Axes], rows: pd.DataFrame, level: str) -> list[str]:
    """Draw a panel per quantity with a line per method; return notes on the lines."""
    # An ensemble is made from all seeds together; there is a band to explain only if rows have seeds of their own.
    notes = [band_note(rows)] if (rows["seed"] >= 0).any() else []
    for ax, (metric, name) in zip(axes, QUANTITIES.items(), strict=True):
        of_metric = rows[rows["metric"] == metric]
        followers = same_curves(of_metric)
        notes += same_note(metric, followers)
        draw_methods(ax, of_metric, followers)
        start_at_zero(ax)
        name_axes([[ax]], x=level, y=[name])
    return notes


def draw_distributions(axes: Sequence[Axes], rows: pd.DataFrame) -> None:
    """Draw a panel per method on one y axis: all classes, the true one marked, and the uniform distribution."""
    axes[1].sharey(axes[0])
    axes[1].tick_params(labelleft=False)
    for ax, method in zip(axes, in_order(rows["method"]), strict=True):
        draw_distribution(ax, rows[rows["method"] == method].sort_values("class"), method)
    axes[0].set_ylim(0, 1.1 * rows["probability"].max())
    name_axes([axes], x="class", y=["probability"])


def draw_distribution(ax: Axes, rows: pd.DataFrame, method: str) -> None:
    """Draw one predicted distribution, given as a row per class."""
    n_classes = len(rows)
    style = method_style(method)
    true = rows[rows["class"] == rows["label"]]
    width = max(0.9, n_classes * THINNEST)
    ax.bar(rows["class"], rows["probability"], width=width, color=style.color, lw=0)
    ax.bar(true["class"], true["probability"], width=width, color=BLACK, lw=0)
    ax.add_line(true_class(true["class"].to_list(), true["probability"].to_list()))
    ends = [-0.5 - n_classes * MARGIN, n_classes - 0.5]
    ax.add_line(uniform(ends, [1 / n_classes] * 2))
    ax.set_xlim(*ends)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, steps=[1, 2, 5, 10]))
    title(ax, f"{style.label}, λ = {rows['level'].iloc[0]:.2f}")


def true_class(x: Sequence[float] = (), y: Sequence[float] = ()) -> Line2D:
    """Triangle that points at the true class, so that it is found in grey print and however thin its bar is."""
    marker = MarkerStyle(CARETDOWN)
    return Line2D(x, y, color=BLACK, marker=marker, ms=MARKER_SIZE + 1, ls="none", zorder=3, label="true class")


def uniform(x: Sequence[float] = (), y: Sequence[float] = ()) -> Line2D:
    """Line at the uniform distribution, a prediction that knows nothing."""
    return Line2D(x, y, color=FAINT, lw=0.8, ls=":", zorder=2.5, label="uniform (1/K)")
