"""Simulated radio fingerprints: transmitters that send random payloads and differ by their hardware alone.

The air interface is that of a narrow-band telemetry radio at 2.45 GHz: 31,250 symbols a second, QPSK or
16-QAM, root raised cosine pulses, received at 16 samples a symbol. A window passes, in this order, pulse
shaping, IQ modulator and turn-on transient, oscillator, power amplifier, multipath, and the receiver with an
oscillator and noise of its own.

The carrier offset matters most: a signal network of width 32, trained on 6,000 windows for 8 epochs, gets 9 of
10 windows right, and 1 of 10 if all carriers are alike. The symbols are slow for its sake: at 16 samples a
symbol, the 225 samples that a patch sees hold few enough of them for the carrier to show.

Shapes: B windows, N = 2080 samples. Signals are complex (B, N); a device's values are (B, 1) once looked up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from vbs_cli.seeding import generator, threads

SAMPLES = 2080

CARRIER = 2.45e9  # Hz
SAMPLE_RATE = 5e5  # Hz
OVERSAMPLING = 16  # samples a symbol: a window holds 130 symbols
ROLLOFF = 0.35

# Channel and receiver, drawn anew for every window.
DELAY_SPREAD = 1e-6  # seconds, rms: COST 207, typical urban
ECHOES = 3  # one a sample; the next would be 35 dB down
RICE = 2.0  # power of the direct path over that scattered around it: the sender is mostly in sight
RECEIVER_PPM = 0.9  # std, a TCXO: senders are about 4 ppm apart, so that one may look like another
SNR_DB = (15.0, 30.0)  # a good place to record, so that noise added later is a shift
GAIN_DB = (-10.0, 10.0)  # what the automatic gain control leaves


@dataclass(frozen=True)
class Transmitters:
    """Hardware of the devices; each field (classes,)."""

    gain_imbalance: Tensor  # of Q against I, dB
    phase_imbalance: Tensor  # of Q from a right angle to I, radians
    leakage_i: Tensor  # DC offset of the mixer, relative to the signal's rms amplitude
    leakage_q: Tensor
    carrier_offset: Tensor  # ppm of the carrier
    clock_offset: Tensor  # ppm of the sample rate
    linewidth: Tensor  # of the oscillator's phase noise, Hz
    saturation: Tensor  # amplitude at which the amplifier limits, relative to the signal's rms amplitude
    phase_conversion: Tensor  # AM/PM: radians that the amplifier turns at its saturation amplitude
    transient_depth: Tensor  # share of the amplitude missing at turn-on
    transient_turn: Tensor  # radians that the oscillator is off at turn-on
    transient_time: Tensor  # time constant, samples

    def of(self, labels: Tensor) -> Transmitters:
        """Devices of a batch of windows: (B,) -> fields (B, 1)."""
        return Transmitters(*(getattr(self, field.name)[labels, None] for field in fields(self)))


def make_transmitters(classes: int, seed: int) -> Transmitters:
    """Devices that depend on `classes` and `seed` alone.

    Every property is stratified (a Latin hypercube): its range is cut into `classes` parts, and each device
    has a place near the middle of a part of its own. Independent draws would let two devices be twins by
    accident, and make one seed's devices much harder to tell apart than another's.
    """
    rng = generator("radio-sim", seed, "transmitters")

    def between(low: float, high: float) -> Tensor:
        place = 0.25 + 0.5 * torch.rand(classes, generator=rng)
        return low + (high - low) * (torch.randperm(classes, generator=rng) + place) / classes

    return Transmitters(
        gain_imbalance=between(-1.0, 1.0),  # direct-conversion mixers without calibration: about 1 dB
        phase_imbalance=between(-0.09, 0.09),  # and 5 degrees
        leakage_i=between(-0.12, 0.12),  # 802.11 allows a leakage of -15 dBc, an amplitude of 0.18
        leakage_q=between(-0.12, 0.12),
        carrier_offset=between(-40.0, 40.0),  # the tolerance of 802.15.4
        clock_offset=between(-40.0, 40.0),  # the same, from a crystal of its own
        linewidth=between(10.0, 200.0),  # integrated oscillators
        saturation=between(1.2, 2.4),  # 1.6 to 7.6 dB above the mean power: cheap amplifiers run close to it
        phase_conversion=between(-0.3, 0.3),  # up to 17 degrees
        transient_depth=between(0.3, 1.0),
        transient_turn=between(-1.5, 1.5),
        transient_time=between(20.0, 70.0),  # 40 to 140 us, a synthesiser's settling; 0.1 % is left after 500
    )


def simulate(labels: Tensor, devices: Transmitters, rng: torch.Generator) -> Tensor:
    """Simulate one window of each labelled device: (B,) int64 -> (B, 2, 2080) float32, I and Q."""
    device = devices.of(labels)
    with threads(1):
        signal = shape_pulses(draw_symbols(len(labels), rng), device.clock_offset, rng)
        signal = turn_on(modulate(signal, device), device)
        signal = amplify(oscillate(signal, device, rng), device)
        signal = receive(scatter(signal, rng), rng)
        return torch.view_as_real(signal).movedim(-1, 1).contiguous()


def batches(
    split: str, count: int, *, seed: int, classes: int = 20, batch: int = 500
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of x (b, 2, 2080) and y (b,), with classes balanced to within one and shuffled.

    The same arguments give the same bits. The devices are the same in all splits of a seed; the i-th batch
    draws its windows from a generator named by `seed`, `split` and i.
    """
    devices = make_transmitters(classes, seed)
    shuffled = torch.randperm(count, generator=generator("radio-sim", seed, split, "labels"))
    for index, labels in enumerate(torch.split(shuffled % classes, batch)):
        yield simulate(labels, devices, generator("radio-sim", seed, split, index)), labels


def draw_symbols(count: int, rng: torch.Generator) -> Tensor:
    """Random payloads of unit mean power, each all QPSK or all 16-QAM: complex (count, 130)."""
    levels = 2.0 * torch.randint(4, (count, SAMPLES // OVERSAMPLING, 2), generator=rng) - 3.0
    dense = torch.rand(count, 1, 1, generator=rng) < 0.5
    return torch.view_as_complex(torch.where(dense, levels / math.sqrt(10), levels.sign() / math.sqrt(2)))


def shape_pulses(symbols: Tensor, clock_offset: Tensor, rng: torch.Generator) -> Tensor:
    """Root raised cosine pulses at a random timing, sampled by the device's clock: (B, 130) -> (B, N).

    Shaped in the frequency domain, hence periodic: the last symbol's tail reaches into the first, which does
    not show as all are random. A clock 40 ppm off drifts by 0.04 samples between the middle of a window and
    its ends, so one term of the Taylor series is enough to resample it.
    """
    frequency = torch.fft.fftfreq(SAMPLES)
    beyond = (frequency.abs() * OVERSAMPLING - (1 - ROLLOFF) / 2) * math.pi / (2 * ROLLOFF)
    pulse = OVERSAMPLING * beyond.clamp(0, math.pi / 2).cos()
    timing = OVERSAMPLING * torch.rand(len(symbols), 1, generator=rng)
    delay = phasor(-2 * math.pi * frequency * timing)
    spectrum = torch.fft.fft(symbols).repeat(1, OVERSAMPLING) * pulse * delay
    drift = 1e-6 * clock_offset * (torch.arange(SAMPLES) - SAMPLES / 2)
    signal: Tensor = torch.fft.ifft(spectrum)
    slope: Tensor = torch.fft.ifft(spectrum * (2j * math.pi * frequency))
    return signal + drift * slope


def modulate(signal: Tensor, device: Transmitters) -> Tensor:
    """IQ gain and phase imbalance, split evenly over both branches, and leakage of the carrier."""
    ratio = 10 ** (device.gain_imbalance / 40)
    half = device.phase_imbalance / 2
    in_phase, quadrature = signal.real / ratio, signal.imag * ratio
    return torch.complex(
        in_phase * half.cos() - quadrature * half.sin() + device.leakage_i,
        quadrature * half.cos() - in_phase * half.sin() + device.leakage_q,
    )


def turn_on(signal: Tensor, device: Transmitters) -> Tensor:
    """Transient of a device that starts to send at the first sample."""
    left = (-torch.arange(SAMPLES) / device.transient_time).exp()
    return signal * (1 - device.transient_depth * left) * phasor(device.transient_turn * left)


def oscillate(signal: Tensor, device: Transmitters, rng: torch.Generator) -> Tensor:
    """The sender's oscillator: carrier frequency offset, and phase noise as a random walk."""
    steps = torch.randn(signal.shape, generator=rng)
    noise = (steps * (2 * math.pi * device.linewidth / SAMPLE_RATE).sqrt()).cumsum(-1)
    return signal * phasor(noise + turns(device.carrier_offset))


def amplify(signal: Tensor, device: Transmitters) -> Tensor:
    """Rapp's amplifier of smoothness 2, its phase turning with the power."""
    power = (signal.real.square() + signal.imag.square()) / device.saturation.square()
    gain = (1 + power.square()).sqrt().sqrt().reciprocal()
    return signal * gain * phasor(2 * device.phase_conversion * power / (1 + power))


def scatter(signal: Tensor, rng: torch.Generator) -> Tensor:
    """A random multipath channel of unit energy: a Rician first tap and Rayleigh echoes that decay."""
    taps = torch.randn(len(signal), 1 + ECHOES, dtype=signal.dtype, generator=rng)
    direct = phasor(2 * math.pi * torch.rand(len(signal), generator=rng))
    taps[:, 0] += math.sqrt(RICE) * direct
    taps = taps * (-torch.arange(1 + ECHOES) / (2 * SAMPLE_RATE * DELAY_SPREAD)).exp()
    taps = taps / taps.abs().square().sum(1, keepdim=True).sqrt()
    received = taps[:, :1] * signal
    for delay in range(1, 1 + ECHOES):
        received[:, delay:] += taps[:, delay, None] * signal[:, :-delay]
    return received


def receive(signal: Tensor, rng: torch.Generator) -> Tensor:
    """The receiver: its own frequency offset, white noise at a random SNR, and a random gain."""
    count = len(signal)
    offset = RECEIVER_PPM * torch.randn(count, 1, generator=rng)
    snr = SNR_DB[0] + (SNR_DB[1] - SNR_DB[0]) * torch.rand(count, 1, generator=rng)
    gain = GAIN_DB[0] + (GAIN_DB[1] - GAIN_DB[0]) * torch.rand(count, 1, generator=rng)
    noise = torch.randn(signal.shape, dtype=signal.dtype, generator=rng)
    return (signal * phasor(turns(offset)) + noise * 10 ** (-snr / 20)) * 10 ** (gain / 20)


def turns(ppm: Tensor) -> Tensor:
    """Phase along the window of an oscillator off by `ppm` of the carrier: (B, 1) -> (B, N) radians."""
    return ppm * (2e-6 * math.pi * CARRIER / SAMPLE_RATE * torch.arange(SAMPLES))


def phasor(phase: Tensor) -> Tensor:
    """Complex numbers exp(i phase)."""
    return torch.complex(phase.cos(), phase.sin())
