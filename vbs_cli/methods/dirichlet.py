"""Dirichlet calibration: an affine map of the log-probabilities, fitted on validation NLL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, Method, need_classes, need_fitted, need_labels
from vbs_cli.methods.convex import affine_scores, fit_affine

HELD_OUT = "held-out"
GRID = (1e-2, 1.0, 1e2, 1e4, 1e6)
SEARCH_STEPS = 100  # enough to choose among the weights of GRID


@METHODS.register("dirichlet")
@dataclass(frozen=True)
class DirichletCalibration(Method):
    """Dirichlet calibration softmax(W log p + b), p = softmax(l), with ODIR regularisation: Kull et al. 2019.

    It minimises NLL + odir * mean of w_ij^2 over i != j + mu * mean of b^2; if `mu` is None it is `odir`. W has K^2
    numbers to fit, so many classes with few examples each need a far larger `odir` than few classes: "held-out" takes
    the one of GRID that does best on a fifth of the validation examples after a fit on the others.
    """

    odir: float | str = HELD_OUT
    mu: float | None = None
    matrix: Sequence[Sequence[float]] | None = None  # (K, K), a row for each class
    biases: Sequence[float] | None = None  # (K,), of mean zero
    converged: bool | None = None

    def __post_init__(self) -> None:
        for name, value in (("odir", self.odir), ("mu", self.mu)):
            if isinstance(value, str):
                if (name, value) != ("odir", HELD_OUT):
                    raise InvalidInput(f"{name} is {value!r}", hint=f"give odir {HELD_OUT!r} or a number")
            elif value is not None and not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"{name} is {value}", hint="a weight of a penalty is zero or positive")

    def fit(self, val: Logits) -> Self:
        x, labels = log_probabilities(val), need_labels(val)
        odir = best_odir(x, labels, self.mu) if isinstance(self.odir, str) else self.odir
        found = fit_affine(x, labels, full=True, odir=odir, mu=odir if self.mu is None else self.mu)
        matrix, biases = tuple(tuple(row) for row in found.weights.tolist()), tuple(found.biases.tolist())
        return replace(self, odir=odir, matrix=matrix, biases=biases, converged=found.converged)

    def predict_proba(self, record: Logits) -> Tensor:
        matrix = torch.tensor(need_fitted(self.matrix, "Dirichlet calibration"), dtype=torch.float64)
        biases = torch.tensor(need_fitted(self.biases, "Dirichlet calibration"), dtype=torch.float64)
        need_classes(record, len(matrix), "Dirichlet calibration")
        return affine_scores(log_probabilities(record), matrix, biases).softmax(1)


def best_odir(x: Tensor, labels: Tensor, mu: float | None) -> float:
    """Weight of GRID with the least NLL on every fifth example, fitted on the rest; the largest if there are none."""
    held = torch.arange(len(labels)) % 5 == 4
    if not held.any():
        return GRID[-1]

    def nll(odir: float) -> float:
        fitted = fit_affine(
            x[~held], labels[~held], full=True, odir=odir, mu=odir if mu is None else mu, steps=SEARCH_STEPS
        )
        return float(F.cross_entropy(affine_scores(x[held], fitted.weights, fitted.biases), labels[held]))

    return min(GRID, key=nll)


def log_probabilities(record: Logits) -> Tensor:
    """Log-probabilities log p of a record: (N, K) in float64."""
    return record.logits.double().log_softmax(1)
