"""Memory layout of images: channels last, on which convolutions on CPUs and GPUs are fastest."""

from __future__ import annotations

import torch
from torch import Tensor, nn

IMAGES = 4  # axes of a batch of images


def channels_last(model: nn.Module, device: torch.device | str = "cpu") -> nn.Module:
    """Move a network to a device, with the weights of its convolutions over images stored channels last."""
    return model.to(device).to(memory_format=torch.channels_last)


def to_device(x: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """Move inputs to a device, with images stored channels last."""
    layout = torch.channels_last if x.dim() == IMAGES else torch.preserve_format
    return x.to(device, non_blocking=True, memory_format=layout)
