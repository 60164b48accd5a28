"""Mean of the sub-predictions' softmaxes: patches, dropout draws or members of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, Method, need


def averaged(record: Logits) -> Tensor:
    """Mean softmax of the parts, (N, K) in float64, with rows normalised again in that precision."""
    mean = need(record.mean_softmax, "sub-predictions").double()
    return mean / mean.sum(1, keepdim=True)


@METHODS.register("mean")
@dataclass(frozen=True)
class Averaging(Method):
    """Mean of the softmaxes of all parts: MC-dropout on draws, a deep ensemble on members, naive on patches."""

    @property
    def reads(self) -> tuple[str, ...]:
        return ("mean_softmax",)

    def predict_proba(self, record: Logits) -> Tensor:
        return averaged(record)
