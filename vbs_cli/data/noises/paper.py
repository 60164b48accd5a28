"""Noises of the paper and of its authors' code: gaussian, speckle, salt-and-pepper, affine and elastic."""

from __future__ import annotations

from functools import lru_cache, partial

import torch
from torch import Tensor

from vbs_cli.data.noise import NOISES, PICTURES, Noise, no_draw

IMAGE_RANGE = (0.0, 1.0)
SIGNAL_RANGE = (-1.0, 1.0)
# At level 1, as in the paper: rotation in degrees, padding as a share of the longer side, displacement in pixels.
ROTATION = 30.0
PADDING = 0.2
REACH = 5.0


def standard_normal(shape: torch.Size, rng: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=rng)


def gaussian(x: Tensor, eps: Tensor, level: float) -> Tensor:
    return torch.add(x, eps.to(x.dtype), alpha=level)


def speckle(x: Tensor, eps: Tensor, level: float) -> Tensor:
    return torch.addcmul(x, x, eps.to(x.dtype), value=level)


def uniform_positions(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(0, 1), one per pixel or sample, shared by the channels: (B, 1, *size)."""
    return torch.rand((shape[0], 1, *shape[2:]), generator=rng)


def salt_and_pepper(x: Tensor, u: Tensor, level: float) -> Tensor:
    """Replace a share `level` of positions by the ends of the range; those replaced stay so at higher levels."""
    low, high = IMAGE_RANGE if x.ndim == 4 else SIGNAL_RANGE
    half = min(level, 1.0) / 2
    return torch.where(u < half, low, torch.where(u >= 1 - half, high, x))


def affine(x: Tensor, draw: Tensor, level: float, *, shear: float, zoom: float) -> Tensor:
    """Rotate, shear (degrees at level 1) and scale images (B, C, H, W) to 1 + zoom * level about their centre."""
    height, width = x.shape[2:]
    source, outside = affine_sources(
        height,
        width,
        torch.promote_types(x.dtype, torch.float32),
        angle=ROTATION * level,
        shear=shear * level,
        scale=1 + zoom * level,
    )
    pixels = x.flatten(2)
    # The map is the same for all images, so one gather from known sources replaces a sampling grid per image.
    return pixels.gather(2, source.expand_as(pixels)).index_fill_(2, outside, 0).view(x.shape)


@lru_cache(maxsize=64)  # the levels of a sweep, 60 at most
def affine_sources(
    height: int, width: int, dtype: torch.dtype, *, angle: float, shear: float, scale: float
) -> tuple[Tensor, Tensor]:
    """Flat index of each pixel's source, and the pixels that have none: (H W,), (outside,).

    Row and column numbers go through torchvision's own calls as an image of two channels, so that each pixel
    holds where it came from. They count from 1, as 0 is the fill. `dtype` is the type that the map is computed in.
    """
    # Imported here, as it takes long and signals do not need it.
    import torchvision.transforms.functional as TF

    padding = round(PADDING * max(height, width))
    with torch.inference_mode(False):
        numbers = [torch.arange(1, size + 1, dtype=dtype) for size in (height, width)]
        image = TF.pad(torch.stack(torch.meshgrid(*numbers, indexing="ij")), padding)
        moved = TF.affine(image, angle=angle, translate=[0, 0], scale=scale, shear=[shear, 0.0])
        row, column = TF.center_crop(moved, [height, width]).flatten(1).long() - 1
        return (row * width + column).clamp(min=0), (row < 0).nonzero().flatten()


def standard_displacement(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(-1, 1), one per pixel along x and one along y, shared by the channels: (B, 2, H, W)."""
    return torch.rand((shape[0], 2, *shape[2:]), generator=rng).mul_(2).sub_(1)


def elastic(x: Tensor, draw: Tensor, level: float) -> Tensor:
    """Give each pixel of (B, C, H, W) the value of the pixel nearest to its displaced place, kept inside the image."""
    height, width = x.shape[2:]
    # Multiply, then add: if fused, the last bit, and with it the pixel at a tie, would depend on the processor.
    place = draw * (REACH * level)
    place[:, 0].add_(torch.arange(width)).clamp_(0, width - 1)
    place[:, 1].add_(torch.arange(height).unsqueeze(1)).clamp_(0, height - 1)
    column, row = place.round_().int().unbind(1)
    pixels = x.flatten(2)
    source = torch.add(column, row, alpha=width).long().flatten(1).unsqueeze(1)
    return pixels.gather(2, source.expand_as(pixels)).view(x.shape)


NOISES.register("gaussian")(Noise(standard_normal, gaussian))
NOISES.register("speckle")(Noise(standard_normal, speckle))
NOISES.register("salt-and-pepper")(Noise(uniform_positions, salt_and_pepper))
NOISES.register("affine")(Noise(no_draw, partial(affine, shear=10.0, zoom=1.0), "geometric", PICTURES))
NOISES.register("affine-no-zoom")(Noise(no_draw, partial(affine, shear=40.0, zoom=0.0), "geometric", PICTURES))
NOISES.register("elastic")(Noise(standard_displacement, elastic, "geometric", PICTURES))
