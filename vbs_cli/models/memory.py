"""How images lie in memory: channels last, which convolutions on CPUs and GPUs work on fastest."""

from __future__ import annotations

import torch
from torch import Tensor, nn

IMAGES = 4  # dimensions of a batch of images


def arranged(model: nn.Module, device: torch.device | str = "cpu") -> nn.Module:
    """The same network on a device, the weights of its convolutions over images with their channels last."""
    return model.to(device).to(memory_format=torch.channels_last)


def placed(x: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """The same inputs on a device, images with their channels last."""
    layout = torch.channels_last if x.dim() == IMAGES else torch.preserve_format
    return x.to(device, non_blocking=True, memory_format=layout)
