"""Noises for radio, whose two channels are the real and the imaginary part (I and Q) of a complex signal.

Frequencies are in cycles per sample and delays in samples.
"""

from __future__ import annotations

import math

import torch
from scipy.fft import next_fast_len
from torch import Tensor

from vbs_cli.data.noise import RADIO, graded, noise
from vbs_cli.data.noises.signals import from_middle, interpolated, random_signs

OFFSETS = (0.0002, 0.0005, 0.001, 0.002, 0.004)  # cycles per sample
WANDERS = (0.005, 0.01, 0.02, 0.04, 0.08)  # radians per root of a sample
MISMATCHES = (0.5, 1.0, 2.0, 3.0, 4.0)  # dB
SKEWS = (2, 5, 10, 15, 20)  # degrees
ECHOES = 3
LONGEST = 16  # samples that an echo is late
ECHO_POWERS = (0.02, 0.05, 0.15, 0.4, 1.0)  # of all echoes, beside the direct path
RATES = (0.001, 0.002, 0.005, 0.01, 0.02)


def rotated(x: Tensor, angle: Tensor) -> Tensor:
    """Turn I and Q by an angle in radians: (B, 2, L), (B, 1, L or 1) -> (B, 2, L)."""
    angle = angle.to(x.dtype)
    c, s = angle.cos(), angle.sin()
    i, q = x.chunk(2, 1)
    return torch.cat((i * c - q * s, i * s + q * c), 1)


# After a whole turn, samples are as near to the clean ones as before it.
@noise("carrier-offset", draw=random_signs, family="RF", kinds=[RADIO], most=1.0, monotone=False)
def carrier_offset(x: Tensor, sign: Tensor, level: float) -> Tensor:
    """Shift up or down by .0002, .0005, .001, .002 and .004 cycles per sample; the phase in the middle stays."""
    turned = 2 * math.pi * graded(level, 0.0, *OFFSETS) * from_middle(x.shape[2])
    return rotated(x, sign * turned)


@noise("phase-rotation", draw=random_signs, family="RF", kinds=[RADIO], most=1.0)
def phase_rotation(x: Tensor, sign: Tensor, level: float) -> Tensor:
    """Turn all samples forwards or backwards by the level's share of half a turn."""
    return rotated(x, sign * (math.pi * level))


def random_walk(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws of a random walk whose steps are from N(0, 1): (B, 1, L)."""
    return torch.randn((shape[0], 1, shape[2]), generator=rng).cumsum(2)


@noise("phase-noise", draw=random_walk, family="RF", kinds=[RADIO], most=1.0)
def phase_noise(x: Tensor, walk: Tensor, level: float) -> Tensor:
    """Let the phase walk at random, by .005, .01, .02, .04 and .08 radians per sample."""
    return rotated(x, walk * graded(level, 0.0, *WANDERS))


def two_signs(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws of -1 or 1, two per example: (B, 2, 1)."""
    return torch.cat((random_signs(shape, rng), random_signs(shape, rng)), 1)


@noise("iq-imbalance", draw=two_signs, family="RF", kinds=[RADIO], most=1.0)
def iq_imbalance(x: Tensor, signs: Tensor, level: float) -> Tensor:
    """Receive by mixers that differ by .5, 1, 2, 3 and 4 dB and are 2, 5, 10, 15 and 20 degrees off a right angle."""
    louder, wider = signs.to(x.dtype).chunk(2, 1)
    ratio = 10 ** (louder * (graded(level, 0.0, *MISMATCHES) / 40))  # half of it up, half of it down
    skew = wider * (math.radians(graded(level, 0.0, *SKEWS)) / 2)
    i, q = x.chunk(2, 1)
    c, s = skew.cos(), skew.sin()
    return torch.cat(((i * c - q * s) * ratio, (q * c - i * s) / ratio), 1)


def random_echoes(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws for three echoes: a place in U(0, 1), then both parts of a gain from N(0, 1): (B, 3, 3)."""
    place = torch.rand((shape[0], 1, ECHOES), generator=rng)
    return torch.cat((place, torch.randn((shape[0], 2, ECHOES), generator=rng)), 1)


def path_response(drawn: Tensor, power: float, dtype: torch.dtype) -> Tensor:
    """Complex response of the direct path, which is 1, and of the echoes: (B, taps)."""
    delay = 1 + (drawn[:, 0] * LONGEST).long().clamp_(max=LONGEST - 1)
    gains = torch.complex(*drawn[:, 1:].to(dtype).unbind(1)) * math.sqrt(power / (2 * ECHOES))
    response = torch.zeros((len(drawn), 1 + LONGEST), dtype=gains.dtype)
    response[:, 0] = 1
    return response.scatter_add_(1, delay, gains)


@noise("multipath", draw=random_echoes, family="filter", kinds=[RADIO], most=1.0)
def multipath(x: Tensor, drawn: Tensor, level: float) -> Tensor:
    """Add three echoes up to 16 samples late, whose power beside the direct path is .02, .05, .15, .4 and 1 in all.

    That is the mean over draws, as the gains are those of Rayleigh fading.
    """
    length = x.shape[2]
    size = next_fast_len(length + LONGEST)
    response = path_response(drawn, graded(level, 0.0, *ECHO_POWERS), x.dtype)
    spectrum = torch.fft.fft(torch.complex(*x.unbind(1)), size) * torch.fft.fft(response, size)
    return torch.view_as_real(torch.fft.ifft(spectrum)[:, :length]).movedim(2, 1)


def sign_and_delay(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws of -1 or 1 and of a delay from U(-1/2, 1/2), one of each per example: (B, 2, 1)."""
    return torch.cat((random_signs(shape, rng), torch.rand((shape[0], 1, 1), generator=rng).sub_(0.5)), 1)


# Samples moved by more than a period of what is sent are as far from the clean ones as they can get.
@noise("sampling-offset", draw=sign_and_delay, family="time", kinds=[RADIO], most=1.0, monotone=False)
def sampling_offset(x: Tensor, drawn: Tensor, level: float) -> Tensor:
    """Sample too fast or too slowly by .1, .2, .5, 1 and 2 %, and late or early by up to half a sample at level 1."""
    sign, delay = drawn.double().chunk(2, 1)
    time = from_middle(x.shape[2])
    return interpolated(x, time * (1 + sign * graded(level, 0.0, *RATES)) - time[0] - delay * level)
