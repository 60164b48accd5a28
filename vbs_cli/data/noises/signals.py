"""Noises for all signals, by an example's own power or peak, and what those for sound and for radio share.

Power and peak are taken over all channels and samples of an example, so nothing here depends on how loud a recording
is. Outside its samples a signal counts as silent.
"""

from __future__ import annotations

import math

import torch
from scipy.fft import next_fast_len
from torch import Tensor

from vbs_cli.data.noise import WAVES, graded, noise
from vbs_cli.data.noises.paper import standard_normal

AMPLITUDES = tuple(10 ** (-decibels / 20) for decibels in (30, 20, 10, 5, 0))  # of what is added, beside the example
ORDER = 4  # of the Butterworth filters, which pass forwards and backwards
CUTOFFS = (0.5, 0.375, 0.25, 0.1875, 0.125)  # shares of the Nyquist frequency: 4, 3, 2, 1.5, 1 kHz at a rate of 16 kHz
CLIPPED = (0.5, 0.3, 0.2, 0.1, 0.05)  # shares of the peak
STEPS = tuple(2.0**-bits for bits in (5, 4, 3, 2, 1))  # shares of the peak


def root_mean_square(x: Tensor) -> Tensor:
    """Root of the mean square over all channels and samples: (B, C, L) -> (B, 1, 1)."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
    return norm / math.sqrt(x.shape[1] * x.shape[2])


def peak(x: Tensor) -> Tensor:
    """Largest absolute value over all channels and samples: (B, C, L) -> (B, 1, 1)."""
    return x.abs().amax((1, 2), keepdim=True)


def power_ratio(x: Tensor, y: Tensor) -> Tensor:
    """Factor (B, 1, 1) that gives each of `y` the power of its `x`, and 0 where `y` is silent."""
    return (root_mean_square(x) / root_mean_square(y)).nan_to_num(0.0, posinf=0.0)


def random_signs(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws of -1 or 1, one per example: (B, 1, 1)."""
    return torch.randint(0, 2, (shape[0], 1, 1), generator=rng).mul_(2).sub_(1).float()


def from_middle(length: int) -> Tensor:
    """Times of the samples, counted from the middle of the signal: (L,)."""
    return torch.arange(length, dtype=torch.float64) - (length - 1) / 2


@noise("snr", draw=standard_normal, family="noise", kinds=WAVES, most=1.0)
def noise_by_power(x: Tensor, eps: Tensor, level: float) -> Tensor:
    """Add white gaussian noise that is weaker than the example itself by 30, 20, 10, 5 and 0 dB."""
    ratio = graded(level, 0.0, *AMPLITUDES)
    return torch.addcmul(x, eps.to(x.dtype), root_mean_square(x), value=ratio)


def random_shift(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Number of examples to the partner in a mixture, from B/4 to 3B/4 and the same for the whole block: (B,).

    Splits are often sorted by class, so neighbours would be too much alike.
    """
    count = shape[0]
    least = max(1, math.ceil(count / 4))
    return torch.randint(least, max(least, 3 * count // 4) + 1, (1,), generator=rng).repeat(count)


@noise("mixture", draw=random_shift, family="mixture", kinds=WAVES, most=1.0)
def mixture(x: Tensor, shift: Tensor, level: float) -> Tensor:
    """Add another example of the same block, weaker than the example itself by 30, 20, 10, 5 and 0 dB.

    The partner is the one a drawn number of examples further on, cyclically. A block of one example is mixed with
    itself reversed in time.
    """
    partner = x.roll(-int(shift[0]), 0) if len(x) > 1 else x.flip(2)
    return torch.addcmul(x, partner, power_ratio(x, partner), value=graded(level, 0.0, *AMPLITUDES))


def warped(cutoff: float) -> float:
    """Analogue frequency to which the bilinear transform maps a cutoff, given as a share of the Nyquist frequency."""
    return math.tan(math.pi * cutoff / 2)


def butterworth(passed: Tensor, stopped: Tensor) -> Tensor:
    """Gain of a Butterworth filter applied forwards and backwards; the two are equal at its cutoff."""
    return 1 / (1 + (stopped / passed) ** (2 * ORDER))


def filtered(x: Tensor, frequency: float, *, high: bool = False) -> Tensor:
    """Keep what lies below (or above) an analogue frequency, without shifting it in time."""
    length = x.shape[2]
    # Slowest pole of order 4: after 24 / sin(cutoff) samples the response has fallen to 1e-4.
    ringing = math.ceil(12 * (frequency + 1 / frequency))
    size = next_fast_len(length + min(ringing, length), real=True)
    half = torch.arange(size // 2 + 1, dtype=torch.float64) * (math.pi / size)
    sides = half.sin() / frequency, half.cos()
    gain = butterworth(*sides) if high else butterworth(*reversed(sides))
    result: Tensor = torch.fft.irfft(torch.fft.rfft(x, size) * gain.to(x.dtype), size)
    return result[..., :length]


@noise("low-pass", family="filter", kinds=WAVES, most=1.0)
def low_pass(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Remove high frequencies by a zero-phase Butterworth filter, from 4 kHz on at severity 1 to 1 kHz at 5.

    These are for a rate of 16 kHz; for another rate they scale with it.
    """
    # At level 0 the cutoff is the Nyquist frequency, whose analogue frequency is infinite.
    return filtered(x, 1 / graded(level, 0.0, *(1 / warped(cutoff) for cutoff in CUTOFFS)))


@noise("clipping", family="level", kinds=WAVES, most=1.0)
def clipping(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Clip at .5, .3, .2, .1 and .05 of the example's peak."""
    bound = graded(level, 1.0, *CLIPPED) * peak(x)
    return torch.clamp(x, -bound, bound)


@noise("quantisation", family="level", kinds=WAVES, most=1.0)
def quantisation(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Round to multiples of a step, which is 1/32, 1/16, 1/8, 1/4 and 1/2 of the example's peak."""
    step = (graded(level, 0.0, *STEPS) * peak(x)).clamp(min=torch.finfo(x.dtype).tiny)  # of silence too
    return (x / step).round_().mul_(step)


def interpolated(x: Tensor, position: Tensor) -> Tensor:
    """Values between samples by Catmull-Rom cubics, silence outside: (B, C, L), (B or 1, 1, L) -> (B, C, L)."""
    length = x.shape[2]
    position = position.clamp(-2, length + 1)  # only silence is taken from there
    before = position.floor()
    u = (position - before).to(x.dtype)
    index = before.long() + 2  # of the sample before the one before, in what is padded
    padded = torch.nn.functional.pad(x, (3, 4))
    weights = (
        ((2 - u) * u - 1) * u / 2,
        ((3 * u - 5) * u * u + 2) / 2,
        ((4 - 3 * u) * u + 1) * u / 2,
        (u - 1) * u * u / 2,
    )
    result = torch.zeros_like(x)
    for tap, weight in enumerate(weights):
        result.addcmul_(padded.gather(2, (index + tap).expand(x.shape)), weight)
    return result
