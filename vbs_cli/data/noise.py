"""Noise of a strength lambda: one standard draw per example, scaled by the level.

The draw depends on dataset, split, noise and position alone. So every model and method sees the same noisy input,
comparisons are paired, and curves over the level are smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vbs_cli.registry import Registry
from vbs_cli.seeding import generator


@dataclass(frozen=True)
class Noise:
    """`draw` makes the standard randomness for a block of inputs; `apply` distorts them by it to a level."""

    draw: Callable[[torch.Size, torch.Generator], Tensor]
    apply: Callable[[Tensor, Tensor, float], Tensor]  # inputs, draw, level


NOISES: Registry[Noise] = Registry("noise")


def standard_normal(shape: torch.Size, rng: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=rng)


NOISES.register("gaussian")(Noise(standard_normal, lambda x, eps, level: torch.add(x, eps, alpha=level)))
NOISES.register("speckle")(Noise(standard_normal, lambda x, eps, level: torch.addcmul(x, x, eps, value=level)))


def distort(x: Tensor, *, noise: str, level: float, dataset: str, split: str, block: int) -> Tensor:
    """One block of inputs under noise; level 0 is the identity."""
    if level == 0:
        return x
    chosen = NOISES[noise]
    return chosen.apply(x, chosen.draw(x.shape, generator(dataset, split, noise, block)), level)
