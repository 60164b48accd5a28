"""Metrics that are means over examples: (B,) each."""

from __future__ import annotations

import math

from torch import Tensor

from vbs_cli.metrics.base import HIGHER, LOWER, NEITHER, Scored, metric


@metric("accuracy", better=HIGHER)
def accuracy(s: Scored) -> Tensor:
    """Share of right predictions."""
    return s.mean(s.correct)


@metric("nll", better=LOWER)
def nll(s: Scored) -> Tensor:
    """Mean negative log-likelihood, in nats."""
    return -s.mean(s.log_likelihood)


@metric("brier", better=LOWER)
def brier(s: Scored) -> Tensor:
    """Squared error summed over classes, mean over examples: 0 to 2."""
    return s.mean(s.squared_error)


@metric("entropy", better=NEITHER)
def entropy(s: Scored) -> Tensor:
    """Mean entropy of the predictions, in nats: 0 to log K."""
    return s.mean(s.entropy)


@metric("kl_uniform", better=NEITHER)
def kl_uniform(s: Scored) -> Tensor:
    """Mean divergence from the uniform distribution, log K - entropy."""
    return math.log(s.classes) - s.mean(s.entropy)


@metric("sigma_bar", better=NEITHER)
def mean_sigma_bar(s: Scored) -> Tensor:
    """Mean spread of the sub-predictions behind the predictions."""
    return s.mean(s.need("sigma"))


@metric("patch_accuracy", better=HIGHER)
def patch_accuracy(s: Scored) -> Tensor:
    """Share of single sub-predictions (patches, draws, members) that are right."""
    return s.mean(s.need("part_accuracy"))
