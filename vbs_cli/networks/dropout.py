"""Classifier for MC-dropout: dropout after every activation, in training and at test time."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vbs_cli.models import build_model
from vbs_cli.networks.base import NETWORKS, Network


@NETWORKS.register("dropout")
@dataclass(frozen=True)
class DropoutNetwork(Network):
    """Network with dropout after every activation."""

    dropout: float = 0.5

    def build(self, model: str, *, shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
        return build_model(model, shape=shape, classes=classes, width=width, dropout=self.dropout)
