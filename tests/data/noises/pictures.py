"""Pictures to distort, and the noises' ways of distorting them."""

import io
import tarfile
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from vbs_cli.data.noise import NOISES, SEVERITIES

COUNT = 12
NUMBERED = list(enumerate(SEVERITIES))
ODD = (27, 21)


@cache
def from_archive(path):
    """First images of the archive, in 256 levels: (COUNT, H, W, 3)."""
    found = []
    with tarfile.open(path, "r|xz") as archive:
        while len(found) < COUNT:
            member = archive.next()
            if member.isfile():
                found.append(np.asarray(Image.open(io.BytesIO(archive.extractfile(member).read())).convert("RGB")))
    return np.stack(found)


def smooth(height=32, width=32, count=COUNT, channels=3):
    """Smooth images with a little grain, in 256 levels: (N, H, W, C)."""
    rng = torch.Generator().manual_seed(1)
    coarse = torch.rand(count, channels, 5, 5, generator=rng)
    grain = torch.rand(count, channels, height, width, generator=rng)
    x = 0.85 * F.interpolate(coarse, (height, width), mode="bilinear") + 0.15 * grain
    return as_levels(x)


def as_tensor(levels, dtype=torch.float64):
    return torch.from_numpy(np.array(levels)).permute(0, 3, 1, 2).to(dtype) / 255


def as_levels(x):
    return (x * 255).round().byte().permute(0, 2, 3, 1).numpy()


def distorted(name, x, level, draw=None):
    noise = NOISES[name]
    return noise.apply(x, noise.draw(x.shape, torch.Generator().manual_seed(0)) if draw is None else draw, level)


def by_image(function, x):
    """What a function of one image (C, H, W) in numpy makes of each: (N, C, H, W)."""
    return np.stack([function(image) for image in x.numpy()])


def furthest(a, b):
    return float(np.abs(np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)).max())
