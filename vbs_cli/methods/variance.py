"""Variance-based smoothing: a temperature of its own for each input, from the spread of its sub-predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import SPREADS, Logits, spread_name
from vbs_cli.methods.base import METHODS, TemperatureMethod, need_labels
from vbs_cli.registry import unknown

LEARNED = "nll"
# Divided by more, logits would differ by less than double precision resolves, and the predicted class would be lost.
HOTTEST = 1e12


def affine(sigma: Tensor, *, alpha: Tensor, beta: Tensor) -> Tensor:
    """Affine map alpha * (sigma_bar + beta): the paper's equation 5."""
    return alpha * (sigma + beta)


def exponential(sigma: Tensor, *, alpha: Tensor, beta: Tensor) -> Tensor:
    """Exponential map (1 + alpha)^(sigma_bar - 1) + beta."""
    return (1 + alpha) ** (sigma - 1) + beta


Map = Callable[..., Tensor]
MAPS: dict[str, Map] = {"affine": affine, "exponential": exponential}


@METHODS.register("vbs")
@dataclass(frozen=True)
class VarianceSmoothing(TemperatureMethod):
    """Variance-based smoothing, softmax(l / sigma_tilde), sigma_tilde = max(alpha * (sigma_bar + beta), 1).

    These are the paper's equations 3 and 5. The spread is that of a record's parts: on patches of one network it is
    the paper's method, on members of an ensemble (or on dropout draws) the paper's extension, whose mean logits it
    smooths.

    `beta` is a number, or a rule that `fit` resolves on validation sigma_bar: "mean" is minus their mean, "mean+0.5"
    adds a half to that, "qNN" is minus their NNth percentile, and "nll" learns alpha and beta by least NLL. The paper
    prints "mean+0.5" without the minus sign, which would smooth every example.

    `spread` names what sigma_bar is computed from: "logits", or their "softmax", "relu", "softplus" or "exp". `map` is
    "affine" or "exponential": (1 + alpha)^(sigma_bar - 1) + beta in place of alpha * (sigma_bar + beta).
    """

    alpha: float = 1.0
    beta: float | str = "mean+0.5"
    spread: str = "logits"
    map: str = "affine"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise InvalidInput(f"alpha is {self.alpha}", hint="it must be positive; the paper uses 1 to 5")
        if isinstance(self.beta, str):
            check_rule(self.beta)
        elif not math.isfinite(self.beta):
            raise InvalidInput(f"beta is {self.beta}", hint="give a finite number or a rule such as q75")
        if self.spread not in SPREADS:
            raise unknown("spread", self.spread, SPREADS)
        if self.map not in MAPS:
            raise unknown("map", self.map, MAPS)

    @property
    def reads(self) -> tuple[str, ...]:
        return (spread_name(self.spread),)

    def fit(self, val: Logits) -> Self:
        if not isinstance(self.beta, str):
            return self
        sigma = val.sigma_of(self.spread).double()
        if self.beta == LEARNED:
            alpha, beta = learn(self.scores(val), sigma, need_labels(val), MAPS[self.map])
            return replace(self, alpha=alpha, beta=beta)
        return replace(self, beta=resolve_rule(self.beta, sigma))

    def temperature(self, record: Logits) -> Tensor:
        """Temperature sigma_tilde of each example, never below one: (N,) in float64."""
        alpha, beta = torch.tensor(self.numbers(), dtype=torch.float64)
        return sigma_tilde(MAPS[self.map], record.sigma_of(self.spread).double(), alpha, beta)

    def numbers(self) -> tuple[float, float]:
        """Values of alpha and beta, or an error while beta is a rule."""
        if isinstance(self.beta, str):
            raise InvalidInput(f"beta is still the rule {self.beta!r}", hint="call fit on validation logits first")
        return self.alpha, self.beta


def sigma_tilde(curve: Map, sigma: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Temperature from sigma_bar by a map, at least one: (N,) -> (N,)."""
    return curve(sigma, alpha=alpha, beta=beta).clamp(1.0, HOTTEST)


def check_rule(rule: str) -> None:
    quantile = re.fullmatch(r"q(\d{1,3}(?:\.\d+)?)", rule)
    if rule in ("mean", "mean+0.5", LEARNED) or (quantile and float(quantile[1]) <= 100):
        return
    raise InvalidInput(f"unknown beta rule {rule!r}", hint="known: mean+0.5, mean, q0 to q100, nll, or a number")


def resolve_rule(rule: str, sigma: Tensor) -> float:
    """Value of beta by a rule, from validation sigma_bar (N,)."""
    if rule.startswith("q"):
        return -float(np.quantile(sigma.numpy(), float(rule[1:]) / 100))
    return -float(sigma.mean()) + (0.5 if rule == "mean+0.5" else 0.0)


def learn(scores: Tensor, sigma: Tensor, labels: Tensor, curve: Map) -> tuple[float, float]:
    """Fit alpha and beta by least NLL: (N, K), (N,), (N,) -> two numbers.

    The objective has kinks where examples cross sigma_tilde = 1, and is flat where all are at 1. So the search by
    gradients starts from several thresholds, and a simplex, for which kinks do not matter, goes on from the best end.
    """

    with torch.inference_mode(False):
        plain = sigma.clone()  # a tensor of inference mode could not be differentiated

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        with torch.inference_mode(False), torch.enable_grad():  # even if the caller has switched gradients off
            at = torch.tensor(point, requires_grad=True)
            s = sigma_tilde(curve, plain, at[0].exp(), at[1])
            nll, slope = tempered_nll(scores, 1 / s.detach(), labels)
            s.backward(-slope / s.detach().square() / len(labels))  # type: ignore[no-untyped-call]
        assert at.grad is not None
        return nll, at.grad.numpy()

    starts = [np.array([0.0, -float(q)]) for q in np.quantile(sigma.numpy(), [0.0, 0.5, 0.75, 0.95])]
    bounds = [(math.log(1e-3), math.log(1e3)), (None, None)]
    ends = [minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts]
    best = min(ends, key=lambda end: float(end.fun))
    simplex = {"xatol": 1e-6, "fatol": 1e-12, "maxiter": 400}
    end = minimize(lambda point: objective(point)[0], best.x, method="Nelder-Mead", bounds=bounds, options=simplex)
    return math.exp(end.x[0]), float(end.x[1])


def tempered_nll(scores: Tensor, b: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """Mean NLL of softmax(b * l), and the slope of each example's NLL in its b: (N, K), (N,), (N,) -> number, (N,)."""
    scaled = b[:, None] * scores
    p = scaled.softmax(1)
    of_label = scores.gather(1, labels[:, None]).squeeze(1)
    nll = torch.nn.functional.cross_entropy(scaled, labels)
    return float(nll), (p * scores).sum(1) - of_label
