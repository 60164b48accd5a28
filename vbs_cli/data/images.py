"""Pictures: image files -> RGB pixels of one size.

Pillow decodes them: torchvision's PNG reader crashes the process on most damaged files, and its readers are
deprecated.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vbs_cli.data.preparation import SKIP_HINT, Batch, Example
from vbs_cli.errors import VbsError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
BATCH, BATCH_BYTES = 512, 1 << 26  # images decoded at a time: this many, unless they are large
LARGE = 1 << 14  # bytes of a file from which a second thread pays; below, threads wait for Python's lock
SMALL, DAMAGED = "smaller than the crop", "damaged"


class BadImage(VbsError):
    """An image file that cannot be used, and the reason to count it under."""

    def __init__(self, message: str, *, hint: str = SKIP_HINT, reason: str = DAMAGED) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


@dataclass(frozen=True)
class ImageReading:
    """Settings for decoding image files into inputs."""

    size: int | None = None  # pixels of the shorter side, to which images are resized
    crop: int | None = None  # pixels of the square in the middle that is kept
    skip_bad: bool = False  # leave out what cannot be used
    other_size: str = "--size 64 resizes and crops them"  # hint for images of different sizes

    def shape(self, examples: Sequence[Example]) -> tuple[tuple[int, int, int], str]:
        """Shape of every input: a square, or that of the first image; and the path of that image."""
        side = self.crop or self.size
        if side:
            return (3, side, side), ""
        for example in examples:
            pixels = self._read(example)
            if not isinstance(pixels, BadImage):
                return (3, pixels.shape[0], pixels.shape[1]), str(example.path)
            if not self.skip_bad:
                raise pixels
        raise VbsError(f"none of {len(examples)} images can be read", hint="give PNG, JPEG, GIF or WebP files")

    def batches(
        self, examples: Sequence[Example], left_out: Counter[str], *, shape: tuple[int, ...], like: str = ""
    ) -> Iterator[Batch]:
        """Batches of all images, uint8 (b, 3, H, W), large ones decoded on all cores; `like` is one of this shape."""
        step = max(1, min(BATCH, BATCH_BYTES // int(np.prod(shape))))
        large = any(example.path.stat().st_size >= LARGE for example in examples[:BATCH])
        threads = (os.cpu_count() or 1) if large else 1
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(examples), step):
                some = examples[start : start + step]
                # Each thread gets a share of the files: handing over a small one by itself takes as long as reading it.
                shares = list(pool.map(self._read_all, (some[turn::threads] for turn in range(threads))))
                decoded = [shares[position % threads][position // threads] for position in range(len(some))]
                yield self._batch(some, decoded, left_out, shape, like)

    def _batch(
        self,
        examples: Sequence[Example],
        decoded: Sequence[np.ndarray | BadImage],
        left_out: Counter[str],
        shape: tuple[int, ...],
        like: str,
    ) -> Batch:
        kept, pixels = [], []
        for example, image in zip(examples, decoded, strict=True):
            if isinstance(image, BadImage):
                if not self.skip_bad:
                    raise image
                left_out[image.reason] += 1
                continue
            if image.shape[:2] != shape[1:]:
                first = f"{like} is {shape[2]} x {shape[1]}, " if like else ""
                raise VbsError(
                    f"images have different sizes: {first}{example.path} {image.shape[1]} x {image.shape[0]}",
                    hint=self.other_size,
                )
            kept.append(example)
            pixels.append(image)
        x = np.stack(pixels).transpose(0, 3, 1, 2) if pixels else np.empty((0, *shape), np.uint8)
        return Batch(x, [example.label for example in kept], [example.name for example in kept])

    def _read_all(self, examples: Sequence[Example]) -> list[np.ndarray | BadImage]:
        return [self._read(example) for example in examples]

    def _read(self, example: Example) -> np.ndarray | BadImage:
        try:
            return read_pixels(example.path, size=self.size, crop=self.crop)
        except BadImage as error:
            return error


def read_pixels(path: Path, *, size: int | None = None, crop: int | None = None) -> np.ndarray:
    """Read an image file as uint8 (H, W, 3): without transparency, and of an animation only the first image."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with path.open("rb") as file:
            data = io.BytesIO(file.read())
        with Image.open(data, formats=FORMATS) as image:
            if image.format != "JPEG" or "exif" in image.info:  # looking in vain costs a fifth of a small image's time
                ImageOps.exif_transpose(image, in_place=True)
            pixels = fitted(as_rgb(image), path, size, crop or size)
            return np.frombuffer(pixels.tobytes(), np.uint8).reshape(pixels.height, pixels.width, 3)
    except BadImage:
        raise
    except UnidentifiedImageError:
        raise BadImage(f"{path} is damaged: it is no PNG, JPEG, GIF or WebP image") from None
    except Exception as error:  # the parsers of Pillow raise whatever they stumble over
        raise BadImage(f"{path} is damaged: {str(error) or type(error).__name__}") from None


def as_rgb(image: Image) -> Image:
    """Image in RGB with eight bits per channel."""
    if image.mode == "RGB":
        image.load()
        return image
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow would clip at 255
        from PIL import Image as images

        grey = (np.asarray(image).astype(np.int64) + 128) // 257
        return images.fromarray(grey.clip(0, 255).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def fitted(image: Image, path: Path, size: int | None, crop: int | None) -> Image:
    """Image resized to `size` pixels on its shorter side, then cropped to the `crop` x `crop` pixels in the middle."""
    from PIL.Image import Resampling

    if size:
        short = min(image.size)
        width, height = (size * side // short for side in image.size)
        image = image.resize((width, height), Resampling.BILINEAR)
    if not crop:
        return image
    left, top = (image.width - crop) // 2, (image.height - crop) // 2
    if left < 0 or top < 0:
        found = f"{image.width} x {image.height}"
        raise BadImage(f"{path} is {found}, smaller than the crop of {crop} x {crop}", reason=SMALL)
    return image.crop((left, top, left + crop, top + crop))
