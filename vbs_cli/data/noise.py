"""Noise of strength lambda: one standard draw per example, scaled by the level.

The draw depends on dataset, split, noise and position alone. So every model and method sees the same noisy input,
comparisons are paired, and curves over the level are smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.registry import Registry
from vbs_cli.seeding import generator

KEPT_BYTES = 512 * 2**20  # of draws: enough for two noises on the whole test split of each of the paper's datasets
IMAGE_RANGE = (0.0, 1.0)
SIGNAL_RANGE = (-1.0, 1.0)
# At level 1, as in the paper: rotation in degrees, padding as a share of the longer side, displacement in pixels.
ROTATION = 30.0
PADDING = 0.2
REACH = 5.0


@dataclass(frozen=True)
class Noise:
    """Kind of noise: `draw` makes standard randomness for a block of inputs, `apply` distorts them by it to a level.

    Draws are reused at the next level, so `apply` must not change them.
    """

    draw: Callable[[torch.Size, torch.Generator], Tensor]
    apply: Callable[[Tensor, Tensor, float], Tensor]  # inputs, draw, level
    images_only: bool = False


NOISES: Registry[Noise] = Registry("noise")


class KeptDraws:
    """Cache of the draws for the blocks of a split, up to `bound` bytes, which the pass at the next level reuses."""

    def __init__(self, bound: int = KEPT_BYTES) -> None:
        self.free = bound
        self._kept: dict[Hashable, Tensor] = {}

    def get(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Draw kept for this key, or make it. The first ones are kept, since every pass reads all blocks in turn."""
        found = self._kept.get(key)
        if found is None:
            found = make()
            if found.nbytes <= self.free:
                self._kept[key] = found
                self.free -= found.nbytes
        return found


def distort(
    x: Tensor, *, noise: str, level: float, dataset: str, split: str, block: int, draws: KeptDraws | None = None
) -> Tensor:
    """Distort one block of inputs; level 0 is the identity. `draws` keeps the randomness for further levels."""
    if not 0 <= level < math.inf:
        raise InvalidInput(f"there is no noise of level {level}", hint="levels are finite numbers from 0 on")
    if level == 0:
        return x
    chosen = NOISES[noise]

    def make() -> Tensor:
        # A tensor made in inference mode could not be used later where gradients are needed.
        with torch.inference_mode(False):
            return chosen.draw(x.shape, generator(dataset, split, noise, block))

    draw = make() if draws is None else draws.get((dataset, split, noise, block, x.shape), make)
    return chosen.apply(x, draw, level)


def noises_for(shape: tuple[int, ...]) -> list[str]:
    """Names of the noises for inputs of this shape: all for images (C, H, W), fewer for signals (C, L)."""
    return [name for name, noise in NOISES.items() if len(shape) == 3 or not noise.images_only]


def need_images(noise: str, x: Tensor) -> None:
    if x.ndim != 4:
        hint = f"signals take {', '.join(noises_for((1, 1)))}"
        raise InvalidInput(f"{noise} is a noise for images", hint=hint)


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


def no_draw(shape: torch.Size, rng: torch.Generator) -> Tensor:
    return torch.empty(0)


def affine(x: Tensor, draw: Tensor, level: float, *, name: str, shear: float, zoom: float) -> Tensor:
    """Rotate, shear (degrees at level 1) and scale images (B, C, H, W) to 1 + zoom * level about their centre."""
    need_images(name, x)
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
    need_images("elastic", x)
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
NOISES.register("affine")(Noise(no_draw, partial(affine, name="affine", shear=10.0, zoom=1.0), images_only=True))
NOISES.register("affine-no-zoom")(
    Noise(no_draw, partial(affine, name="affine-no-zoom", shear=40.0, zoom=0.0), images_only=True)
)
NOISES.register("elastic")(Noise(standard_displacement, elastic, images_only=True))
