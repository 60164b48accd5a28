"""Test-time augmentation: the conventional network on several slightly changed copies of each input."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import pool
from vbs_cli.seeding import generator
from vbs_cli.views.base import OF_PREDICTIONS, VIEWS, Options, Place, Reader, View
from vbs_cli.views.chunks import within_memory
from vbs_cli.views.fast import Fast
from vbs_cli.views.patches import patches_of

# At strength 1: shifts as a share of the size, gain of sound in decibels, rotation of radio signals in radians.
SHIFT = 1 / 8
GAIN = 6.0
PHASE = math.pi


@VIEWS.register("augmentations")
@dataclass(frozen=True)
class Augmentations(View):
    """Predictions on the input itself and on `count - 1` changed copies, the same for every network and noise level.

    Images are mirrored and shifted; signals are shifted in time, sound is louder or softer (one channel), radio is
    rotated in phase (two channels). At strength 0 every copy is the input itself.
    """

    parts: ClassVar[str] = "augmentations"
    names: ClassVar = {"mean": "tta", "vbs": "vbs-tta"}
    defaults: ClassVar[Options] = OF_PREDICTIONS
    not_one_pass: ClassVar[str] = "it needs a pass for every changed input, and a file makes one"

    count: int = 10
    strength: float = 1.0

    def __post_init__(self) -> None:
        if self.count < 2:
            raise InvalidInput(f"count of augmentations is {self.count}", hint="a spread needs at least two")
        if not 0 <= self.strength <= 1:
            raise InvalidInput(f"strength of augmentations is {self.strength}", hint="it must be between 0 and 1")

    @property
    def passes(self) -> int:
        return self.count

    def grid(self, patches: torch.Size) -> tuple[int, ...]:
        return (self.count,)

    def reader(self, ready: Fast, *, device: torch.device | str) -> Reader:
        def read(x: Tensor, place: Place) -> Tensor:
            run = partial(patches_of, ready.net, device=device)
            # One copy is in memory at a time.
            copies = itertools.chain([x], (self.changed(x, place, copy) for copy in range(1, self.count)))
            return torch.stack([pool(within_memory(partial(run, copy), ready.chunk)) for copy in copies], 2)

        return read

    def changed(self, x: Tensor, place: Place, copy: int) -> Tensor:
        """Changed copy of each input, random by split, block and number of the copy: (N, C, *size) -> the same."""
        rng = generator("augmentation", place.split, place.block, copy)
        return (change_image if x.ndim == 4 else change_signal)(x, self.strength, rng)


def change_image(x: Tensor, strength: float, rng: torch.Generator) -> Tensor:
    """Mirror each image at random and shift it, its border repeated by reflection: (N, C, H, W) -> the same."""
    n, _, height, width = x.shape
    rows, columns = (shifted(n, size, strength, rng) for size in (height, width))
    mirrored = torch.rand(n, generator=rng) < 0.5 * (strength > 0)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    reach = [round(SHIFT * strength * size) for size in (height, width)]
    padded = F.pad(x, (reach[1], reach[1], reach[0], reach[0]), mode="reflect")
    example = torch.arange(n)[:, None, None]
    return padded[example, :, rows[:, :, None], columns[:, None, :]].movedim(3, 1)  # channels last in memory


def shifted(n: int, size: int, strength: float, rng: torch.Generator) -> Tensor:
    """Indices of `size` places along a padded axis, shifted at random for each of n examples: (n, size)."""
    reach = round(SHIFT * strength * size)
    start = torch.randint(0, 2 * reach + 1, (n, 1), generator=rng)
    return start + torch.arange(size)


def change_signal(x: Tensor, strength: float, rng: torch.Generator) -> Tensor:
    """Shift each signal in time, cyclically; change the gain of sound or the phase of radio: (N, C, L) -> the same."""
    n, channels, length = x.shape
    reach = round(SHIFT * strength * length)
    start = torch.randint(-reach, reach + 1, (n, 1), generator=rng)
    places = (start + torch.arange(length)) % length
    moved = x.gather(2, places[:, None].expand(-1, channels, -1))
    draw = strength * (2 * torch.rand(n, generator=rng) - 1)
    if channels == 1:
        return moved * (10 ** (GAIN * draw / 20))[:, None, None]
    return rotated(moved, PHASE * draw) if channels == 2 else moved


def rotated(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate radio signals (N, 2, L) of in-phase and quadrature samples, each by its angle (N,)."""
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    i, q = x[:, 0], x[:, 1]
    return torch.stack([cos * i - sin * q, sin * i + cos * q], 1)
