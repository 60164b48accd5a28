"""Figure of one input under every noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vbs_cli.conditions import CLEAN
from vbs_cli.plots.base import Tables, drawn, require
from vbs_cli.plots.canvas import COLUMN, PAGE, footnote, legend_above, name_blocks, plain, sheet, title, wrapped
from vbs_cli.plots.curves import few_ticks
from vbs_cli.plots.inputs import (
    DECIBELS,
    WINDOW,
    Input,
    about_example,
    annotate_level,
    by_place,
    channel_handles,
    cut,
    cut_note,
    draw_constellation,
    draw_image,
    draw_spectrogram,
    draw_waves,
    first_example,
    levels_by_noise,
    log_power,
    reach_note,
    reach_of,
)
from vbs_cli.plots.shift import SWEEP

LEAST_WINDOWS = 4  # a signal of fewer windows is drawn as a waveform
ABOVE = 10  # points between a panel and the name of its noise, for the level


@dataclass(frozen=True)
class Picture:
    """Input for one panel, and the noise that it is under."""

    values: Input
    noise: str = CLEAN
    family: str = ""
    level: float = 0.0


@dataclass(frozen=True)
class Look:
    """Way to draw all pictures: by which function, in how many columns, of what shape, with what axes and notes."""

    draw: Callable[[Axes, Input], None]
    columns: int
    height: float  # of a panel, as a share of its width
    x: str = ""
    y: str = ""
    notes: Sequence[str] = ()
    channels: Sequence[Artist] = ()  # for a legend


@drawn("noises", "examples")
def noises(tables: Tables) -> Figure:
    """One input under every noise

    First an input of the test split as it is, then the same input under each noise at the strongest level that was
    swept; noises of one family stand together. So it shows what the networks were asked at worst, and whether a
    person could still tell.
    """
    rows = first_example(require(tables.examples, "example inputs", hint=SWEEP))
    found = pictures(rows)
    look = look_of([each.values for each in found])
    figure, axes = strip(len(found), look)
    for ax, picture in zip(axes, found, strict=True):
        look.draw(ax, picture.values)
        annotate_level(ax, picture.level, picture.family)
        title(ax, picture.noise, pad=ABOVE)
    if look.x:
        few_ticks([axes])
    if look.channels:
        legend_above(figure, look.channels)
    footnote(figure, rows, about_example(rows), *look.notes)
    return figure


def pictures(rows: pd.DataFrame) -> list[Picture]:
    """Clean input, if the table has it, then the input at the strongest level of each noise, by families."""
    inputs = by_place(rows)
    clean = [Picture(values) for (_, level), values in inputs.items() if level == 0]
    swept = rows[rows["level"] > 0]
    families = dict(zip(swept["noise"], swept["family"], strict=True)) if "family" in swept else {}
    strongest = {noise: levels[-1] for noise, levels in levels_by_noise(rows).items()}
    return clean[:1] + [
        Picture(inputs[noise, level], noise, families.get(noise, ""), level) for noise, level in strongest.items()
    ]


def look_of(inputs: Sequence[Input]) -> Look:
    """Choose how to draw inputs, the clean one first: images, spectrograms, constellations of I and Q, or waves."""
    shape = inputs[0].shape
    if len(shape) == 3:
        return Look(draw_image, 6, shape[1] / shape[2])
    if shape[0] == 1 and shape[1] >= LEAST_WINDOWS * WINDOW:
        loudest = float(log_power(inputs[0][0]).max())
        notes = [
            "frequency: 1 is half the sampling rate",
            f"colour: logarithm of power, over {DECIBELS:g} dB up to the most that the first panel has",
        ]
        return Look(partial(draw_spectrogram, loudest=loudest), 4, 0.65, "sample", "frequency", notes)
    reach, notes = reach_of(inputs), [reach_note(inputs)]
    if shape[0] == 2:
        return Look(partial(draw_constellation, reach=reach), 5, 1.0, "I", "Q", notes)
    notes += [cut_note(shape)] if cut(shape) else []
    return Look(partial(draw_waves, reach=reach), 4, 0.65, "sample", "amplitude", notes, channel_handles(shape))


def strip(count: int, look: Look) -> tuple[Figure, list[Axes]]:
    """Figure with `count` empty panels, row by row, on the same scales."""
    n_rows, n_columns = wrapped(count, look.columns)
    panel = PAGE / look.columns
    # Inches for the notes and the names of axes; and left of the panels.
    edges, names = (0.8, 0.5) if look.x else (0.45, 0.15)
    width = max(n_columns * panel, COLUMN)
    figure = sheet((width, n_rows * (look.height * (width - names) / n_columns + 0.28) + edges))
    axes: list[Axes] = []
    for place in range(count):
        ax = figure.add_subplot(n_rows, n_columns, place + 1)
        plain(ax)
        ax.set_anchor("NW")  # the layout does not foresee where the names of a panel in the middle of its place go
        ax.tick_params(labelleft=place % n_columns == 0, labelbottom=place + n_columns >= count)
        axes.append(ax)
    name_blocks([axes], x=look.x, y=[look.y])
    return figure, axes
