"""Loss of JPEG files, as Pillow's encoder and decoder (libjpeg's) leave it at their usual settings.

Values are whole numbers and so are all constants, scaled, so that sums are exact in any order and results are
libjpeg's to the last bit. Products of colours fit in single precision, those of the cosine transform in double.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from vbs_cli.data.noise import PICTURES, graded, noise

QUALITIES = (80.0, 65.0, 58.0, 50.0, 40.0)  # at the severities 1 to 5 of CIFAR-10-C (Hendrycks and Dietterich 2019)
BLOCK = 8
COLOUR_UNIT = 2.0**16  # of the constants of the colour transform
UNIT = 2.0**13  # of the constants of the cosine transform
FINER = 4.0  # what a value counts between the two passes of the cosine transform
AWAY = 1 + 2.0**-40  # brings halves beyond a half, and no other quotient of whole numbers here
# The multipliers that Loeffler, Ligtenberg and Moschytz (1989) have for the cosine transform of 8 points.
EVEN_BOTH, EVEN_LOW, EVEN_HIGH = 0.541196100, 0.765366865, -1.847759065
ODD_ALL = 1.175875602
ODD_EACH = (1.501321110, 3.072711026, 2.053119869, 0.298631336)  # of the frequencies 1, 3, 5 and 7
ODD_PAIRS = {(0, 3): -0.899976223, (1, 2): -2.562915447, (1, 3): -1.961570560, (0, 2): -0.390180644}
# Of red, green and blue, and of the two chroma channels, with the digits that libjpeg rounds.
TO_LUMA = ((0.299, 0.587, 0.114),)
TO_CHROMA = ((-0.16874, -0.33126, 0.5), (0.5, -0.41869, -0.08131))
FROM_CHROMA = ((0.0, 1.402), (-0.34414, -0.71414), (1.772, 0.0))
# Tables K.1 and K.2 of ITU-T T.81, for quality 50.
LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
)


@noise("jpeg", family="blur", kinds=PICTURES, most=1.0)
def jpeg(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Write images as JPEG files of a quality that falls with the level, and read them; without colour, by channel."""
    quality = graded(level, 100.0, *QUALITIES)
    whole = x.float().mul(255).round_().clamp_(0, 255)
    decoded = rgb_coded(whole, quality) if x.shape[1] == 3 else coded(whole, steps(quality, LUMINANCE))
    return decoded.to(x.dtype).div_(255)


def rgb_coded(rgb: Tensor, quality: float) -> Tensor:
    """Colour images after JPEG, with chroma of half the resolution: (B, 3, H, W) in 0..255 -> the same."""
    height, width = rgb.shape[2:]
    luma, chroma = to_ycc(rgb)
    luma = coded(luma, steps(quality, LUMINANCE))
    chroma = upsampled(coded(downsampled(chroma), steps(quality, CHROMINANCE)), height, width)
    return to_rgb(luma, chroma)


def to_ycc(rgb: Tensor) -> tuple[Tensor, Tensor]:
    """Luma (B, 1, H, W) and the two chroma channels (B, 2, H, W) of JFIF, in whole numbers 0..255."""
    # A little less than one half is added to chroma, as the highest would be 256.
    middle = 128.5 - 1 / COLOUR_UNIT
    return weighed(rgb, TO_LUMA, (0.5,)), weighed(rgb, TO_CHROMA, (middle, middle))


def to_rgb(luma: Tensor, chroma: Tensor) -> Tensor:
    """Colours (B, 3, H, W) from luma (B, 1, H, W) and chroma (B, 2, H, W), in whole numbers 0..255."""
    return weighed(chroma.sub(128), FROM_CHROMA, (0.5, 0.5, 0.5)).add_(luma).clamp_(0, 255)


def weighed(channels: Tensor, weights: tuple[tuple[float, ...], ...], added: tuple[float, ...]) -> Tensor:
    """Weighted sums of the channels, with a term for each, rounded down: (B, C, H, W), (D, C), (D,) -> (B, D, H, W)."""
    whole = [[fixed(weight, COLOUR_UNIT) for weight in row] for row in weights]
    matrix = torch.tensor(whole).div(COLOUR_UNIT).expand(len(channels), -1, -1)
    terms = torch.tensor(added).unsqueeze(1)
    return torch.baddbmm(terms, matrix, channels.flatten(2)).floor_().view(-1, len(added), *channels.shape[2:])


def downsampled(chroma: Tensor) -> Tensor:
    """Means over 2 x 2 pixels, rounded: (B, C, H, W) -> (B, C, H / 2, W / 2), the width up to a whole block."""
    rows, columns = halving(chroma.shape[2], 2), halving(chroma.shape[3], 2 * BLOCK)
    # Halves go down and up in turn.
    return (rows @ (chroma @ columns.T)).add_(alternating(len(columns), 0.25, 0.5)).floor_()


def upsampled(chroma: Tensor, height: int, width: int) -> Tensor:
    """Chroma of twice the resolution, cut to a size: 3 parts of the pixel and 1 of its neighbour along either axis."""
    rows, columns = doubling(height), doubling(width)
    chroma = chroma[..., : columns.shape[1]]
    return (rows @ (chroma @ columns.T)).add_(alternating(width, 8 / 16, 7 / 16)).floor_()


def alternating(size: int, even: float, odd: float) -> Tensor:
    return torch.tensor([even, odd]).repeat(size // 2 + 1)[:size]


@lru_cache(maxsize=8)
def halving(size: int, unit: int) -> Tensor:
    """Matrix of means over pairs of pixels of an axis that goes on as its last pixel to a multiple: (m, n)."""
    with torch.inference_mode(False):
        pixels = F.one_hot(torch.arange(size + -size % unit).clamp(max=size - 1), size).float()
        return (pixels[0::2] + pixels[1::2]) / 2


@lru_cache(maxsize=8)
def doubling(size: int) -> Tensor:
    """Matrix of pixels along an axis from half as many, by 3 parts of the nearest and 1 of the next: (n, n / 2)."""
    half, place = -(-size // 2), torch.arange(size)
    nearest = place // 2
    following = (nearest + 2 * (place % 2) - 1).clamp(0, half - 1)
    with torch.inference_mode(False):
        return (3 * F.one_hot(nearest, half) + F.one_hot(following, half)).float() / 4


def padded(x: Tensor, unit: int, *, axis: int) -> Tensor:
    """Images with a side that is a whole multiple of a number of pixels, by repeating the last row or column."""
    size = x.shape[axis]
    return torch.cat([x, *[x.narrow(axis, size - 1, 1)] * (-size % unit)], axis) if size % unit else x


def coded(x: Tensor, steps: Tensor) -> Tensor:
    """Channels after transform, quantisation and back: (B, C, H, W) of whole numbers 0..255, (8, 1, 8) -> the same."""
    whole = padded(padded(x, BLOCK, axis=2), BLOCK, axis=3)
    matrix = cosines()
    found = down(across(whole.double().sub_(128), matrix, UNIT / FINER), matrix, UNIT * FINER)
    by_block = found.view(-1, BLOCK, whole.shape[3] // BLOCK, BLOCK)
    # Results count 8 times. Halves go away from zero.
    by_block.mul_(AWAY / (8 * steps)).round_().mul_(steps)
    values = across(down(found, matrix.T, UNIT / FINER), matrix.T, BLOCK * UNIT * FINER).add_(128).clamp_(0, 255)
    return values.to(x.dtype)[:, :, : x.shape[2], : x.shape[3]]


def across(x: Tensor, matrix: Tensor, unit: float) -> Tensor:
    """Product of each 8 values of a row with a matrix, in multiples of `unit`, rounded: (B, C, H, W) -> the same."""
    return (x.reshape(-1, BLOCK) @ (matrix.T / unit)).add_(0.5).floor_().view(x.shape)


def down(x: Tensor, matrix: Tensor, unit: float) -> Tensor:
    """Product of a matrix with each 8 values of a column, in multiples of `unit`, rounded: (B, C, H, W) -> the same."""
    return ((matrix / unit) @ x.view(-1, BLOCK, x.shape[3])).add_(0.5).floor_().view(x.shape)


@lru_cache(maxsize=1)
def cosines() -> Tensor:
    """Cosine transform of 8 points, sqrt(8) times an orthonormal one, in units of 2^-13: frequency by place (8, 8).

    Libjpeg rounds the multipliers of the fast transform, so that constants which are equal come out a little apart.
    """
    one, both, low, high = (fixed(number, UNIT) for number in (1.0, EVEN_BOTH, EVEN_LOW, EVEN_HIGH))
    low, high = both + low, both + high
    # Of the sums (even) and the differences (odd) of the first and the last place, the second and the last but one, ...
    even = [[one, one, one, one], [low, both, -both, -low], [one, -one, -one, one], [both, high, -high, -both]]
    odd = [[fixed(ODD_ALL, UNIT) + fixed(ODD_EACH[i], UNIT) * (i == j) for j in range(4)] for i in range(4)]
    for pair, multiplier in ODD_PAIRS.items():
        for i, j in product(pair, pair):
            odd[i][j] += fixed(multiplier, UNIT)
    with torch.inference_mode(False):
        sums, differences = (torch.tensor(half, dtype=torch.float64) for half in (even, odd))
        halves = torch.cat([sums, sums.flip(1)], 1), torch.cat([differences, -differences.flip(1)], 1)
        return torch.stack(halves, 1).flatten(0, 1)


def fixed(number: float, unit: float) -> int:
    """Number as a whole one of parts of `1 / unit`."""
    return round(number * unit)


@lru_cache(maxsize=64)  # two for each level of a sweep
def steps(quality: float, at_50: tuple[tuple[int, ...], ...]) -> Tensor:
    """Steps of quantisation at a quality, as libjpeg scales them: (8, 1, 8)."""
    scale = 5000 / quality if quality < 50 else 200 - 2 * quality
    with torch.inference_mode(False):
        table = torch.tensor(at_50, dtype=torch.float64).unsqueeze(1)
        return table.mul_(scale).add_(50).div_(100).floor_().clamp_(1, 255)
