"""Description of the network under measurement, from which another process can build it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vbs_cli.models import build_model
from vbs_cli.models.base import patch_grid
from vbs_cli.networks.training import initialised
from vbs_cli.seeding import generator


@dataclass(frozen=True)
class BenchNetwork:
    """Network and its input. The weights are untrained, because cost does not depend on their values."""

    model: str  # a name in MODELS
    shape: tuple[int, ...]  # of one input, channels first
    classes: int
    width: int
    dropout: float  # of the MC-dropout variant
    kernel: int  # the window of variance-based smoothing

    def build(self, *, dropout: bool, seed: int = 0) -> nn.Module:
        """Build the network in evaluation mode, with or without its dropouts; a seed always gives the same weights."""

        def build() -> nn.Module:
            return build_model(
                self.model,
                shape=self.shape,
                classes=self.classes,
                width=self.width,
                dropout=self.dropout if dropout else 0.0,
            )

        return initialised(build, seed=seed, name="bench").eval()

    def grid(self) -> tuple[int, ...]:
        """Shape of the patches of an input, (T,) or (h, w)."""
        return tuple(patch_grid(self.build(dropout=False), self.shape))

    def inputs(self, batch: int) -> Tensor:
        """Standard normal inputs (batch, *shape)."""
        return torch.randn(batch, *self.shape, generator=generator("bench", "inputs"))
