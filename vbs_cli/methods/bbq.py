"""Bayesian binning into quantiles: an average over histograms, each weighted by its evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betaln

from vbs_cli.errors import InvalidInput
from vbs_cli.methods.base import METHODS
from vbs_cli.methods.one_vs_rest import Array, Steps, bins_of, equal_mass

SAMPLE_SIZE = 2.0  # N' of the paper: weight of the prior of all bins together, in examples
CERTAIN = 1e-12  # least distance of a prior's midpoint from 0 and 1, where it would rule out what was not seen
# The table of an average has the edges of all its models, thousands if there are many examples. To keep it small,
# models this much less likely than the best are left out, and neighbouring bins closer than this are merged.
NEGLIGIBLE = 1e-9


@METHODS.register("bbq")
@dataclass(frozen=True)
class BayesianBinning(Steps):
    """Bayesian binning into quantiles: Naeini, Cooper and Hauskrecht 2015.

    Models have from N^(1/3) / range_factor to range_factor * N^(1/3) bins of equally many examples.
    """

    name: ClassVar[str] = "Bayesian binning"

    range_factor: float = 10.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.range_factor) and self.range_factor >= 1):
            raise InvalidInput(f"range_factor is {self.range_factor}", hint="it must be at least 1; the paper uses 10")

    def fit_class(self, p: Array, hit: Array) -> tuple[Array, Array]:
        order = np.argsort(p, kind="stable")
        ordered, hits = p[order], np.concatenate([[0.0], hit[order].cumsum()])
        models = equal_mass(ordered, self.bin_counts(len(p), distinct=len(np.unique(p))))
        values, evidence = posterior(models, ordered, hits)
        weights = np.exp(evidence - evidence.max())
        keep = np.flatnonzero(weights >= NEGLIGIBLE)
        return average([models[m] for m in keep], [values[m] for m in keep], weights[keep] / weights[keep].sum())

    def bin_counts(self, examples: int, *, distinct: int) -> range:
        """Numbers of bins of the models; more bins than distinct values would only repeat a smaller model."""
        root = float(np.cbrt(examples))
        most = min(math.ceil(self.range_factor * root), distinct)
        return range(min(max(1, math.floor(root / self.range_factor)), most), most + 1)


def posterior(models: Sequence[Array], ordered: Array, hits: Array) -> tuple[list[Array], Array]:
    """Posterior means of the bins and log evidence of M models, from sorted values (N,) and running hits (N + 1,).

    A bin's prior is Beta(N'/B p_b, N'/B (1 - p_b)), with p_b its midpoint and B the number of bins of its
    model after merging.
    """
    sizes = np.array([len(edges) - 1 for edges in models])
    low, high = np.concatenate([m[:-1] for m in models]), np.concatenate([m[1:] for m in models])
    firsts = np.concatenate([[0], sizes.cumsum()[:-1]])
    before, upto = np.searchsorted(ordered, low, side="right"), np.searchsorted(ordered, high, side="right")
    before[firsts] = 0
    count, m = (upto - before).astype(np.float64), hits[upto] - hits[before]
    middle = ((low + high) / 2).clip(CERTAIN, 1 - CERTAIN)
    strength = SAMPLE_SIZE / np.repeat(sizes, sizes)
    alpha, beta = strength * middle, strength * (1 - middle)
    evidence = np.add.reduceat(betaln(m + alpha, count - m + beta) - betaln(alpha, beta), firsts)
    return np.split((m + alpha) / (count + strength), firsts[1:]), evidence


def average(models: Sequence[Array], values: Sequence[Array], weights: Array) -> tuple[Array, Array]:
    """Weighted mean of step functions, which is a step function over the edges of all of them."""
    edges = np.unique(np.concatenate(models))
    mean = np.zeros(len(edges) - 1)
    for model, value, weight in zip(models, values, weights, strict=True):
        mean += weight * value[bins_of(edges[1:], model)]
    firsts = np.append(0, np.flatnonzero(np.diff(np.floor(mean / NEGLIGIBLE))) + 1)
    fused = np.add.reduceat(mean, firsts) / np.diff(firsts, append=len(mean))
    return np.append(edges[firsts], 1.0), fused
