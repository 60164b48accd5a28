"""Histogram binning: how often a class was the label when its probability fell into the same bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vbs_cli.errors import InvalidInput
from vbs_cli.methods.base import METHODS
from vbs_cli.methods.one_vs_rest import Array, Steps, bins_of, equal_mass

BINNINGS = ("width", "mass")


@METHODS.register("histogram")
@dataclass(frozen=True)
class HistogramBinning(Steps):
    """Share of a class among the validation examples of a bin; an empty bin keeps its midpoint.

    `binning` is "width" for bins of equal width, "mass" for bins of equally many examples. Zadrozny and Elkan 2001.
    """

    name: ClassVar[str] = "histogram binning"

    n_bins: int = 15
    binning: str = "width"

    def __post_init__(self) -> None:
        if not isinstance(self.n_bins, int) or self.n_bins < 1:
            raise InvalidInput(f"n_bins is {self.n_bins}", hint="it must be a whole number of at least 1")
        if self.binning not in BINNINGS:
            raise InvalidInput(f"unknown binning {self.binning!r}", hint=f"known: {', '.join(BINNINGS)}")

    def fit_class(self, p: Array, hit: Array) -> tuple[Array, Array]:
        by_mass = self.binning == "mass"
        edges = equal_mass(np.sort(p), [self.n_bins])[0] if by_mass else np.linspace(0.0, 1.0, self.n_bins + 1)
        index, bins = bins_of(p, edges), len(edges) - 1
        count = np.bincount(index, minlength=bins)
        hits = np.bincount(index, weights=hit, minlength=bins)
        middle = (edges[:-1] + edges[1:]) / 2
        return edges, np.where(count > 0, hits / np.maximum(count, 1), middle)
