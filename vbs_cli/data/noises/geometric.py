"""Noises that move images."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vbs_cli.data.noise import PICTURES, noise

FARTHEST = 0.25  # share of a side that level 1 moves by


def turn(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(0, 1), one per image, of a direction as a share of a full turn: (B,)."""
    return torch.rand(shape[0], generator=rng)


@noise("translation", draw=turn, family="geometric", kinds=PICTURES, most=1.0)
def translation(x: Tensor, draw: Tensor, level: float) -> Tensor:
    """Move each image by whole pixels in a direction of its own, black coming in."""
    height, width = x.shape[2:]
    angle = draw.double() * (2 * math.pi)
    down, right = angle.sin() * (FARTHEST * height * level), angle.cos() * (FARTHEST * width * level)
    row, rows_inside = sources(height, down.round().long())
    column, columns_inside = sources(width, right.round().long())
    pixels = x.flatten(2)
    source = torch.add(column.unsqueeze(1), row.unsqueeze(2), alpha=width).flatten(1).unsqueeze(1)
    inside = (rows_inside.unsqueeze(2) & columns_inside.unsqueeze(1)).unsqueeze(1)
    return pixels.gather(2, source.expand_as(pixels)).view(x.shape).masked_fill_(~inside, 0)


def sources(size: int, by: Tensor) -> tuple[Tensor, Tensor]:
    """Position along an axis that each pixel comes from, kept inside, and whether it was: (B,) -> (B, n), (B, n)."""
    position = torch.arange(size) - by.unsqueeze(1)
    kept = position.clamp(0, size - 1)
    return kept, kept == position
