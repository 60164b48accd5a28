"""Noises that take detail from images: blurs and coarser pixels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial, wraps

import torch
from torch import Tensor

from vbs_cli.data.noise import PICTURES, SEVERITIES, Apply, graded, noise

# Constants of the severities 1 to 5 of CIFAR-10-C (Hendrycks and Dietterich 2019).
SIGMAS = (0.4, 0.6, 0.7, 0.8, 1.0)
DISKS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))  # radius, sigma of the alias filter
LINES = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))  # radius, sigma
ZOOMS = (6, 11, 16, 21, 26)  # how many of the factors 1, 1.01, 1.02, ...
SHARES = (0.95, 0.9, 0.85, 0.75, 0.65)  # of the pixels along a side
TRUNCATE = 4.0  # sigmas, as in scipy
REACH = 2  # pixels from the middle of a disk to its farthest, with the alias filter
LEAST = 1e-4  # share of a tap below which it is left out
KEPT = 64  # operators, one per size and level: those of a sweep

Pairs = list[tuple[Tensor, Tensor]]


def separable(make: Callable[[int, int, float], Pairs]) -> Apply:
    """Decorator: the sum of L X R^T over the pairs (L, R) that a function makes for a height, a width and a level."""

    @lru_cache(maxsize=KEPT)
    def matrices(height: int, width: int, level: float, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
        # A tensor made in inference mode could not be used later where gradients are needed.
        with torch.inference_mode(False):
            return [(left.to(dtype), right.T.to(dtype)) for left, right in make(height, width, level)]

    @wraps(make)
    def apply(x: Tensor, _: Tensor, level: float) -> Tensor:
        height, width = x.shape[2:]
        rows = x.reshape(-1, width)
        # New memory would take longer than the products.
        across, total = torch.empty_like(rows), torch.zeros_like(rows).view(-1, height, width)
        for left, right in matrices(height, width, level, x.dtype):
            torch.mm(rows, right, out=across)
            total.baddbmm_(left.expand(len(total), -1, -1), across.view(total.shape))
        return total.view(x.shape)

    return apply


def between(level: float) -> tuple[int, float]:
    """Severity (0 to 4) that a level has reached, and the share of the way from it to the next one."""
    place = min(level / SEVERITIES[0], float(len(SEVERITIES)))
    reached = min(int(place), len(SEVERITIES) - 1)
    return reached, place - reached


def mixed(level: float, at: Callable[[int], Tensor]) -> Tensor:
    """Kernel or matrix at a level, linear between those of the severities; severity 0 changes nothing."""
    reached, share = between(level)
    return torch.lerp(at(reached), at(reached + 1), share)


def filter_matrix(taps: Tensor, sources: Tensor) -> Tensor:
    """Matrix that correlates along an axis, of n pixels: T taps, (n, T) the pixel that each tap reads -> (n, n)."""
    rows = torch.zeros(len(sources), len(sources), dtype=torch.float64)
    return rows.scatter_add_(1, sources, taps.double().expand(sources.shape))


def neighbours(size: int, reach: int) -> Tensor:
    """Positions within `reach` of each of n pixels, some of them outside of the image: (n, 2 reach + 1)."""
    return torch.arange(size).unsqueeze(1) + torch.arange(-reach, reach + 1)


def bell(reach: int, sigma: float) -> Tensor:
    """Gaussian weights at the whole numbers from -reach to reach, of sum 1."""
    if sigma == 0:
        return (torch.arange(-reach, reach + 1) == 0).double()
    weights = (torch.arange(-reach, reach + 1).double() / sigma).square().mul(-0.5).exp()
    return weights / weights.sum()


@noise("gaussian-blur", family="blur", kinds=PICTURES, most=1.0)
@separable
def gaussian_blur(height: int, width: int, level: float) -> Pairs:
    """Blur by a gaussian whose sigma grows with the level; beyond the edge, the image goes on as its last pixel."""
    sigma = graded(level, 0.0, *SIGMAS)
    reach = int(TRUNCATE * sigma + 0.5)
    taps = bell(reach, sigma)
    rows, columns = (filter_matrix(taps, neighbours(size, reach).clamp(0, size - 1)) for size in (height, width))
    return [(rows, columns)]


@noise("defocus-blur", family="blur", kinds=PICTURES, most=1.0)
@separable
def defocus_blur(height: int, width: int, level: float) -> Pairs:
    """Blur by a disk, as a lens that is out of focus; the image is mirrored about its last pixels."""
    # A symmetric kernel is the sum of the outer products of its eigenvectors, each of them separable.
    weights, vectors = torch.linalg.eigh(mixed(level, disk))
    sources = [mirrored(neighbours(size, REACH), size) for size in (height, width)]
    return [
        (weight * filter_matrix(taps, sources[0]), filter_matrix(taps, sources[1]))
        for weight, taps in zip(weights, vectors.T, strict=True)
        if weight.abs() > 1e-12
    ]


def disk(severity: int) -> Tensor:
    """Kernel of defocus blur: the pixels within a radius, smoothed by a gaussian over 3 x 3: (5, 5)."""
    axis = torch.arange(-REACH, REACH + 1).double()
    distance = axis.square() + axis.square().unsqueeze(1)
    if severity == 0:
        return (distance == 0).double()
    radius, alias = DISKS[severity - 1]
    inside = (distance <= radius**2).double()
    smooth = filter_matrix(bell(1, alias), neighbours(len(axis) + 2, 1).clamp(0, len(axis) + 1))[1:-1, 1:-1]
    return smooth @ (inside / inside.sum()) @ smooth.T


def mirrored(positions: Tensor, size: int) -> Tensor:
    """Positions brought into an axis by reflection about its first and last pixels."""
    if size == 1:
        return torch.zeros_like(positions)
    period = 2 * (size - 1)
    folded = positions.remainder(period)
    return torch.minimum(folded, period - folded)


@noise("zoom-blur", family="blur", kinds=PICTURES, most=1.0)
@separable
def zoom_blur(height: int, width: int, level: float) -> Pairs:
    """Average the image with its centre magnified by the factors 1, 1.01, ... up to one that grows with the level."""
    # Rounding makes equals of many factors, of small images above all.
    steps: dict[tuple[tuple[int, int], ...], float] = {}
    for factor, weight in zip((0, *range(ZOOMS[-1])), mixed(level, zoom_weights).tolist(), strict=True):
        sides = tuple(magnified(size, 1 + factor / 100) for size in (height, width))
        steps[sides] = steps.get(sides, 0.0) + weight
    return [
        (weight * zoom_matrix(height, *rows), zoom_matrix(width, *columns))
        for (rows, columns), weight in steps.items()
        if weight > 0
    ]


def zoom_weights(severity: int) -> Tensor:
    """Weights of the image and of its magnifications by 1, 1.01, ..., 1.25 in the mean."""
    count = ZOOMS[severity - 1] if severity else 0
    return (torch.arange(ZOOMS[-1] + 1) <= count).double() / (1 + count)


def magnified(size: int, factor: float) -> tuple[int, int]:
    """Pixels of an axis that are magnified, in its middle, and how many they become."""
    crop = math.ceil(size / factor)
    return crop, round(crop * factor)


def zoom_matrix(size: int, crop: int, whole: int) -> Tensor:
    """Matrix that makes more pixels of those in the middle of an axis, linear between them: (n, n)."""
    start = (size - crop) // 2
    places = torch.arange(whole).double() * ((crop - 1) / max(whole - 1, 1))
    places = places[(whole - size) // 2 :][:size]
    left = places.floor().clamp(max=crop - 1).long()
    right = (left + 1).clamp(max=crop - 1)
    share = (places - left).unsqueeze(1)
    rows = torch.zeros(size, size, dtype=torch.float64)
    rows.scatter_add_(1, start + left.unsqueeze(1), 1 - share)
    return rows.scatter_add_(1, start + right.unsqueeze(1), share)


@noise("pixelate", family="blur", kinds=PICTURES, most=1.0)
@separable
def pixelate(height: int, width: int, level: float) -> Pairs:
    """Bring the image to fewer pixels and back, by means over boxes, as Pillow's BOX filter does."""
    rows, columns = (mixed(level, partial(pixel_matrix, size)) for size in (height, width))
    return [(rows, columns)]


def pixel_matrix(size: int, severity: int) -> Tensor:
    """Matrix that takes an axis to fewer pixels and back: (n, n)."""
    fewer = max(1, int(size * SHARES[severity - 1])) if severity else size
    return box_matrix(fewer, size) @ box_matrix(size, fewer)


def box_matrix(size: int, onto: int) -> Tensor:
    """Matrix from n pixels to m by the mean of those whose centres lie in a pixel-wide box around the new one: (m, n).

    Pillow's box holds its upper end, and its width is a new pixel's, or an old one's where those are larger.
    """
    scale = size / onto
    centres = (torch.arange(onto).double() + 0.5).unsqueeze(1) * scale
    away = (torch.arange(size).double() + 0.5 - centres) / max(scale, 1.0)
    inside = ((away > -0.5) & (away <= 0.5)).double()
    return inside / inside.sum(1, keepdim=True)


def slant(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(-1, 1), one per image, of an angle: (B,)."""
    return torch.rand(shape[0], generator=rng).mul_(2).sub_(1)


@noise("motion-blur", draw=slant, family="blur", kinds=PICTURES, most=1.0)
def motion_blur(x: Tensor, draw: Tensor, level: float) -> Tensor:
    """Smear each image along a line of its own, up to 45 degrees from the horizontal.

    Beyond the edge, the image goes on as its last pixel.
    """
    height, width = x.shape[2:]
    angle = draw.double() * (math.pi / 4)
    pixels = x.flatten(2)
    blurred, moved = torch.zeros_like(pixels), torch.empty_like(pixels)
    source = torch.empty((len(x), height, width), dtype=torch.long)
    for distance, weight in enumerate(line_weights(level)):
        row = shifted(height, torch.round(distance * angle.sin()).long())
        column = shifted(width, torch.round(distance * angle.cos()).long())
        torch.add(column.unsqueeze(1), row.unsqueeze(2), alpha=width, out=source)
        torch.gather(pixels, 2, source.flatten(1).unsqueeze(1).expand_as(pixels), out=moved)
        blurred.add_(moved, alpha=weight)
    return blurred.view(x.shape)


def shifted(size: int, by: Tensor) -> Tensor:
    """Positions along an axis moved by a number of pixels per image and kept inside: (B,) -> (B, n)."""
    return (torch.arange(size) + by.unsqueeze(1)).clamp_(0, size - 1)


@lru_cache(maxsize=KEPT)
def line_weights(level: float) -> list[float]:
    """Weights of the pixels along the line of motion blur, of sum 1, without those that do not matter."""
    weights = mixed(level, half_bell)
    kept = weights[weights >= LEAST]
    return [float(weight) for weight in kept / kept.sum()]


def half_bell(severity: int) -> Tensor:
    """One-sided gaussian weights of sum 1 over a line that is long enough for every severity: (19,)."""
    longest = 2 * LINES[-1][0] + 1
    distance = torch.arange(longest).double()
    if severity == 0:
        return (distance == 0).double()
    radius, sigma = LINES[severity - 1]
    weights = (distance / sigma).square().mul(-0.5).exp() * (distance <= 2 * radius)
    return weights / weights.sum()
