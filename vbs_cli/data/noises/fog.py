"""Fog over images: plasma clouds of the diamond-square algorithm (Fournier, Fussell and Carpenter 1982)."""

from __future__ import annotations

import torch
from torch import Tensor

from vbs_cli.data.noise import PICTURES, graded, noise

# Constants of the severities 1 to 5 of CIFAR-10-C (Hendrycks and Dietterich 2019).
STRENGTHS = (0.2, 0.5, 0.75, 1.0, 1.5)
DECAYS = (3.0, 3.0, 2.5, 2.0, 1.75)


def grid(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(-1, 1), one per point of a square grid whose side is a power of two: (B, S, S)."""
    side = 1 << (max(shape[2:]) - 1).bit_length()
    return torch.rand((shape[0], side, side), generator=rng).mul_(2).sub_(1)


@noise("fog", draw=grid, family="photometric", kinds=PICTURES, most=1.0)
def fog(x: Tensor, draw: Tensor, level: float) -> Tensor:
    """Add a cloud to each image, then scale it so that its own maximum would stay under a cloud of full strength."""
    height, width = x.shape[2:]
    strength = graded(level, 0.0, *STRENGTHS)
    cloud = plasma(draw.to(x.dtype), graded(level, DECAYS[0], *DECAYS))[:, None, :height, :width]
    most = x.amax((1, 2, 3), keepdim=True)
    return torch.add(x, cloud, alpha=strength).mul_(most / (most + strength)).clamp_(0, 1)


def plasma(draw: Tensor, decay: float) -> Tensor:
    """Clouds between 0 and 1, periodic along both axes: (B, S, S) -> (B, S, S).

    Each point is the mean of its four neighbours on the coarser grid and a draw, whose weight falls by the square of
    `decay` whenever the step is halved.
    """
    side = draw.shape[-1]
    cloud = torch.zeros_like(draw)
    step, weight = side, 1.0
    while step > 1:
        half = step // 2
        corners = cloud[:, ::step, ::step]
        centres = corner_means(corners).add_(draw[:, half::step, half::step], alpha=weight)
        cloud[:, half::step, half::step] = centres
        # A point between two corners of a row has centres above and below; one in a column, left and right.
        for axis, place in (
            (2, (slice(None, None, step), slice(half, None, step))),
            (1, (slice(half, None, step), slice(None, None, step))),
        ):
            around = pair_means(corners, axis, -1) + pair_means(centres, 3 - axis, 1)
            cloud[:, *place] = around.div_(2).add_(draw[:, *place], alpha=weight)
        step, weight = half, weight / decay**2
    cloud -= cloud.amin((1, 2), keepdim=True)
    return cloud.div_(cloud.amax((1, 2), keepdim=True).clamp_(min=torch.finfo(cloud.dtype).tiny))


def pair_means(points: Tensor, axis: int, by: int) -> Tensor:
    """Means of the points of a periodic grid and their neighbours along an axis, the next (-1) or the previous (1)."""
    return (points + points.roll(by, axis)).div_(2)


def corner_means(points: Tensor) -> Tensor:
    """Means of each four points that are the corners of a square."""
    return pair_means(pair_means(points, 1, -1), 2, -1)
