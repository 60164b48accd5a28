"""Dropout that draws from a generator of its own, so that draws can be repeated and never touch global state."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def keep_mask(shape: torch.Size, keep: float, generator: torch.Generator) -> Tensor:
    """Zeros and ones (uint8), each element one with probability `keep`.

    At one half an element needs one random bit, so 64 come out of a single draw; drawing a float for every
    element, as torch's own dropout does, takes most of the time of a small network on a CPU.
    """
    if keep != 0.5:
        return torch.empty(shape, dtype=torch.uint8, device=generator.device).bernoulli_(keep, generator=generator)
    count = shape.numel()
    words = torch.empty((count + 63) // 64, dtype=torch.int64, device=generator.device)
    octets = words.random_(-(2**63), None, generator=generator).view(torch.uint8)
    shifts = torch.arange(8, dtype=torch.uint8, device=generator.device)
    return octets.unsqueeze(1).bitwise_right_shift(shifts).bitwise_and_(1).view(-1)[:count].view(shape)


class Dropout(nn.Module):
    """Zero with probability `p` and scale the rest by 1 / (1 - p), whenever a generator has been handed over."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.generator is None:
            return x
        return x * keep_mask(x.shape, 1.0 - self.p, self.generator) * (1.0 / (1.0 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}"


def split_before_dropout(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The layers before the first dropout, which give the same at every draw, and the rest."""
    if not isinstance(model, nn.Sequential):
        return nn.Identity(), model
    first = next((i for i, layer in enumerate(model) if isinstance(layer, Dropout)), len(model))
    return model[:first], model[first:]


def use_generator(model: nn.Module, generator: torch.Generator | None) -> None:
    """Switch every dropout of `model` on, drawing from `generator`, or off with None.

    BatchNorm is not touched: at test time it stays in evaluation mode while the dropouts draw.
    """
    for module in model.modules():
        if isinstance(module, Dropout):
            module.generator = generator
