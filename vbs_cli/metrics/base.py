"""One pass over the probabilities leaves a few numbers per example; a metric is a function of those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput, NotFinite
from vbs_cli.logits import as_labels, check_labels
from vbs_cli.registry import Registry


@dataclass(frozen=True, eq=False)
class Scored:
    """What the metrics need of N predictions over `classes` classes, (N,) each, float64."""

    confidence: Tensor
    correct: Tensor
    log_likelihood: Tensor  # log probability of the label
    squared_error: Tensor  # summed over classes
    entropy: Tensor
    classes: int


Metric = Callable[[Scored], float]
METRICS: Registry[Metric] = Registry("metric")


def score(probs: Any, labels: Any) -> dict[str, float]:
    """Every registered metric of the predictions: (N, K), (N,) -> {"accuracy": ..., "nll": ..., ...}."""
    pass_over = scored(probs, labels)
    return {name: metric(pass_over) for name, metric in METRICS.items()}


def scored(probs: Any, labels: Any) -> Scored:
    """The pass: (N, K), (N,) -> Scored."""
    p = check_probs(torch.as_tensor(probs).detach().double())
    y = as_labels(labels)
    if y is None:
        raise InvalidInput("scoring needs labels")
    check_labels(y, examples=p.shape[0], classes=p.shape[1])
    likely = p.max(1)
    of_label = p.gather(1, y[:, None]).squeeze(1)
    # Where a probability has underflowed to zero its logarithm stops at that of the smallest number, about -708.
    floor = torch.finfo(torch.float64).tiny
    return Scored(
        confidence=likely.values,
        correct=(likely.indices == y).double(),
        log_likelihood=of_label.clamp(min=floor).log(),
        squared_error=p.square().sum(1) - 2 * of_label + 1,
        entropy=torch.special.entr(p).sum(1),
        classes=p.shape[1],
    )


def check_probs(p: Tensor) -> Tensor:
    """Refuse what is not one distribution per row."""
    if p.ndim != 2 or p.shape[0] == 0 or p.shape[1] < 2:
        raise InvalidInput(f"probabilities have shape {tuple(p.shape)}", hint="expected (N, K), N >= 1, K >= 2")
    bad = (~torch.isfinite(p)).any(1)
    if bad.any():
        raise NotFinite(f"NaN or infinity in {int(bad.sum())} rows, the first is {int(bad.nonzero()[0])}")
    if (p < 0).any() or ((p.sum(1) - 1).abs() > 1e-3).any():
        raise InvalidInput("these rows are not probabilities", hint="apply a method's predict_proba, or a softmax")
    return p
