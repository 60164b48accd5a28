"""Conventional predictions: the classifier without calibration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, TemperatureMethod


@METHODS.register("conventional")
@dataclass(frozen=True)
class Conventional(TemperatureMethod):
    """Classifier without calibration, softmax(l): a temperature of one."""

    def temperature(self, record: Logits) -> Tensor:
        return torch.ones(len(record), dtype=torch.float64)
