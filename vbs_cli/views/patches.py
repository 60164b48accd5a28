"""Patches of one network: the logits just before its final average pooling, from one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from vbs_cli.models.memory import to_device
from vbs_cli.views.base import VIEWS, Place, Reader, View
from vbs_cli.views.chunks import within_memory
from vbs_cli.views.fast import Fast


@VIEWS.register("patches")
@dataclass(frozen=True)
class Patches(View):
    """Patches of a feature map; neighbours are averaged over a window before their spread is taken."""

    parts: ClassVar[str] = "patches"
    plain: ClassVar[str] = "conventional"
    names: ClassVar = {"mean": "naive"}
    folder: ClassVar[str] = "conventional"

    kernel: int = 1

    @property
    def window(self) -> int:
        return self.kernel

    def grid(self, patches: torch.Size) -> tuple[int, ...]:
        return tuple(patches)

    def reader(self, ready: Fast, *, device: torch.device | str) -> Reader:
        def read(x: Tensor, place: Place) -> Tensor:
            return within_memory(partial(patches_of, ready.net, x, device=device), ready.chunk)

        return read


def patches_of(net: nn.Module, x: Tensor, *, device: torch.device | str, chunk: int) -> Tensor:
    """Patch logits, in chunks of inputs: (N, C, *size) -> (N, K, *grid)."""
    return torch.cat([net(to_device(part, device)).cpu() for part in torch.split(x, chunk)])
