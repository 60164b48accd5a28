"""Figure of all methods against the severity of shifts, family by family."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vbs_cli.plots.base import Tables, drawn, in_order, require
from vbs_cli.plots.canvas import MOST_ABREAST, blocks, footnote, legend_above, name_blocks, page_width, title
from vbs_cli.plots.curves import BELOW_ZERO, draw_line, marks, same_curves, same_note, start_at_zero
from vbs_cli.plots.shift import SWEEP
from vbs_cli.plots.style import Style, method_style

QUANTITIES = {"ece": "ECE", "nll": "NLL (nats)"}
# A method whose highest value is more times the next one's is cut off, so that the others can be told apart.
FAR = 5.0
HEADROOM = 1.05  # above the highest value that is shown whole


@drawn("families", "shifts")
def families(tables: Tables) -> Figure:
    """Calibration under each family of shifts

    Lower is better. From left to right in a panel the shifts grow, each point is the mean over the noises of one
    family, and bands are 95 % intervals. A method that was fitted on one kind of noise can be good there alone: see
    whether its line stays low in every panel.
    """
    rows, note = shown_suite(require(tables.shifts, "summary of shifts", hint=SWEEP))
    chosen = (rows["over"] == "family") & (rows["statistic"] == "mean") & (rows["baseline"] == "")
    rows = rows[chosen & (rows["severity"] >= 1) & rows["metric"].isin(list(QUANTITIES))].dropna(subset="value")
    rows = require(rows, "family of shifts", hint=SWEEP)
    names = in_order(rows["name"])
    present = {metric: name for metric, name in QUANTITIES.items() if (rows["metric"] == metric).any()}
    few = len(names) <= MOST_ABREAST
    size = (page_width(len(names)), 1.0 + 1.5 * len(present)) if few else None
    figure, axes = blocks(len(names), len(present), most=MOST_ABREAST, size=size)
    notes = [note, "line: mean over the noises of a family and all seeds, band: 95 % interval"]
    for metric, line in zip(present, axes, strict=True):
        notes += draw_row(line, rows[rows["metric"] == metric], names, metric)
    for ax, name in zip(axes[0], names, strict=True):
        title(ax, f"{name}\n{kinds_text(rows[rows['name'] == name])}")
    name_blocks(axes, x="severity", y=list(present.values()))
    legend_above(figure, [method_style(method).handle() for method in in_order(rows["method"])])
    footnote(figure, rows, *notes)
    return figure


def shown_suite(shifts: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Rows of the registered suite of most conditions, or of all that was swept if there is none; and a note on it."""
    sizes = shifts.groupby("suite", sort=False)["conditions"].max()
    registered = sizes[sizes.index != ""]
    if registered.empty:
        return shifts, "all noises that were swept"
    suite = str(registered.idxmax())
    return shifts[shifts["suite"] == suite], f"suite {suite}"


def kinds_text(rows: pd.DataFrame) -> str:
    """Number of noises that a family has, at the severity where it has most."""
    count = int(rows["conditions"].max())
    return "one kind" if count == 1 else f"{count} kinds"


def draw_row(axes: list[Axes], rows: pd.DataFrame, names: list[str], metric: str) -> list[str]:
    """Draw one metric, a panel per family; return notes on lines that lie on others or beyond the axis."""
    followers = same_curves(rows, x="severity", by=("name",))
    for ax, name in zip(axes, names, strict=True):
        draw_intervals(ax, rows[rows["name"] == name], followers, in_order(rows["method"]))
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(4))
    start_at_zero(axes[0])
    quantity = QUANTITIES[metric].partition(" (")[0]
    return [*same_note(quantity, followers), *limit(axes[0], rows, quantity)]


def draw_intervals(ax: Axes, rows: pd.DataFrame, followers: Mapping[str, str], methods: list[str]) -> None:
    """Draw a line per method against the severity with its interval as a band; followers are markers alone."""
    for i, method in enumerate(methods):
        style = method_style(method)
        if method in followers:
            style = Style(style.label, style.color, style.marker, "none")
        curve = rows[rows["method"] == method].set_index("severity").sort_index()
        place = (i, len(methods)) if followers else (0, 1)
        draw_line(ax, curve["value"], style, every=marks(len(curve), place))
        ax.fill_between(curve.index, curve["low"], curve["high"], color=style.color, alpha=0.15, lw=0)


def limit(ax: Axes, rows: pd.DataFrame, quantity: str) -> list[str]:
    """End the y axis above the methods that are not far off; return notes on those that are."""
    highest = rows.groupby("method")["value"].max().sort_values()
    far = far_off(highest)
    if far.empty:
        return []
    kept = rows[~rows["method"].isin(far.index)]
    top = HEADROOM * float(kept[["value", "high"]].max().max())
    ax.set_ylim(-BELOW_ZERO * top, top)
    return [
        f"{quantity} of {method_style(str(name)).label}: up to {value:.3g}, beyond the axis"
        for name, value in far.items()
    ]


def far_off(highest: pd.Series[float]) -> pd.Series[float]:
    """Those of ascending values that lie beyond a gap of FAR times or more; at least half of all are kept."""
    for i in range((len(highest) + 1) // 2, len(highest)):
        if highest.iloc[i] > FAR * highest.iloc[i - 1]:
            return highest.iloc[i:]
    return highest.iloc[:0]
