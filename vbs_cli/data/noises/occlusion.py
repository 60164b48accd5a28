"""Noises that hide a part of images."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vbs_cli.data.noise import PICTURES, graded, noise

AREAS = (0.05, 0.1, 0.2, 0.3, 0.4)  # shares that the severities 1 to 5 hide
GREY = 0.5


def place(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(0, 1), two per image: a place as shares of height and width: (B, 2)."""
    return torch.rand((shape[0], 2), generator=rng)


@noise("occlusion", draw=place, family="occlusion", kinds=PICTURES, most=1.0)
def occlusion(x: Tensor, draw: Tensor, level: float) -> Tensor:
    """Hide a grey square of each image, or what the square is of an image that is not one.

    It grows around the drawn place and never beyond the edges, so that what is hidden stays so at higher levels.
    """
    height, width = x.shape[2:]
    side = math.sqrt(graded(level, 0.0, *AREAS))
    rows, columns = (hidden(size, round(side * size), draw[:, axis]) for axis, size in enumerate((height, width)))
    return x.masked_fill((rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1), GREY)


def hidden(size: int, count: int, share: Tensor) -> Tensor:
    """Whether each pixel along an axis is one of `count` that lie around a share of the axis: (B,) -> (B, n)."""
    # One more pixel moves the start by none or one, so that each span holds the shorter ones.
    start = (share.double() * (size - count + 1)).long().unsqueeze(1)
    position = torch.arange(size)
    return (position >= start) & (position < start + count)
