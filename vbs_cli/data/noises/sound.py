"""Noises for sound: rooms, telephones and recorders.

Times and frequencies are in samples and meant for RATE; at another rate they scale with it.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from scipy.fft import next_fast_len
from torch import Tensor

from vbs_cli.data.noise import SOUND, graded, noise
from vbs_cli.data.noises.signals import filtered, from_middle, interpolated, peak, power_ratio, random_signs, warped

RATE = 16_000  # Hz
CUTOFFS = (0.0125, 0.025, 0.05, 0.1, 0.2)  # shares of the Nyquist frequency: 100, 200, 400, 800, 1600 Hz
DECIBELS = (6, 12, 18, 24, 30)
SPEEDS = (0.05, 0.1, 0.15, 0.2, 0.3)
STRETCHES = 4
SILENT = (0.05, 0.1, 0.2, 0.3, 0.5)
RT60 = (0.1, 0.2, 0.4, 0.7, 1.0)  # seconds
BALANCED = 0.4  # RT60 in seconds at which the tail is as strong as the direct sound
MU = 255  # of ITU-T G.711
BITS = (8, 7, 6, 5, 4)


@noise("high-pass", family="filter", kinds=[SOUND], most=1.0)
def high_pass(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Remove low frequencies by a zero-phase Butterworth filter, up to 100, 200, 400, 800 and 1,600 Hz."""
    return filtered(x, graded(level, 0.0, *map(warped, CUTOFFS)), high=True)


@noise("gain", draw=random_signs, family="level", kinds=[SOUND], most=1.0)
def gain(x: Tensor, sign: Tensor, level: float) -> Tensor:
    """Amplify or attenuate by 6, 12, 18, 24 and 30 dB."""
    return x * 10 ** (sign.to(x.dtype) * (graded(level, 0, *DECIBELS) / 20))


# Once tones are moved by more than a period, inputs are as far from the clean ones as others of their power.
@noise("speed", draw=random_signs, family="time", kinds=[SOUND], most=1.0, monotone=False)
def speed(x: Tensor, sign: Tensor, level: float) -> Tensor:
    """Play faster or slower by 5, 10, 15, 20 and 30 %, pitch and all, about the middle and with the same length."""
    change = graded(level, 0.0, *SPEEDS)
    time = from_middle(x.shape[2])
    result = torch.empty_like(x)
    for direction in (-1, 1):
        rows = sign.flatten() == direction
        # All examples of one direction share their positions, which are costly to compute for each.
        position = time * (1 + direction * change) - time[0]
        result[rows] = interpolated(x[rows], position.view(1, 1, -1))
    return result


def uniform_places(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(-1, 1), one per example and stretch: (B, 1, 4)."""
    return torch.rand((shape[0], 1, STRETCHES), generator=rng).mul_(2).sub_(1)


@noise("dropouts", draw=uniform_places, family="time", kinds=[SOUND], most=1.0)
def dropouts(x: Tensor, place: Tensor, level: float) -> Tensor:
    """Silence four stretches, .05, .1, .2, .3 and .5 of the example in all, which grow around drawn places.

    Each has a quarter of the example for itself and never leaves it, so they do not overlap.
    """
    length = x.shape[2]
    ends = [length * quarter // STRETCHES for quarter in range(STRETCHES + 1)]
    time = torch.arange(length, dtype=x.dtype) + 0.5
    result = torch.empty_like(x)
    for quarter, (start, end) in enumerate(pairwise(ends)):
        room = (end - start) / 2
        centre = start + room * (1 + (1 - max(SILENT)) * place[..., quarter, None].to(x.dtype))
        kept = (time[start:end] - centre).abs_() >= room * graded(level, 0.0, *SILENT)
        result[..., start:end] = x[..., start:end] * kept
    return result


def random_tail(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from N(0, 1) for the taps of a response, as many as are heard in the example: (B, 1, L or less)."""
    return torch.randn((shape[0], 1, min(shape[2], round(max(RT60) * RATE))), generator=rng)


def room_response(drawn: Tensor, seconds: float, dtype: torch.dtype) -> Tensor:
    """Response of a room by its RT60: the direct sound, then noise that decays exponentially: (B, 1, taps).

    The tail's expected energy beside the direct sound is RT60 / 0.4 s: in a room of given size and at a given distance
    it grows in proportion to RT60, and at 0.4 s a talker 0.9 m away in 100 cubic metres is at the critical distance,
    0.057 sqrt(V / RT60) (Kuttruff, Room Acoustics).
    """
    samples = seconds * RATE
    decay = 10 ** (-6 / samples)  # of energy, per sample
    taps = min(drawn.shape[2], math.ceil(samples))  # by then it has fallen by 60 dB
    envelope = decay ** torch.arange(taps, dtype=torch.float64) * (1 - decay) * (seconds / BALANCED)
    tail = drawn[..., :taps].to(dtype) * envelope.sqrt_().to(dtype)
    return torch.nn.functional.pad(tail, (1, 0), value=1.0)


@noise("reverberation", draw=random_tail, family="filter", kinds=[SOUND], most=1.0)
def reverberation(x: Tensor, tail: Tensor, level: float) -> Tensor:
    """Let a room resound whose RT60 is .1, .2, .4, .7 and 1 s, and keep the example's power."""
    response = room_response(tail, graded(level, 0.0, *RT60), x.dtype)
    length = x.shape[2]
    size = next_fast_len(length + response.shape[2] - 1, real=True)
    heard: Tensor = torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(response, size), size)
    heard = heard[..., :length]
    return heard * power_ratio(x, heard)


def resampled(x: Tensor, length: int) -> Tensor:
    """Samples of the same periodic band-limited function, fewer or more: (B, C, L) -> (B, C, length)."""
    least = min(x.shape[2], length)
    spectrum = torch.fft.rfft(x)[..., : least // 2 + 1] * (length / x.shape[2])
    if least % 2 == 0 and length != x.shape[2]:
        # At the shorter one's Nyquist frequency a pair of bins falls into one.
        spectrum[..., -1] *= 2.0 if length == least else 0.5
    result: Tensor = torch.fft.irfft(spectrum, length)
    return result


def companded(x: Tensor, bits: float) -> Tensor:
    """Values in [-1, 1] as they are after coding by mu-law in so many bits and decoding."""
    half = (round(2**bits) - 1) / 2
    compressed = (x.abs() * MU).log1p().copysign(x) * (half / math.log1p(MU))
    coded = (compressed + half).round() - half
    return (coded.abs() * (math.log1p(MU) / half)).expm1().copysign(coded) / MU


@noise("telephone", family="filter", kinds=[SOUND], most=1.0)
def telephone(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Send through a telephone: half the rate, and mu-law of 8, 7, 6, 5 and 4 bits whose range is the peak.

    Half the rate is part of every level.
    """
    length = x.shape[2]
    narrow = resampled(x, (length + 1) // 2)
    loudest = peak(narrow)
    coded = companded(narrow / loudest.clamp(min=torch.finfo(x.dtype).tiny), graded(level, 16, *BITS))
    return resampled(coded * loudest, length)
