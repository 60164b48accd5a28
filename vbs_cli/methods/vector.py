"""Vector scaling: a weight and a bias for each class, fitted on validation NLL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, Method, need_classes, need_fitted, need_labels
from vbs_cli.methods.convex import affine_scores, fit_affine


@METHODS.register("vector")
@dataclass(frozen=True)
class VectorScaling(Method):
    """Vector scaling softmax(w * l + b): Guo et al. 2017."""

    weights: Sequence[float] | None = None  # (K,)
    biases: Sequence[float] | None = None  # (K,), of mean zero
    converged: bool | None = None

    def fit(self, val: Logits) -> Self:
        found = fit_affine(val.logits, need_labels(val), full=False)
        weights, biases = tuple(found.weights.tolist()), tuple(found.biases.tolist())
        return replace(self, weights=weights, biases=biases, converged=found.converged)

    def predict_proba(self, record: Logits) -> Tensor:
        weights = torch.tensor(need_fitted(self.weights, "vector scaling"), dtype=torch.float64)
        biases = torch.tensor(need_fitted(self.biases, "vector scaling"), dtype=torch.float64)
        need_classes(record, len(weights), "vector scaling")
        return affine_scores(record.logits.double(), weights, biases).softmax(1)
