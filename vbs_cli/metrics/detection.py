"""Error detection: how well a doubt, a score per example, separates wrong predictions from right ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.metrics.base import HIGHER, LOWER, Scored, metric, per_example

RECALL = 0.95


@dataclass(frozen=True, eq=False)
class Ranked:
    """Weights at, below and level with each of the E errors, in the order of growing doubt: (B, E); total: (B, 1)."""

    errors: Tensor  # weight of the error itself
    errors_below: Tensor  # weight of the errors of less doubt
    below: Tensor  # weight of all examples of less doubt
    level: Tensor  # weight of all examples of the same doubt
    errors_level: Tensor  # weight of the errors of the same doubt
    total: Tensor

    @property
    def all_errors(self) -> Tensor:
        return self.errors.sum(1, keepdim=True)

    @property
    def all_right(self) -> Tensor:
        return self.total - self.all_errors

    @property
    def right_below(self) -> Tensor:
        return self.below - self.errors_below


@dataclass(frozen=True, eq=False)
class Places:
    """Positions of the E errors among the N examples in the order of growing doubt, and among the errors."""

    order: Tensor  # (N,), indices of all examples, in order
    errors: Tensor  # (E,), indices of the errors, in order
    before: Tensor  # (E,), how many examples have less doubt
    up_to: Tensor  # (E,), how many have the same doubt or less
    errors_before: Tensor
    errors_up_to: Tensor

    @classmethod
    def of(cls, doubt: Tensor, wrong: Tensor) -> Self:
        order = doubt.argsort()
        errors = order[wrong[order]]
        among = [doubt[order], doubt[errors]]
        before = [torch.searchsorted(values, doubt[errors]) for values in among]
        up_to = [torch.searchsorted(values, doubt[errors], right=True) for values in among]
        return cls(order, errors, before[0], up_to[0], before[1], up_to[1])


def weighed(places: Places, weights: Tensor | None = None) -> Ranked:
    """Weights summed up to each error's place: (B, N) -> Ranked."""
    if weights is None:
        weights = torch.ones(1, len(places.order), dtype=torch.float64)
    own = weights.index_select(1, places.errors)
    sums = F.pad(weights.index_select(1, places.order).cumsum(1), (1, 0))
    error_sums = F.pad(own.cumsum(1), (1, 0))
    below = sums.index_select(1, places.before)
    errors_below = error_sums.index_select(1, places.errors_before)
    return Ranked(
        errors=own,
        errors_below=errors_below,
        below=below,
        level=sums.index_select(1, places.up_to) - below,
        errors_level=error_sums.index_select(1, places.errors_up_to) - errors_below,
        total=sums[:, -1:],
    )


def area_under_roc(r: Ranked) -> Tensor:
    """Probability that an error has more doubt than a right prediction, ties by half: (B,), NaN without either."""
    beaten = r.right_below + (r.level - r.errors_level) / 2
    return (r.errors * beaten).sum(1) / (r.all_errors * r.all_right).squeeze(1)


def false_alarms(r: Ranked, recall: float = RECALL) -> Tensor:
    """Share of right predictions at or above the highest threshold that finds `recall` of the errors: (B,)."""
    if r.errors.shape[1] == 0:
        return torch.full((len(r.errors),), torch.nan)
    # The threshold is the doubt of the last error that leaves at most a share 1 - recall of the errors below it.
    spared = r.errors_below <= (1 - recall) * r.all_errors * (1 + 1e-6)
    last = spared.sum(1, keepdim=True) - 1
    share = (r.all_right - r.right_below.gather(1, last)) / r.all_right
    return torch.where(r.all_errors > 0, share, torch.nan).squeeze(1)


def area_under_risk(r: Ranked) -> Tensor:
    """Mean over all coverages of the error rate among the examples of least doubt: (B,).

    Coverage k of n has the rate (errors among the first k) / k, so an error in place k adds 1/k + ... + 1/n to the sum
    over coverages. Among examples of equal doubt it adds the mean of that over their places, as in random order. With
    H the harmonic numbers the mean over places b + 1 to b + m is H_n - (S(b + m) - S(b)) / m, S(x) = x (H_x - 1).
    """
    size = int(r.total.max()) + 1
    harmonic = torch.zeros(size, dtype=torch.float64)
    harmonic[1:] = (1 / torch.arange(1, size, dtype=torch.float64)).cumsum(0)
    sums = torch.arange(size) * (harmonic - 1)
    below, up_to = r.below.long(), (r.below + r.level).long()  # weights are whole numbers
    # An error of weight zero may stand alone at its level; what it would add counts nothing.
    added = harmonic[r.total.long()] - (sums.take(up_to) - sums.take(below)) / r.level.clamp(min=1)
    return (r.errors * added).sum(1) / r.total.squeeze(1)


def by(s: Scored, name: str) -> Ranked:
    """Predictions ranked by a doubt: low "confidence", high "entropy" or high "sigma"."""
    doubt = -s.confidence if name == "confidence" else s.need(name)
    places = s.column(f"places by {name}", lambda: Places.of(doubt, s.correct == 0))
    return s.once(f"by {name}", lambda: weighed(places, s.weights))


@metric("aurc", better=LOWER)
def aurc(s: Scored) -> Tensor:
    """Area under the risk-coverage curve when the least confident predictions are left out first."""
    return area_under_risk(by(s, "confidence"))


def risk_coverage(s: Scored, points: int = 50) -> tuple[Tensor, Tensor]:
    """Error rates among the most confident shares 1/points, 2/points, ... of the sample: (points,), (points,).

    A share c of N examples is the first ceil(c N). Among examples of equal confidence each counts as their mean error,
    as in random order, so with a point per example the mean of the rates is `aurc`.
    """
    examples = len(s.labels)
    _, place, sizes = torch.unique(-s.confidence, return_inverse=True, return_counts=True)
    errors = torch.bincount(place, weights=1 - s.correct, minlength=len(sizes))
    expected = (errors / sizes).repeat_interleave(sizes).cumsum(0)
    steps = torch.arange(1, points + 1)
    kept = -(-steps * examples // points)  # whole numbers: a rounding error never makes a share one example larger
    return steps.double() / points, expected[kept - 1] / kept


@metric("auroc_confidence", better=HIGHER)
def auroc_confidence(s: Scored) -> Tensor:
    """AUROC of low confidence for errors."""
    return area_under_roc(by(s, "confidence"))


@metric("auroc_entropy", better=HIGHER)
def auroc_entropy(s: Scored) -> Tensor:
    """AUROC of high entropy for errors."""
    return area_under_roc(by(s, "entropy"))


@metric("auroc_sigma", better=HIGHER)
def auroc_sigma(s: Scored) -> Tensor:
    """AUROC of high sigma_bar for errors; below 0.5 the spread misleads."""
    return area_under_roc(by(s, "sigma"))


@metric("fpr95_confidence", better=LOWER)
def fpr95_confidence(s: Scored) -> Tensor:
    """Share of right predictions that a threshold on confidence rejects when it rejects 95 % of the errors."""
    return false_alarms(by(s, "confidence"))


@metric("fpr95_entropy", better=LOWER)
def fpr95_entropy(s: Scored) -> Tensor:
    """Share of right predictions that a threshold on entropy rejects when it rejects 95 % of the errors."""
    return false_alarms(by(s, "entropy"))


@metric("fpr95_sigma", better=LOWER)
def fpr95_sigma(s: Scored) -> Tensor:
    """Share of right predictions that a threshold on sigma_bar rejects when it rejects 95 % of the errors."""
    return false_alarms(by(s, "sigma"))


def error_detection(doubt: Any, errors: Any) -> dict[str, float]:
    """Measure how well any score finds errors: doubt (N,), errors (N,) of 0 and 1 -> {"auroc", "fpr95", "aurc"}."""
    wrong = torch.as_tensor(errors).double()
    if wrong.ndim != 1 or len(wrong) == 0 or not ((wrong == 0) | (wrong == 1)).all():
        raise InvalidInput("errors are not 0 and 1", hint="give one per example: 1 where the prediction was wrong")
    column = per_example(doubt, len(wrong), "doubt")
    if column is None:
        raise InvalidInput("there is no doubt to rank by", hint="give one number per example")
    r = weighed(Places.of(column, wrong == 1))
    return {"auroc": float(area_under_roc(r)), "fpr95": float(false_alarms(r)), "aurc": float(area_under_risk(r))}
