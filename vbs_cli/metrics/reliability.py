"""Reliability bins: how often predictions of a given confidence are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.metrics.base import scored


@dataclass(frozen=True, eq=False)
class ReliabilityBins:
    """Bins (edges[i], edges[i + 1]], closed on the right; a confidence of 1 falls in the last, 0 in the first."""

    edges: Tensor  # (n_bins + 1,)
    count: Tensor  # (n_bins,)
    accuracy: Tensor  # (n_bins,), NaN where the bin is empty
    confidence: Tensor  # (n_bins,), the mean confidence, NaN where the bin is empty

    def __getitem__(self, name: str) -> Tensor:
        return {"edges": self.edges, "count": self.count, "accuracy": self.accuracy, "confidence": self.confidence}[
            name
        ]


def reliability_bins(probs: Any, labels: Any, n_bins: int = 10) -> ReliabilityBins:
    """Accuracy and mean confidence per bin of equal width: (N, K), (N,) -> ReliabilityBins."""
    s = scored(probs, labels)
    return bins_of(s.confidence, s.correct, n_bins=n_bins)


def bins_of(confidence: Tensor, correct: Tensor, *, n_bins: int) -> ReliabilityBins:
    """Reliability bins from confidences and whether the predictions were right, (N,) each."""
    if n_bins < 1:
        raise InvalidInput(f"n_bins is {n_bins}", hint="it must be at least 1")
    index = width_index(confidence, n_bins)
    count = torch.bincount(index, minlength=n_bins)
    right = torch.bincount(index, weights=correct, minlength=n_bins)
    total = torch.bincount(index, weights=confidence, minlength=n_bins)
    return ReliabilityBins(edges=equal_width(n_bins), count=count, accuracy=right / count, confidence=total / count)


def equal_width(n_bins: int) -> Tensor:
    """Edges of bins of equal width from 0 to 1, (n_bins + 1,)."""
    return torch.linspace(0, 1, n_bins + 1, dtype=torch.float64)


def equal_mass(values: Tensor, n_bins: int) -> Tensor:
    """Edges between which the values (N,) are equally many, up to ties; some may coincide: (n_bins + 1,)."""
    return torch.quantile(values, torch.linspace(0, 1, n_bins + 1, dtype=torch.float64))


def bin_index(values: Tensor, edges: Tensor) -> Tensor:
    """Bin of each value; values beyond the outer edges belong to the outer bins."""
    return torch.bucketize(values, edges[1:-1])


def width_index(values: Tensor, n_bins: int) -> Tensor:
    """Bin of each value among bins of equal width, by multiplication, or by comparison where rounding could mislead."""
    scaled = values * n_bins
    above = scaled.ceil()
    index = above.sub(1).clamp_(0, n_bins - 1).long()
    unsure = (above.sub_(scaled).sub_(0.5).abs_() > 0.5 - 1e-9).nonzero(as_tuple=True)
    index[unsure] = bin_index(values[unsure], equal_width(n_bins))
    return index
