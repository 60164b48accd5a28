"""Figure of the loss and accuracy of networks during training."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import footnote, legend_above, name_axes, page_width, panels, title
from vbs_cli.plots.curves import draw_line, seeds_note, spread
from vbs_cli.plots.style import BLUE, ORANGE, Style

TRAIN = Style("training", BLUE, "o", "-")
VALIDATION = Style("validation", ORANGE, "s", "--")
ROWS = {"loss": "loss (nats)", "accuracy": "accuracy"}


@drawn("training", "training")
def training(tables: Tables) -> Figure:
    """Training and validation per epoch

    A validation loss that rises while the training loss falls marks overfitting, and with it overconfidence.
    """
    rows = require(tables.training, "training history", hint="vbs train")
    models = in_order(rows["network"])
    figure, axes = panels(len(ROWS), len(models), size=(page_width(len(models)), 3.9))
    for quantity, line in zip(ROWS, axes, strict=True):
        for ax, model in zip(line, models, strict=True):
            of_model = rows[rows["network"] == model]
            draw_history(ax, of_model, quantity, TRAIN)
            draw_history(ax, of_model, f"val_{quantity}", VALIDATION)
            ax.set_xlim(0.5, of_model["epoch"].max() + 0.5)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, steps=[1, 2, 5, 10]))
    for ax, model in zip(axes[0], models, strict=True):
        title(ax, f"{model} model")
    name_axes(axes, x="epoch", y=list(ROWS.values()))
    legend_above(figure, [TRAIN.handle(), VALIDATION.handle()])
    footnote(figure, rows, seeds_note(rows, "thin: single seeds"))
    return figure


def draw_history(ax: Axes, rows: pd.DataFrame, quantity: str, style: Style) -> None:
    """Draw the mean over seeds as a line, every seed as a thin one."""
    mean = spread(rows, x="epoch", y=quantity)["mean"]
    for _, run in rows.groupby("seed"):
        ax.plot(run["epoch"], run[quantity], color=style.color, lw=0.5, alpha=0.4)
    draw_line(ax, mean, style, every=max(len(mean) // 6, 1))
