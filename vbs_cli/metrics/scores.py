"""The metrics of the study."""

from __future__ import annotations

import math

from vbs_cli.metrics.base import METRICS, Scored
from vbs_cli.metrics.reliability import bins_of

ECE_BINS = 15


@METRICS.register("accuracy")
def accuracy(s: Scored) -> float:
    """Share of right predictions."""
    return float(s.correct.mean())


@METRICS.register("nll")
def nll(s: Scored) -> float:
    """Mean negative log-likelihood, in nats."""
    return -float(s.log_likelihood.mean())


@METRICS.register("brier")
def brier(s: Scored) -> float:
    """Squared error summed over classes, mean over examples: 0 to 2."""
    return float(s.squared_error.mean())


@METRICS.register("ece")
def ece(s: Scored) -> float:
    """Expected calibration error over 15 equal-width bins of the whole set; an empty bin weighs nothing."""
    bins = bins_of(s.confidence, s.correct, n_bins=ECE_BINS)
    gap = (bins.accuracy - bins.confidence).abs().nan_to_num(0.0)
    return float((bins.count * gap).sum() / bins.count.sum())


@METRICS.register("entropy")
def entropy(s: Scored) -> float:
    """Mean entropy of the predictions, in nats: 0 to log K."""
    return float(s.entropy.mean())


@METRICS.register("kl_uniform")
def kl_uniform(s: Scored) -> float:
    """Mean divergence from the uniform distribution, log K - entropy."""
    return math.log(s.classes) - float(s.entropy.mean())
