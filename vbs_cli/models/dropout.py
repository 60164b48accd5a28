"""Dropout that draws from a generator of its own, so that draws can be repeated and never touch global state."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def drop_mask(x: Tensor, p: float, generator: torch.Generator) -> Tensor:
    """Factors of dropout, shaped and laid out in memory like `x`: 0 with probability `p`, else 1 / (1 - p).

    With p = 1/2 an element needs one random bit, so a single draw serves 64 elements, and a table turns eight bits at
    a time into factors; if p is another multiple of 1/256, an element needs a byte. Drawing a float for every element,
    as torch's own dropout does, takes up to 20 times as long on a CPU, most of the time of a small network.
    """
    count = x.numel()
    if p == 0.5:
        flat = F.embedding(octets(-(-count // 8), generator).int(), bits_of_octets().to(generator.device)).view(-1)
    elif (256 * p).is_integer():
        flat = (octets(count, generator) >= 256 * p).float().div_(1 - p)
    else:
        flat = torch.empty(count, device=generator.device).bernoulli_(1 - p, generator=generator).div_(1 - p)
    return flat[:count].as_strided(x.shape, torch.empty_like(x, device="meta").stride())


def octets(count: int, generator: torch.Generator) -> Tensor:
    """Random integers from 0 to 255, `count` of them or a few more."""
    words = torch.empty(-(-count // 8), dtype=torch.int64, device=generator.device)
    return words.random_(-(2**63), None, generator=generator).view(torch.uint8)


@functools.cache
def bits_of_octets() -> Tensor:
    """Table of the eight bits of every byte, as 0.0 and 2.0: (256, 8)."""
    return 2.0 * (torch.arange(256)[:, None] >> torch.arange(8) & 1)


class Dropout(nn.Module):
    """Set elements to zero with probability `p` and scale the rest by 1 / (1 - p); the identity without a generator."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.generator is None:
            return x
        return x * drop_mask(x, self.p, self.generator).to(x.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def split_before_dropout(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Split a network into the layers before the first dropout, which all draws share, and the rest."""
    if not isinstance(model, nn.Sequential):
        return nn.Identity(), model
    first = next((i for i, layer in enumerate(model) if isinstance(layer, Dropout)), len(model))
    return model[:first], model[first:]


def leave_uncompiled(model: nn.Module) -> None:
    """Exclude the dropouts from torch.compile, which cannot draw from a generator."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.forward = torch.compiler.disable(module.forward)  # type: ignore[method-assign, no-untyped-call]


def use_generator(model: nn.Module, generator: torch.Generator | None) -> None:
    """Switch every dropout of `model` on, drawing from `generator`, or off with None.

    BatchNorm is not touched: at test time it stays in evaluation mode while the dropouts draw.
    """
    for module in model.modules():
        if isinstance(module, Dropout):
            module.generator = generator
