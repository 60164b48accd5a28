"""Styles of methods and noises, which differ in colour, marker and line, so that grey print works too."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from matplotlib.lines import Line2D
from matplotlib.typing import LineStyleType

# Okabe & Ito (2008), the palette that colour-blind readers can tell apart; its yellow is too pale for lines.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

LINE_WIDTH, MARKER_SIZE = 1.3, 3.5  # points
INK, FAINT, GRID = "#333333", "#666666", "#E4E4E4"
LONG_DASH: LineStyleType = (0, (7, 2))
DASH_DOT_DOT: LineStyleType = (0, (5, 1.5, 1, 1.5, 1, 1.5))


@dataclass(frozen=True)
class Style:
    """Look and label of one method, noise or split."""

    label: str
    color: str
    marker: str
    line: LineStyleType

    def handle(self) -> Line2D:
        """Sample of this style for a legend."""
        return Line2D(
            [],
            [],
            color=self.color,
            marker=self.marker,
            linestyle=self.line,
            lw=LINE_WIDTH,
            ms=MARKER_SIZE,
            label=self.label,
        )


METHODS = {
    "conventional": Style("conventional", BLACK, "o", "-"),
    "temperature": Style("temperature scaling", SKY, "s", "--"),
    "vbs": Style("variance-based smoothing", VERMILLION, "D", "-"),
    "mc-dropout": Style("MC-dropout", BLUE, "^", "-."),
    "naive": Style("naive patch averaging", GREEN, "v", ":"),
    "ensemble": Style("deep ensemble", ORANGE, "<", LONG_DASH),
    "vbs-ensemble": Style("VBS ensemble", PURPLE, ">", DASH_DOT_DOT),
    "temperature-ensemble": Style("tempered ensemble", ORANGE, "P", "--"),
    "vbs-dropout": Style("VBS on MC-dropout", BLUE, "X", ":"),
    "vector": Style("vector scaling", SKY, "*", "-."),
    "dirichlet": Style("Dirichlet calibration", SKY, "h", ":"),
    "isotonic": Style("isotonic regression", GREEN, "p", "--"),
    "histogram": Style("histogram binning", GREEN, "d", "-."),
    "bbq": Style("Bayesian binning", GREEN, "H", "-"),
}
NOISES = {
    "gaussian": Style("gaussian", BLUE, "o", "-"),
    "speckle": Style("speckle", VERMILLION, "s", "--"),
    "affine": Style("affine", GREEN, "^", "-."),
    "affine-no-zoom": Style("affine-no-zoom", SKY, "P", DASH_DOT_DOT),
    "elastic": Style("elastic", PURPLE, "D", ":"),
    "salt-and-pepper": Style("salt-and-pepper", ORANGE, "v", LONG_DASH),
}
SPARE_COLORS = (GREEN, PURPLE, ORANGE, BLUE, SKY, VERMILLION, BLACK)
SPARE_MARKERS = ("8", "1", "2", "3", "4")  # none of them in the tables above
SPARE_LINES: tuple[LineStyleType, ...] = ((0, (3, 1, 1, 1)), (0, (1, 1)), LONG_DASH, DASH_DOT_DOT)


def method_style(name: str) -> Style:
    """Style of a method; one that is not in METHODS has a style of its own, the same in every figure."""
    return METHODS.get(name) or _spare(name)


def noise_style(name: str) -> Style:
    """Style of a noise, in figures with a line per noise."""
    return NOISES.get(name) or _spare(name)


def _spare(name: str) -> Style:
    """Style derived from the name alone, so that it depends on neither the order nor the other names."""
    rest, color = divmod(zlib.crc32(name.encode()), len(SPARE_COLORS))
    rest, marker = divmod(rest, len(SPARE_MARKERS))
    line = rest % len(SPARE_LINES)
    return Style(name, SPARE_COLORS[color], SPARE_MARKERS[marker], SPARE_LINES[line])
