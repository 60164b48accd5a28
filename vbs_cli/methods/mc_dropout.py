"""MC-dropout: the network that drops units at test time, averaged over its draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, Method, need


@METHODS.register("mc-dropout")
@dataclass(frozen=True)
class MCDropout(Method):
    """Mean of the draws' softmaxes."""

    model: ClassVar[str] = "dropout"

    def predict_proba(self, record: Logits) -> Tensor:
        return need(record.mean_softmax, "draws").double()
