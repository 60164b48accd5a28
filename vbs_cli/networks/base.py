"""Base class of networks: all that decides the weights besides data, seed and schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from vbs_cli.data.base import Split
from vbs_cli.models import build_model
from vbs_cli.registry import Registry

NETWORKS: Registry[type[Network]] = Registry("network")
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Network:
    """Kind of classifier: how it is built and trained. The defaults are those of the conventional one.

    Fields of a subclass are its own settings. A field that has the name of a setting of the run takes its value from
    there, any other is set by `--option NETWORK.FIELD=VALUE`; all of them are part of the weights' recipe.
    """

    artifacts: ClassVar[tuple[str, ...]] = ()  # names of the further files of tensors that `finish` makes

    def build(self, model: str, *, shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
        """Untrained network of patch logits with an architecture of MODELS: (B, C, *size) -> (B, K, *grid)."""
        return build_model(model, shape=shape, classes=classes, width=width)

    def loss(self, logits: Tensor, labels: Tensor, *, epoch: int) -> Tensor:
        """Mean loss over a batch, also of validation data: (B, K), (B,) -> (). Epochs count from 1."""
        return nn.functional.cross_entropy(logits, labels)

    def after_epoch(self, model: nn.Module, memory: Tensors, *, epoch: int) -> Tensors:
        """Tensors to keep across epochs, by name; `memory` holds copies on the CPU of those of the epoch before.

        Checkpoints store them, so that a stopped training can be resumed.
        """
        return memory

    def finish(
        self, model: nn.Module, memory: Tensors, data: Split, *, seed: int, device: torch.device | str
    ) -> Mapping[str, Tensors]:
        """Make the tensors of each of `artifacts` after training; `data` is the training split."""
        return {}
