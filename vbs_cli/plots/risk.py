"""Figure of the errors that remain when the least confident predictions are left out."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vbs_cli.conditions import Condition
from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import footnote, legend_above, name_axes, page_width, plain, sheet, title, wrapped
from vbs_cli.plots.curves import band_note, draw_methods, same_curves, same_note, start_at_zero
from vbs_cli.plots.style import method_style

FEW, MANY = 3, 5  # columns
MOST_ROOMY = 7  # panels of the larger size: clean data and six noises


@drawn("risk-coverage", "coverage")
def risk_coverage(tables: Tables) -> Figure:
    """Errors among the predictions that are kept

    Only the most confident share of the predictions is kept; the lower a line lies, the better a method's confidence
    tells which of its predictions to trust. At the right end, where all are kept, stands the plain error rate.
    """
    rows = require(tables.coverage, "risk-coverage curves", hint="vbs evaluate")
    followers = same_curves(rows, x="coverage", y="risk")
    found = shown_conditions(rows)
    figure, axes = risk_panels(len(found))
    between = ", " if len(found) <= MOST_ROOMY else "\n"
    for ax, condition in zip(axes, found, strict=True):
        draw_methods(ax, condition.of(rows), followers, x="coverage", y="risk")
        start_at_zero(ax)
        ax.set_xlim(0, 1.02)
        title(ax, condition.name if condition.alone else f"{condition.noise}{between}λ = {condition.level:.2f}")
    legend_above(figure, [method_style(method).handle() for method in in_order(rows["method"])])
    footnote(figure, rows, band_note(rows), *same_note("error rate", followers))
    return figure


def shown_conditions(rows: pd.DataFrame) -> list[Condition]:
    """Conditions of the table in its order, clean first."""
    pairs = rows[["noise", "level"]].drop_duplicates()
    found = [Condition(str(noise), float(level)) for noise, level in zip(pairs["noise"], pairs["level"], strict=True)]
    return sorted(found, key=lambda condition: condition.noise != "clean")


def risk_panels(count: int) -> tuple[Figure, list[Axes]]:
    """Figure of panels, each with its own y axis: errors on clean data are too few for the scale of noisy ones."""
    roomy = count <= MOST_ROOMY
    n_rows, n_columns = wrapped(count, FEW if roomy else MANY)
    figure = sheet((page_width(n_columns), 0.7 + (2.0 if roomy else 1.5) * n_rows))
    axes = [figure.add_subplot(n_rows, n_columns, place) for place in range(1, count + 1)]
    for place, ax in enumerate(axes):
        plain(ax)
        lowest = place + n_columns >= count
        name = "coverage (share kept)" if roomy else "coverage"
        name_axes([[ax]], x=name if lowest else "", y=["" if place % n_columns else "error rate"])
    return figure, axes
