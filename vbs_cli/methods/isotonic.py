"""Isotonic regression: for each class the best non-decreasing map of its probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import isotonic_regression

from vbs_cli.methods.base import METHODS
from vbs_cli.methods.one_vs_rest import Array, OneVsRest

# Probabilities closer than this are ties, as in scikit-learn: near 1 they differ by rounding alone, and a slope between
# them may overflow.
RESOLUTION = 1e-15


@METHODS.register("isotonic")
@dataclass(frozen=True)
class IsotonicCalibration(OneVsRest):
    """Isotonic regression, linear between the knots and constant beyond them: Zadrozny and Elkan 2002."""

    name: ClassVar[str] = "isotonic regression"

    def fit_class(self, p: Array, hit: Array) -> tuple[Array, Array]:
        order = np.argsort(p, kind="stable")
        starts = ties(p[order])
        weights = np.diff(starts, append=len(p)).astype(np.float64)
        share = np.add.reduceat(hit[order], starts) / weights
        values = isotonic_regression(share, weights=weights).x
        bends = np.diff(values) != 0
        # Knots inside a constant stretch change nothing.
        keep = np.append(True, bends) | np.append(bends, True)
        return p[order][starts][keep], values[keep]

    def score(self, p: Array, knots: Array, values: Array) -> Array:
        return np.interp(p, knots, values)


def ties(ordered: Array) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Start of each run of ties in sorted values; a run ends RESOLUTION above its first value: (N,) -> (R,)."""
    starts, first = [], -np.inf
    for position, value in enumerate(ordered.tolist()):
        if value - first >= RESOLUTION:
            starts.append(position)
            first = value
    return np.array(starts, dtype=np.intp)
