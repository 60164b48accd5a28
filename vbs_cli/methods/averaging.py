"""The mean of the sub-predictions' softmaxes, wherever they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, Method, need


def averaged(record: Logits) -> Tensor:
    """Mean softmax of the parts, (N, K) in float64, its rows normalised once more in that precision."""
    mean = need(record.mean_softmax, "sub-predictions").double()
    return mean / mean.sum(1, keepdim=True)


@dataclass(frozen=True)
class Averaging(Method):
    """Every part counts the same."""

    def predict_proba(self, record: Logits) -> Tensor:
        return averaged(record)


@METHODS.register("naive")
@dataclass(frozen=True)
class PatchAveraging(Averaging):
    """Naive patch averaging: the (window-pooled) patches of one network."""


@METHODS.register("mc-dropout")
@dataclass(frozen=True)
class MCDropout(Averaging):
    """The draws of a network that drops units at test time."""

    model: ClassVar[str] = "dropout"


@METHODS.register("ensemble")
@dataclass(frozen=True)
class DeepEnsemble(Averaging):
    """The conventional networks of all seeds."""

    model: ClassVar[str] = "ensemble"
