"""Benchmark of image noise and of a further level of noise against the usual alternatives, on the same arrays.

Rows come from `bench_kernels(noise_duels())`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from vbs_cli.bench.kernels import Duel, furthest, unlike
from vbs_cli.data.base import BLOCK
from vbs_cli.data.noise import NOISES, SEVERITIES, KeptDraws, distort
from vbs_cli.data.noises import blurs, jpeg, photometric, pixels
from vbs_cli.seeding import generator

LEVEL = 0.5
SHAPE = (3, 32, 32)  # CIFAR-10
DATASET, SPLIT = "bench", "test"
SEVERITY = 2  # of the corruptions, from 0


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
    yield from corruption_duels(images, size)


def corruption_duels(images: Tensor, size: str) -> Iterator[Duel]:
    """Duels of corruptions of severity 3 against a library that is called for each image."""
    levels = images.mul(255).round_()  # Pillow has no finer values
    images = levels / 255
    files = levels.byte().permute(0, 2, 3, 1).contiguous().numpy()
    for noise, rival, needs, corrupted, compare in (
        ("gaussian-blur", "scipy, by image", "scipy", scipy_gaussian_blur, furthest),
        ("defocus-blur", "scipy, by image", "scipy", scipy_defocus_blur, furthest),
        ("jpeg", "Pillow, by image", "PIL", lambda _, i: pillow_jpeg(files[i]), furthest),
        ("pixelate", "Pillow, by image", "PIL", lambda _, i: pillow_pixelate(files[i]), furthest),
        ("brightness", "scikit-image, by image", "skimage", skimage_brightness, furthest),
        ("saturate", "scikit-image, by image", "skimage", skimage_saturate, furthest),
        ("shot", "numpy, by image", "numpy", numpy_shot, unlike),
        ("contrast", "numpy, by image", "numpy", numpy_contrast, furthest),
    ):
        theirs = by_image(images, corrupted)
        yield Duel(noise, size, rival, needs, ours(noise, images, SEVERITIES[SEVERITY]), theirs, compare, 3)


def ours(noise: str, images: Tensor, level: float = LEVEL) -> Callable[[], Tensor]:
    """Function that distorts the images by our noise, with a cache of draws that the first run fills."""
    draws = KeptDraws()
    return by_block(
        images,
        lambda x, block: distort(x, noise=noise, level=level, dataset=DATASET, split=SPLIT, block=block, draws=draws),
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


def scipy_gaussian_blur(image: Tensor, _: int) -> Tensor:
    from scipy import ndimage

    sigma = blurs.SIGMAS[SEVERITY]
    return torch.from_numpy(ndimage.gaussian_filter(image.numpy(), (0, sigma, sigma), mode="nearest"))


def scipy_defocus_blur(image: Tensor, _: int) -> Tensor:
    from scipy import ndimage

    # Its disk is one pixel, so that the 3 x 3 pixels of the alias filter are all that is not zero.
    kernel = blurs.disk(SEVERITY + 1)[1:-1, 1:-1].numpy()
    return torch.from_numpy(ndimage.correlate(image.numpy(), kernel[None], mode="mirror"))


def pillow_jpeg(image: np.ndarray) -> Tensor:
    """Image written as a JPEG file in memory and read: (H, W, 3) of bytes -> (3, H, W)."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=int(jpeg.QUALITIES[SEVERITY]))
    return from_levels(np.array(Image.open(file)))


def pillow_pixelate(image: np.ndarray) -> Tensor:
    """Image brought to fewer pixels and back: (H, W, 3) of bytes -> (3, H, W)."""
    from PIL import Image

    height, width = image.shape[:2]
    share = blurs.SHARES[SEVERITY]
    fewer = Image.fromarray(image).resize((int(width * share), int(height * share)), Image.Resampling.BOX)
    return from_levels(np.array(fewer.resize((width, height), Image.Resampling.BOX)))


def from_levels(image: np.ndarray) -> Tensor:
    return torch.from_numpy(image).permute(2, 0, 1) / 255


def skimage_brightness(image: Tensor, _: int) -> Tensor:
    return by_hsv(image, 2, lambda value: value + photometric.BRIGHTER[SEVERITY])


def skimage_saturate(image: Tensor, _: int) -> Tensor:
    return by_hsv(image, 1, lambda saturation: saturation * photometric.SATURATION_FACTORS[SEVERITY])


def by_hsv(image: Tensor, channel: int, change: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """Image of which a function changes one channel of HSV: (3, H, W) -> (3, H, W)."""
    from skimage import color

    hsv = color.rgb2hsv(image.numpy(), channel_axis=0)
    hsv[channel] = change(hsv[channel]).clip(0, 1)
    return torch.from_numpy(color.hsv2rgb(hsv, channel_axis=0))


def numpy_shot(image: Tensor, position: int) -> Tensor:
    photons = pixels.PHOTONS[SEVERITY]
    counts = np.random.default_rng(position).poisson(image.numpy() * photons)
    return torch.from_numpy((counts / photons).clip(0, 1))


def numpy_contrast(image: Tensor, _: int) -> Tensor:
    array = image.numpy()
    middle = array.mean((1, 2), keepdims=True)
    return torch.from_numpy(((array - middle) * photometric.CONTRASTS[SEVERITY] + middle).clip(0, 1))


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
