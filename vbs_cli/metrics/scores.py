"""The means over examples: (B,) each."""

from __future__ import annotations

import math

from torch import Tensor

from vbs_cli.metrics.base import METRICS, Scored


@METRICS.register("accuracy")
def accuracy(s: Scored) -> Tensor:
    """Share of right predictions."""
    return s.mean(s.correct)


@METRICS.register("nll")
def nll(s: Scored) -> Tensor:
    """Mean negative log-likelihood, in nats."""
    return -s.mean(s.log_likelihood)


@METRICS.register("brier")
def brier(s: Scored) -> Tensor:
    """Squared error summed over classes, mean over examples: 0 to 2."""
    return s.mean(s.squared_error)


@METRICS.register("entropy")
def entropy(s: Scored) -> Tensor:
    """Mean entropy of the predictions, in nats: 0 to log K."""
    return s.mean(s.entropy)


@METRICS.register("kl_uniform")
def kl_uniform(s: Scored) -> Tensor:
    """Mean divergence from the uniform distribution, log K - entropy."""
    return math.log(s.classes) - s.mean(s.entropy)


@METRICS.register("sigma_bar")
def mean_sigma_bar(s: Scored) -> Tensor:
    """Mean spread of the sub-predictions behind the predictions."""
    return s.mean(s.need("sigma"))


@METRICS.register("patch_accuracy")
def patch_accuracy(s: Scored) -> Tensor:
    """Share of single sub-predictions (patches, draws, members) that are right."""
    return s.mean(s.need("part_accuracy"))
