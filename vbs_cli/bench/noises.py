"""Benchmark of image noise and of a further level of noise against the usual alternatives, on the same arrays.

Rows come from `bench_kernels(noise_duels())`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from vbs_cli.bench.kernels import Duel, furthest
from vbs_cli.data.base import BLOCK
from vbs_cli.data.noise import NOISES, KeptDraws, distort
from vbs_cli.seeding import generator

LEVEL = 0.5
SHAPE = (3, 32, 32)  # CIFAR-10
DATASET, SPLIT = "bench", "test"


def noise_duels(count: int = 10_000) -> Iterator[Duel]:
    """Duels of noises, on as many images as the test split of CIFAR-10 has, in the blocks of a forward pass."""
    images = torch.rand((count, *SHAPE), generator=torch.Generator().manual_seed(0))
    size = f"{count:,} x " + " x ".join(map(str, SHAPE))
    yield Duel(
        "affine noise", size, "torchvision, by image", "torchvision",
        ours("affine", images), by_image(images, lambda x, _: torchvision_affine(x)), share_apart, 3,
    )  # fmt: skip
    moves = displacements(images)
    yield Duel(
        "elastic noise", size, "torchvision, by image", "torchvision",
        ours("elastic", images), by_image(images, lambda x, i: torchvision_elastic(x, moves[i])), share_apart, 3,
    )  # fmt: skip
    for noise in ("gaussian", "speckle"):
        yield Duel(
            f"{noise} noise, a further level", size, "drawn anew", "torch",
            ours(noise, images), anew(noise, images), furthest, 3,
        )  # fmt: skip


def ours(noise: str, images: Tensor) -> Callable[[], Tensor]:
    """Function that distorts the images by our noise, with a cache of draws that the first run fills."""
    draws = KeptDraws()
    return by_block(
        images,
        lambda x, block: distort(x, noise=noise, level=LEVEL, dataset=DATASET, split=SPLIT, block=block, draws=draws),
    )


def anew(noise: str, images: Tensor) -> Callable[[], Tensor]:
    """Function that distorts the images with a new draw in every run, from the generators of our noise."""

    def gaussian(x: Tensor, block: int) -> Tensor:
        return torch.add(x, torch.randn(x.shape, generator=generator_of(noise, block)), alpha=LEVEL)

    def speckle(x: Tensor, block: int) -> Tensor:
        return torch.addcmul(x, x, torch.randn(x.shape, generator=generator_of(noise, block)), value=LEVEL)

    return by_block(images, {"gaussian": gaussian, "speckle": speckle}[noise])


def by_block(images: Tensor, distorted: Callable[[Tensor, int], Tensor]) -> Callable[[], Tensor]:
    """Function that distorts the images by blocks into preallocated memory; new memory would take much of the time."""
    result = torch.empty_like(images)

    def run() -> Tensor:
        for block, (x, out) in enumerate(zip(torch.split(images, BLOCK), torch.split(result, BLOCK), strict=True)):
            out.copy_(distorted(x, block))
        return result

    return run


def by_image(images: Tensor, transformed: Callable[[Tensor, int], Tensor]) -> Callable[[], Tensor]:
    """Function that transforms the images one at a time into preallocated memory."""
    result = torch.empty_like(images)

    def run() -> Tensor:
        for position, (image, out) in enumerate(zip(images, result, strict=True)):
            out.copy_(transformed(image, position))
        return result

    return run


def torchvision_affine(image: Tensor) -> Tensor:
    """Affine noise equal to ours in torchvision's calls: (C, H, W) -> (C, H, W)."""
    import torchvision.transforms.functional as TF

    height, width = image.shape[1:]
    moved = TF.affine(
        TF.pad(image, round(0.2 * max(height, width))),
        angle=30 * LEVEL,
        translate=[0, 0],
        scale=1 + LEVEL,
        shear=[10 * LEVEL, 0.0],
        interpolation=TF.InterpolationMode.NEAREST,
    )
    cropped: Tensor = TF.center_crop(moved, [height, width])
    return cropped


def torchvision_elastic(image: Tensor, displacement: Tensor) -> Tensor:
    """Elastic noise equal to ours in torchvision's call: (C, H, W), (1, H, W, 2) -> (C, H, W)."""
    import torchvision.transforms.functional as TF

    moved: Tensor = TF.elastic_transform(image, displacement, interpolation=TF.InterpolationMode.NEAREST)
    return moved


def displacements(images: Tensor) -> Tensor:
    """Displacements of our elastic noise, clamped to the image and in torchvision's units: (N, 1, H, W, 2).

    They are made in advance, so that the rival is timed for its transform alone.
    """
    height, width = images.shape[2:]
    draw = torch.cat(
        [
            NOISES["elastic"].draw(x.shape, generator_of("elastic", block))
            for block, x in enumerate(torch.split(images, BLOCK))
        ]
    )
    columns, rows = torch.arange(width), torch.arange(height).unsqueeze(1)
    dx = (columns + 5 * LEVEL * draw[:, 0]).clamp(0, width - 1) - columns
    dy = (rows + 5 * LEVEL * draw[:, 1]).clamp(0, height - 1) - rows
    # Torchvision's coordinates run from -1 to 1 between the outer edges of the image, so that a pixel is 2 / size wide.
    return torch.stack([2 * dx / width, 2 * dy / height], -1).unsqueeze(1)


def generator_of(noise: str, block: int) -> torch.Generator:
    return generator(DATASET, SPLIT, noise, block)


def share_apart(ours: Tensor, theirs: Tensor) -> float:
    """Share of pixels that differ."""
    return float((ours != theirs).any(1).double().mean())
