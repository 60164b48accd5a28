"""Calibration errors: how far confidence and accuracy lie apart, bin by bin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from vbs_cli.metrics.base import LOWER, NEITHER, Scored, metric
from vbs_cli.metrics.reliability import bin_index, equal_mass, equal_width, width_index

ECE_BINS = 15


@dataclass(frozen=True, eq=False)
class Bins:
    """Predicted probabilities and whether they came true, in bins: (N,) each, or (N, K) with bins for every class."""

    scored: Scored
    predicted: Tensor
    came_true: Tensor
    index: Tensor
    n_bins: int

    @cached_property
    def count(self) -> Tensor:
        """Weight of each bin, (B, n_bins)."""
        return self.sums(torch.ones_like(self.predicted))

    @cached_property
    def true(self) -> Tensor:
        """Weight of the predictions that came true in each bin, (B, n_bins)."""
        return self.sums(self.came_true.double())

    @cached_property
    def gaps(self) -> Tensor:
        """|accuracy - confidence| of each bin times its weight, (B, n_bins); zero where it is empty."""
        return self.sums(self.came_true.double() - self.predicted).abs()

    @property
    def chance(self) -> Tensor:
        """Mean gaps if every predicted probability were the true one, (B, n_bins)."""
        return mean_deviation(self.sums(self.predicted), self.sums(self.predicted.square()))

    def sums(self, values: Tensor) -> Tensor:
        """Weighted sums per bin, (B, n_bins)."""
        weights = self.scored.weights
        if weights is None:
            return torch.bincount(self.index.flatten(), weights=values.flatten(), minlength=self.n_bins)[None]
        # For many sets of weights a product with a table of one column per bin is fastest.
        table = torch.zeros(len(values), self.n_bins, dtype=weights.dtype)
        rows = len(values), -1
        return weights @ table.scatter_(1, self.index.view(rows), values.view(rows).to(weights.dtype))


def confidence_bins(s: Scored, index: Tensor) -> Bins:
    return Bins(s, s.confidence, s.correct, index, ECE_BINS)


def width_bins(s: Scored) -> Bins:
    index = s.column("width index", lambda: width_index(s.confidence, ECE_BINS))
    return s.once("width bins", lambda: confidence_bins(s, index))


def mass_bins(s: Scored) -> Bins:
    index = s.column("mass index", lambda: bin_index(s.confidence, equal_mass(s.confidence, ECE_BINS)))
    return s.once("mass bins", lambda: confidence_bins(s, index))


def class_bins(s: Scored) -> Bins:
    """Bins of every class's probabilities, 15 for each class, so that not the largest probability alone counts."""
    first = ECE_BINS * torch.arange(s.classes)
    index = s.column("class index", lambda: first + bin_index(s.probs, equal_width(ECE_BINS)))
    came_true = s.column("one hot", lambda: s.labels[:, None] == torch.arange(s.classes))
    return s.once("class bins", lambda: Bins(s, s.probs, came_true, index, ECE_BINS * s.classes))


@metric("ece", better=LOWER)
def ece(s: Scored) -> Tensor:
    """Expected calibration error over 15 equal-width bins of the whole set; an empty bin weighs nothing."""
    return width_bins(s).gaps.sum(1) / s.total


@metric("ece_chance", better=NEITHER, yardstick=True)
def ece_chance(s: Scored) -> Tensor:
    """The ECE that a perfectly calibrated predictor with the same confidences scores on average."""
    return width_bins(s).chance.sum(1) / s.total


@metric("ece_debiased", better=LOWER)
def ece_debiased(s: Scored) -> Tensor:
    """Root of the squared calibration error, less what chance adds to it (Kumar et al. 2019).

    Each bin's squared gap less the variance of its accuracy; 15 equal-width bins, bins of one example left out.
    """
    bins = width_bins(s)
    several = bins.count > 1
    count = torch.where(several, bins.count, 2.0)
    accuracy = bins.true / count
    squared = (bins.gaps / count).square() - accuracy * (1 - accuracy) / (count - 1)
    return (torch.where(several, bins.count * squared, 0.0).sum(1) / s.total).clamp(min=0).sqrt()


@metric("mce", better=LOWER)
def mce(s: Scored) -> Tensor:
    """Maximum calibration error: the largest gap among 15 equal-width bins."""
    bins = width_bins(s)
    return (bins.gaps / bins.count).nan_to_num(0.0).amax(1)


@metric("ece_mass", better=LOWER)
def ece_mass(s: Scored) -> Tensor:
    """Expected calibration error over 15 bins of equally many examples."""
    return mass_bins(s).gaps.sum(1) / s.total


@metric("ece_mass_chance", better=NEITHER, yardstick=True)
def ece_mass_chance(s: Scored) -> Tensor:
    """Mean `ece_mass` of a perfectly calibrated predictor with the same confidences."""
    return mass_bins(s).chance.sum(1) / s.total


@metric("ece_class", better=LOWER)
def ece_class(s: Scored) -> Tensor:
    """Classwise ECE: that of each class's own probability over 15 equal-width bins, mean over classes."""
    return class_bins(s).gaps.sum(1) / s.total / s.classes


@metric("ece_class_chance", better=NEITHER, yardstick=True)
def ece_class_chance(s: Scored) -> Tensor:
    """Mean `ece_class` of a perfectly calibrated predictor with the same probabilities."""
    return class_bins(s).chance.sum(1) / s.total / s.classes


def mean_deviation(mean: Tensor, squares: Tensor) -> Tensor:
    """Mean deviation E|X - E X| of a sum X of coin flips, from the sums of their probabilities and of the squares.

    De Moivre's formula for the binomial that has the same mean and variance, which is exact if the coins of a bin are
    alike; in bins as narrow as ours they nearly are.
    """
    mean, squares = mean.double(), squares.double()
    p = (squares / mean).nan_to_num(0.0).clamp(1e-12, 1 - 1e-12)
    n = mean / p
    # 2 v C(n, v) p^v (1 - p)^(n - v + 1), v = floor(n p) + 1, with gamma functions for an n between two integers
    v = mean.floor() + 1
    rest = (n - v + 1).clamp(min=1e-12)
    log_choose = torch.lgamma(n + 1) - torch.lgamma(v + 1) - torch.lgamma(rest)
    return 2 * v * (log_choose + v * p.log() + rest * torch.log1p(-p)).exp()
