"""Dirichlet calibration: an affine map of the log-probabilities, fitted on validation NLL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, Method, need_classes, need_fitted, need_labels
from vbs_cli.methods.convex import affine_scores, fit_affine


@METHODS.register("dirichlet")
@dataclass(frozen=True)
class DirichletCalibration(Method):
    """softmax(W log p + b), p = softmax(l), with ODIR regularisation: Kull et al. 2019.

    NLL + odir * mean of w_ij^2 over i != j + mu * mean of b^2; where `mu` is None it is `odir`. W has K^2 numbers to
    fit, so that many classes with few examples each want a much larger `odir` than the default.
    """

    odir: float = 1e-2
    mu: float | None = None
    matrix: Sequence[Sequence[float]] | None = None  # (K, K), a row for each class
    biases: Sequence[float] | None = None  # (K,), of mean zero
    converged: bool | None = None

    def __post_init__(self) -> None:
        for name, value in (("odir", self.odir), ("mu", self.mu)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"{name} is {value}", hint="a weight of a penalty is zero or positive")

    def fit(self, val: Logits) -> Self:
        mu = self.odir if self.mu is None else self.mu
        found = fit_affine(log_probabilities(val), need_labels(val), full=True, odir=self.odir, mu=mu)
        matrix = tuple(tuple(row) for row in found.weights.tolist())
        return replace(self, matrix=matrix, biases=tuple(found.biases.tolist()), converged=found.converged)

    def predict_proba(self, record: Logits) -> Tensor:
        matrix = torch.tensor(need_fitted(self.matrix, "Dirichlet calibration"), dtype=torch.float64)
        biases = torch.tensor(need_fitted(self.biases, "Dirichlet calibration"), dtype=torch.float64)
        need_classes(record, len(matrix), "Dirichlet calibration")
        return affine_scores(log_probabilities(record), matrix, biases).softmax(1)


def log_probabilities(record: Logits) -> Tensor:
    """log p: (N, K) in float64."""
    return record.logits.double().log_softmax(1)
