"""Variance-based smoothing: a temperature of its own for each input, from the spread of its sub-predictions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, TemperatureMethod, need, need_labels

LEARNED = "nll"


@METHODS.register("vbs")
@dataclass(frozen=True)
class VarianceSmoothing(TemperatureMethod):
    """softmax(l / sigma_tilde), sigma_tilde = max(alpha * (sigma_bar + beta), 1): the paper's equations 3 and 5.

    `beta` is a number, or a rule that `fit` resolves on validation sigma_bar: "mean" is minus their mean, "mean+0.5"
    adds a half to that, "qNN" is minus their NNth percentile, and "nll" learns alpha and beta by least NLL. The paper
    prints "mean+0.5" without the minus sign, with which everything would be smoothed.
    """

    alpha: float = 1.0
    beta: float | str = "mean+0.5"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise InvalidInput(f"alpha is {self.alpha}", hint="it must be positive; the paper uses 1 to 5")
        if isinstance(self.beta, str):
            check_rule(self.beta)
        elif not math.isfinite(self.beta):
            raise InvalidInput(f"beta is {self.beta}", hint="give a finite number or a rule such as q75")

    def fit(self, val: Logits) -> Self:
        if not isinstance(self.beta, str):
            return self
        sigma = need(val.sigma, "spread").double()
        if self.beta == LEARNED:
            alpha, beta = learn(val.logits.double(), sigma, need_labels(val))
            return replace(self, alpha=alpha, beta=beta)
        return replace(self, beta=resolve_rule(self.beta, sigma))

    def temperature(self, record: Logits) -> Tensor:
        """sigma_tilde, never below one."""
        if isinstance(self.beta, str):
            raise InvalidInput(f"beta is still the rule {self.beta!r}", hint="call fit on validation logits first")
        return sigma_tilde(need(record.sigma, "spread").double(), alpha=self.alpha, beta=self.beta)


def sigma_tilde(sigma: Tensor, *, alpha: float, beta: float) -> Tensor:
    """max(alpha * (sigma_bar + beta), 1): (N,) -> (N,)."""
    return (alpha * (sigma + beta)).clamp(min=1.0)


def check_rule(rule: str) -> None:
    quantile = re.fullmatch(r"q(\d{1,3}(?:\.\d+)?)", rule)
    if rule in ("mean", "mean+0.5", LEARNED) or (quantile and float(quantile[1]) <= 100):
        return
    raise InvalidInput(f"unknown beta rule {rule!r}", hint="known: mean+0.5, mean, q0 to q100, nll, or a number")


def resolve_rule(rule: str, sigma: Tensor) -> float:
    """The number behind a rule, from validation sigma_bar (N,)."""
    if rule.startswith("q"):
        return -float(np.quantile(sigma.numpy(), float(rule[1:]) / 100))
    return -float(sigma.mean()) + (0.5 if rule == "mean+0.5" else 0.0)


def learn(logits: Tensor, sigma: Tensor, labels: Tensor) -> tuple[float, float]:
    """alpha and beta of least NLL: (N, K), (N,), (N,) -> two numbers.

    The objective has kinks where examples cross sigma_tilde = 1, and a plateau where none does, so a derivative-free
    search starts from several thresholds and the best end wins.
    """

    def nll(point: np.ndarray) -> float:
        s = sigma_tilde(sigma, alpha=math.exp(point[0]), beta=float(point[1]))
        return float(torch.nn.functional.cross_entropy(logits / s[:, None], labels))

    starts = [np.array([0.0, -float(q)]) for q in np.quantile(sigma.numpy(), [0.0, 0.5, 0.75, 0.95])]
    options = {"xatol": 1e-8, "fatol": 1e-12, "maxiter": 2000}
    found = [minimize(nll, start, method="Nelder-Mead", options=options) for start in starts]
    best = min(found, key=lambda result: float(result.fun))
    return math.exp(best.x[0]), float(best.x[1])
