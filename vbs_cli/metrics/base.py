"""Metrics as functions of a few numbers per example, which one pass over the probabilities leaves.

Every example has a weight, which is one in the sample itself. A bootstrap replicate is the same sample with other
weights, so a metric that respects the weights needs no further code for its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput, NotFinite
from vbs_cli.logits import as_labels, check_labels
from vbs_cli.registry import Registry

T = TypeVar("T")
BLOCK = 2**17  # probabilities processed at a time
# The logarithm of a probability that has underflowed to zero is that of the smallest number, about -708.
SMALLEST = torch.finfo(torch.float64).tiny


@dataclass(frozen=True, eq=False)
class Scored:
    """N predictions over K classes under B sets of weights, and what the metrics need of them: float64, (N,) each.

    A column is computed when a metric first needs it.
    """

    probs: Tensor  # (N, K)
    labels: Tensor  # (N,)
    weights: Tensor | None = None  # (B, N); without them each example counts once
    sigma: Tensor | None = None  # sigma_bar, if the predictions have one
    part_accuracy: Tensor | None = None  # share of right sub-predictions, if they have some
    partial: bool = False  # metrics that need a missing column are NaN, not an error
    columns: dict[str, Any] = field(default_factory=dict, repr=False)  # cached values that do not depend on the weights
    sums: dict[str, Any] = field(default_factory=dict, repr=False, init=False)  # cached values under these weights

    def column(self, name: str, make: Callable[[], T]) -> T:
        """Cached value that depends on the predictions alone, made once for all weights."""
        return made(self.columns, name, make)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Cached value under these weights, made by the first metric that needs it."""
        return made(self.sums, name, make)

    @property
    def classes(self) -> int:
        return self.probs.shape[1]

    @property
    def confidence(self) -> Tensor:
        """Largest probability of each prediction."""
        return self.column("likely", lambda: self.probs.max(1)).values

    @property
    def correct(self) -> Tensor:
        """Correctness, 1 where the label is the predicted class, which among equals is the first, else 0."""
        predicted = self.column("likely", lambda: self.probs.max(1)).indices
        return self.column("correct", lambda: (predicted == self.labels).double())

    @property
    def of_label(self) -> Tensor:
        """Probability of the label."""
        return self.column("of_label", lambda: self.probs.gather(1, self.labels[:, None]).squeeze(1))

    @property
    def log_likelihood(self) -> Tensor:
        """Log probability of the label."""
        return self.column("log_likelihood", lambda: self.of_label.clamp(min=SMALLEST).log_())

    @property
    def squared_error(self) -> Tensor:
        """Squared error summed over classes."""
        squares, _ = self.column("moments", lambda: moments(self.probs))
        return self.column("squared_error", lambda: squares.sub(self.of_label, alpha=2).add_(1).clamp_(min=0))

    @property
    def entropy(self) -> Tensor:
        """Entropy - sum p log p, in nats."""
        return self.column("moments", lambda: moments(self.probs))[1]

    @property
    def total(self) -> Tensor:
        """Sum of the weights, (B,)."""
        weights = self.weights
        if weights is None:
            return torch.tensor([len(self.labels)], dtype=torch.float64)
        return self.once("total", lambda: weights.sum(1))

    def mean(self, values: Tensor) -> Tensor:
        """Weighted mean: (N,) -> (B,)."""
        if self.weights is None:
            return values.mean(0, keepdim=True)
        return self.weights @ values.to(self.weights.dtype) / self.total

    def need(self, name: str) -> Tensor:
        """Column that not all predictions have, refused if it is missing: (N,)."""
        column: Tensor | None = getattr(self, name)
        if column is None:
            raise Lacking(f"these predictions have no {name}", hint=f"pass {name}= to score or scored")
        return column


class Lacking(InvalidInput):
    """Error for a metric that needs a column which its predictions lack."""


def made(kept: dict[str, Any], name: str, make: Callable[[], T]) -> T:
    if name not in kept:
        kept[name] = make()
    value: T = kept[name]
    return value


def row_sums(values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums over classes, as a product, which is twice as fast as torch's sum if they are few: (N, K) -> (N,)."""
    return torch.mv(values, torch.ones(values.shape[1], dtype=values.dtype), out=out)


def moments(probs: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of squares and entropies, block by block in the same memory: (N, K) -> (N,), (N,)."""
    rows = max(1, BLOCK // probs.shape[1])
    squares, entropy = torch.empty(2, len(probs), dtype=probs.dtype)
    work = torch.empty(min(rows, len(probs)), probs.shape[1], dtype=probs.dtype)
    for p, square, negative in zip(*(torch.split(each, rows) for each in (probs, squares, entropy)), strict=True):
        row_sums(torch.square(p, out=work[: len(p)]), out=square)
        row_sums(torch.log(p, out=work[: len(p)]).mul_(p), out=negative)
    if math.isfinite(entropy.sum()):
        return squares, entropy.neg_().clamp_(min=0)
    # Somewhere a probability is zero, and its logarithm infinite.
    every: Tensor = torch.special.entr(probs)
    return squares, every.sum(1)


Measure = Callable[[Scored], Tensor]
HIGHER, LOWER, NEITHER = 1, -1, 0  # which way a metric is better


@dataclass(frozen=True)
class Metric:
    """Function from predictions to values, (B,) under B sets of weights, and which way it is better."""

    measure: Measure
    better: int  # HIGHER, LOWER or NEITHER
    yardstick: bool = False  # what chance alone would give: shown next to a score, without an interval of its own

    def __call__(self, predictions: Scored) -> Tensor:
        return self.measure(predictions)


METRICS: Registry[Metric] = Registry("metric")


def metric(name: str, *, better: int, yardstick: bool = False, revision: int = 1) -> Callable[[Measure], Measure]:
    """Decorator: enter a function of predictions as the metric `name`; raise `revision` when its results change."""

    def enter(measure: Measure) -> Measure:
        METRICS.register(name, revision=revision)(Metric(measure, better, yardstick))
        return measure

    return enter


SCORES = ("accuracy", "nll", "brier", "ece", "entropy", "kl_uniform")


def score(
    probs: Any, labels: Any, *, metrics: Sequence[str] = SCORES, sigma: Any = None, part_accuracy: Any = None
) -> dict[str, float]:
    """Metrics of the predictions, by name: (N, K), (N,) -> {"accuracy": ..., "nll": ..., ...}.

    Any of METRICS may be asked for; those on sub-predictions need the `sigma` and `part_accuracy` of the record.
    """
    return values_of(scored(probs, labels, sigma=sigma, part_accuracy=part_accuracy), metrics)


def values_of(predictions: Scored, metrics: Sequence[str]) -> dict[str, float]:
    """Values of metrics by name, under one set of weights; the columns made for them are not kept."""
    passing = replace(predictions, columns={})
    return {name: float(measured(name, passing)) for name in metrics}


def measured(name: str, predictions: Scored) -> Tensor:
    """Value of a metric under each set of weights, (B,); NaN if partial predictions lack a column."""
    try:
        return METRICS[name](predictions)
    except Lacking:
        if not predictions.partial:
            raise
    return torch.full_like(predictions.total, torch.nan)


def scored(probs: Any, labels: Any, *, sigma: Any = None, part_accuracy: Any = None) -> Scored:
    """Check probabilities and labels, and make predictions of them for metrics: (N, K), (N,) -> Scored."""
    p = check_probs(torch.as_tensor(probs).detach().double())
    y = as_labels(labels)
    if y is None:
        raise InvalidInput("scoring needs labels")
    check_labels(y, examples=p.shape[0], classes=p.shape[1])
    return Scored(
        probs=p,
        labels=y,
        sigma=per_example(sigma, len(y), "sigma"),
        part_accuracy=per_example(part_accuracy, len(y), "part_accuracy"),
    )


def per_example(values: Any, examples: int, name: str) -> Tensor | None:
    """Column of one finite number per example, or None."""
    if values is None:
        return None
    column = torch.as_tensor(values).detach().double()
    if column.shape != (examples,):
        raise InvalidInput(f"{name} has shape {tuple(column.shape)}", hint=f"expected ({examples},)")
    if not torch.isfinite(column).all():
        raise NotFinite(f"NaN or infinity in {name}")
    return column


def check_probs(p: Tensor) -> Tensor:
    """Refuse probabilities that are not one distribution per row."""
    if p.ndim != 2 or p.shape[0] == 0 or p.shape[1] < 2:
        raise InvalidInput(f"probabilities have shape {tuple(p.shape)}", hint="expected (N, K), N >= 1, K >= 2")
    # NaN and infinity make the sum of their row one of them, which is not near one either.
    least, most = row_sums(p).aminmax()
    if least >= 1 - 1e-3 and most <= 1 + 1e-3 and p.min() >= 0:
        return p
    bad = (~torch.isfinite(p)).any(1)
    if bad.any():
        raise NotFinite(f"NaN or infinity in {int(bad.sum())} rows, the first is {int(bad.nonzero()[0])}")
    raise InvalidInput("these rows are not probabilities", hint="apply a method's predict_proba, or a softmax")
