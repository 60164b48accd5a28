"""One-vs-rest calibration: a map per class from its softmax probability to a score, then scores normalised to sum 1."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.methods.base import Method, need_classes, need_fitted, need_labels

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Rows: TypeAlias = Sequence[Sequence[float]]


@dataclass(frozen=True)
class OneVsRest(Method):
    """Fits and applies the maps of K classes, each a table of knots and values, to p_k = softmax(l)_k."""

    name: ClassVar[str]

    knots: Rows | None = field(default=None, kw_only=True)
    values: Rows | None = field(default=None, kw_only=True)

    @abstractmethod
    def fit_class(self, p: Array, hit: Array) -> tuple[Array, Array]:
        """Knots and values from a class's probabilities and ones where it is the label, zeros elsewhere: (N,), (N,)."""

    @abstractmethod
    def score(self, p: Array, knots: Array, values: Array) -> Array:
        """Scores of one class from its probabilities by its table: (N,) -> (N,)."""

    def fit(self, val: Logits) -> Self:
        labels, p = need_labels(val).numpy(), probabilities(val)
        tables = [self.fit_class(p[:, k], (labels == k).astype(np.float64)) for k in range(val.classes)]
        knots = tuple(tuple(knots.tolist()) for knots, _ in tables)
        return replace(self, knots=knots, values=tuple(tuple(values.tolist()) for _, values in tables))

    def predict_proba(self, record: Logits) -> Tensor:
        knots, values = need_fitted(self.knots, self.name), need_fitted(self.values, self.name)
        need_classes(record, len(knots), self.name)
        columns = zip(probabilities(record).T, knots, values, strict=True)
        scores = [
            self.score(p, np.array(at, dtype=np.float64), np.array(to, dtype=np.float64)) for p, at, to in columns
        ]
        return share_out(torch.from_numpy(np.stack(scores, axis=1)))


@dataclass(frozen=True)
class Steps(OneVsRest):
    """One-vs-rest maps that are constant on bins: knots are the edges, one more than there are values.

    Bins are closed on the right, the first on both sides.
    """

    def score(self, p: Array, knots: Array, values: Array) -> Array:
        scores: Array = values[bins_of(p, knots)]
        return scores


def probabilities(record: Logits) -> Array:
    """Probabilities softmax(l) of a record: (N, K)."""
    p: Array = record.logits.double().softmax(1).numpy()
    return p


def share_out(scores: Tensor) -> Tensor:
    """Divide rows by their sums; a row of zeros becomes uniform: (N, K) -> (N, K)."""
    total = scores.sum(1, keepdim=True)
    uniform = torch.full_like(scores, 1 / scores.shape[1])
    return torch.where(total > 0, scores / total, uniform)


def bins_of(p: Array, edges: Array) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Index i of each value's bin, (edges[i], edges[i + 1]]: (N,), (B + 1,) -> (N,)."""
    return np.searchsorted(edges[1:-1], p, side="left")


def equal_mass(ordered: Array, bins: Iterable[int]) -> list[Array]:
    """Edges from 0 to 1 of bins with equally many of the sorted values, for each number of bins: (N,), (M,) -> M edges.

    An edge lies halfway between neighbouring values. Equal values stay together, which may merge bins, so that none is
    empty.
    """
    last = np.append(ordered[1:] > ordered[:-1], True).nonzero()[0]  # index of the last of each run of equal values
    low = ordered[last]
    high = np.append(low[1:], 1.0)
    middle = low + (high - low) / 2
    cuts = np.where(middle < high, middle, low)  # there is nothing between neighbouring floats
    edges = []
    for count in bins:
        upto = np.arange(1, count) * len(ordered) // count
        inner = cuts[np.searchsorted(last, upto - 1)]
        edges.append(np.unique(np.concatenate([[0.0], inner[inner < ordered[-1]], [1.0]])))
    return edges
