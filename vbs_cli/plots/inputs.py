"""Inputs as pictures: images, waveforms, spectrograms and constellations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from vbs_cli.plots.base import in_order
from vbs_cli.plots.canvas import TINY
from vbs_cli.plots.style import BLUE, FAINT, GREEN, LINE_WIDTH, ORANGE

Input = NDArray[np.float64]  # (C, L) or (C, H, W)

COLORS = (BLUE, ORANGE, GREEN)  # of the channels that are drawn, distinct in grey print too
FIRST = 200  # samples of a signal of several channels: with more of them the lines hide each other
POINTS = 240  # of a line; a longer one is drawn by its envelope, which looks the same at this width
DOT = 2.0  # square points
REACH = 2.0  # times as far as the clean input: further, a single strong noise would make all others look flat
WINDOW = 256  # samples of a spectrogram's window: 16 ms of speech at 16 kHz
FRAMES = 120  # of a spectrogram, about
DECIBELS = 80.0  # from the lightest colour of a spectrogram to the darkest
STEPS = 16  # colours of a spectrogram, of 5 dB each; with more of them an SVG would be several times as large


def first_example(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the first example of the table."""
    first: pd.DataFrame = rows[rows["example"] == rows["example"].iloc[0]]
    return first


def about_example(rows: pd.DataFrame) -> str:
    """Note on which example is shown."""
    return f"example {rows['example'].iloc[0]} of the test split, label {rows['label'].iloc[0]}"


def by_place(rows: pd.DataFrame) -> dict[tuple[str, float], Input]:
    """Arrays of one example by (noise, level)."""
    columns = (rows[name] for name in ("noise", "level", "shape", "values"))
    return {
        (str(noise), float(level)): np.asarray(values, dtype=np.float64).reshape([int(n) for n in shape])
        for noise, level, shape, values in zip(*columns, strict=True)
    }


def levels_by_noise(rows: pd.DataFrame) -> dict[str, list[float]]:
    """Levels above zero of each noise, ascending; noises of one family stand together."""
    swept = rows[rows["level"] > 0]
    if "family" in swept:
        families = in_order(swept["family"])
        swept = swept.sort_values("family", key=lambda column: column.map(families.index), kind="stable")
    return {noise: sorted(swept[swept["noise"] == noise]["level"].astype(float)) for noise in in_order(swept["noise"])}


def channel_names(shape: tuple[int, ...]) -> Mapping[int, str]:
    """Names of the channels of a signal that are drawn, by their number; none of an image."""
    if len(shape) == 3:
        return {}
    named = ("I", "Q") if shape[0] == 2 else [f"channel {i + 1}" for i in range(shape[0])]
    return dict(enumerate(named[: len(COLORS)]))


def channel_handles(shape: tuple[int, ...]) -> list[Artist]:
    """Legend entries for the channels of a signal, if it has several."""
    names = channel_names(shape)
    return [Line2D([], [], color=COLORS[i], lw=LINE_WIDTH, label=names[i]) for i in names] if len(names) > 1 else []


def cut(shape: tuple[int, ...]) -> bool:
    """Whether waveforms of this shape show only the beginning."""
    return len(shape) == 2 and shape[0] > 1 and shape[1] > FIRST


def cut_note(shape: tuple[int, ...]) -> str:
    """Note on which part of cut waveforms is shown."""
    return f"waveforms: the first {FIRST} of {shape[1]} samples"


def annotate_level(ax: Axes, level: float, family: str = "") -> None:
    """Write the level of a noise above a panel in tiny type, after the noise's family if that is given."""
    text = ", ".join(part for part in (family, f"λ = {level:.3g}") if part)
    ax.annotate(
        text,
        (0.5, 1),
        xycoords="axes fraction",
        xytext=(0, 1.5),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=TINY,
        color=FAINT,
        parse_math=False,
    )


def reach_of(inputs: Sequence[Input]) -> float:
    """Amplitude at which panels of signals end: that of all, but at most REACH times that of the first, clean one."""
    reaches = [float(np.abs(each).max()) for each in inputs]
    return min(max(reaches), REACH * reaches[0]) or 1.0


def reach_note(inputs: Sequence[Input]) -> str:
    """Note that some inputs go on beyond their panels, empty if none does."""
    beyond = max(float(np.abs(each).max()) for each in inputs) > reach_of(inputs)
    return f"panels end at {REACH:g} times the reach of the clean input; some inputs go on beyond" if beyond else ""


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


def draw_waves(ax: Axes, values: Input, reach: float | None = None) -> None:
    """Draw amplitude against the number of the sample, a thin line per channel; `reach` is where the y axis ends."""
    shown = values[:, :FIRST] if cut(values.shape) else values
    for i in channel_names(values.shape):
        ax.plot(*envelope(shown[i]), color=COLORS[i], lw=0.6)
    ax.margins(x=0)
    if reach is not None:
        ax.set_ylim(-1.05 * reach, 1.05 * reach)


def envelope(signal: Input, points: int = POINTS) -> tuple[Input, Input]:
    """Sample numbers and values of a line, lows and highs in turn if it is long: (L,) -> (P,), (P,), P <= points."""
    if len(signal) <= points:
        return np.arange(len(signal), dtype=np.float64), signal
    starts = np.linspace(0, len(signal), points // 2, endpoint=False).astype(np.int64)
    ends = np.stack([np.minimum.reduceat(signal, starts), np.maximum.reduceat(signal, starts)], axis=1)
    return np.repeat(starts, 2).astype(np.float64), ends.reshape(-1)


def draw_constellation(ax: Axes, values: Input, reach: float | None = None) -> None:
    """Draw Q against I, a dot per sample; axes end at `reach`, or where the dots do."""
    # Drawn as pixels: thousands of dots as shapes would make an SVG of megabytes.
    ax.scatter(values[0], values[1], s=DOT, color=BLUE, alpha=0.3, lw=0, rasterized=True)
    end = 1.05 * (reach or float(np.abs(values).max()) or 1.0)
    ax.set(xlim=(-end, end), ylim=(-end, end))
    ax.set_aspect("equal")
    ax.xaxis.set_major_locator(MaxNLocator(4))


def log_power(signal: Input, window: int = WINDOW, frames: int = FRAMES) -> Input:
    """Power of a signal by frequency (rows, from zero to half the rate) and time, in decibels: (L,) -> (F, T)."""
    parts = sliding_window_view(signal, window)[:: max((len(signal) - window) // frames, 1)]
    power = np.abs(np.fft.rfft(parts * np.hanning(window), axis=1)) ** 2
    silence = np.finfo(np.float32).tiny  # a silent part has no logarithm
    levels: Input = 10 * np.log10(np.maximum(power.T, silence))
    return levels


def draw_spectrogram(ax: Axes, values: Input, loudest: float) -> None:
    """Draw the power of the first channel by time and frequency; from `loudest` decibels on the colour is darkest."""
    extent = (0.0, float(values.shape[1]), 0.0, 1.0)
    colors = mpl.colormaps["magma_r"].resampled(STEPS)  # from light to dark in grey print too
    ax.imshow(
        log_power(values[0]),
        origin="lower",
        aspect="auto",
        extent=extent,
        interpolation="nearest",
        vmin=loudest - DECIBELS,
        vmax=loudest,
        cmap=colors,
    )
    ax.grid(False)
