"""The simulated transmitters: every impairment is there, and nothing else tells two devices apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from vbs_cli.data import radio_sim
from vbs_cli.data.radio_sim import SAMPLES, Transmitters, batches, make_transmitters, simulate
from vbs_cli.seeding import generator

IDEAL = {field.name: 0.0 for field in fields(Transmitters)} | {"saturation": 1e6, "transient_time": 1.0}


def device(**properties: float) -> Transmitters:
    """One device, ideal but for the given properties, each looked up for one window: fields (1, 1)."""
    return Transmitters(**{name: torch.tensor([[value]]) for name, value in (IDEAL | properties).items()})


def tone(amplitude: float = 1.0) -> Tensor:
    """What a modulator is fed with when all symbols are alike: (1, N)."""
    return torch.full((1, SAMPLES), amplitude, dtype=torch.complex64)


def payload(count: int = 1, clock_offset: float = 0.0) -> Tensor:
    """Shaped symbols, the same at every call: (count, N)."""
    rng = generator("payload")
    symbols = radio_sim.draw_symbols(count, rng)
    return radio_sim.shape_pulses(symbols, torch.full((count, 1), clock_offset), rng)


def power(signal: Tensor) -> Tensor:
    return signal.abs().square().mean(-1)


def offset_ppm(signal: Tensor) -> Tensor:
    """Mean turn from sample to sample, as ppm of the carrier: (B, N) -> (B,)."""
    turn = (signal[:, 1:] * signal[:, :-1].conj()).sum(-1).angle()
    return turn * radio_sim.SAMPLE_RATE / (2e-6 * math.pi * radio_sim.CARRIER)


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver without an offset, a gain or much noise, and a channel with one path."""
    monkeypatch.setattr(radio_sim, "SNR_DB", (60.0, 60.0))
    monkeypatch.setattr(radio_sim, "GAIN_DB", (0.0, 0.0))
    monkeypatch.setattr(radio_sim, "RECEIVER_PPM", 0.0)
    monkeypatch.setattr(radio_sim, "ECHOES", 0)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def windows(labels: Tensor, devices: Transmitters, *names: object) -> Tensor:
    """Simulated windows as complex numbers: (B,) -> (B, N)."""
    x = simulate(labels, devices, generator(*names))
    return torch.complex(x[:, 0], x[:, 1])


def test_batches_have_the_promised_shapes_and_finite_values() -> None:
    made = list(batches("test", 70, seed=0, batch=32))
    assert [tuple(x.shape) for x, _ in made] == [(32, 2, SAMPLES), (32, 2, SAMPLES), (6, 2, SAMPLES)]
    assert [tuple(y.shape) for _, y in made] == [(32,), (32,), (6,)]
    assert all(x.dtype == torch.float32 and y.dtype == torch.int64 for x, y in made)
    assert all(x.is_contiguous() and bool(x.isfinite().all()) for x, _ in made)


@pytest.mark.parametrize(("count", "classes"), [(100, 20), (47, 20), (5, 20), (9, 2)])
def test_classes_are_balanced_to_within_one_and_shuffled(count: int, classes: int) -> None:
    labels = torch.cat([y for _, y in batches("train", count, seed=0, classes=classes)])
    counts = labels.bincount(minlength=classes)
    assert len(labels) == count
    assert counts.max() - counts.min() <= 1
    assert not torch.equal(labels, torch.arange(count) % classes)


def test_the_same_arguments_give_the_same_bits() -> None:
    for (x, y), (again_x, again_y) in zip(*(batches("val", 50, seed=3, batch=30) for _ in range(2)), strict=True):
        assert torch.equal(x, again_x)
        assert torch.equal(y, again_y)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("batch", [1, 17, 100])
def test_the_number_of_threads_changes_no_bit_and_is_left_alone(batch: int) -> None:
    made = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        made.append(next(batches("train", 100, seed=0, batch=batch))[0])
        assert torch.get_num_threads() == count
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])


def test_global_random_state_is_neither_read_nor_moved() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, _ = next(batches("train", 20, seed=0))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(1)
    assert torch.equal(first, next(batches("train", 20, seed=0))[0])


def test_splits_seeds_and_batches_hold_different_windows() -> None:
    (first, _), (second, _) = batches("train", 40, seed=0, batch=20)
    other_split, _ = next(batches("test", 40, seed=0, batch=20))
    other_seed, _ = next(batches("train", 40, seed=1, batch=20))
    for other in (second, other_split, other_seed):
        assert not torch.equal(first, other)


def test_devices_depend_on_the_seed_alone() -> None:
    one, same, other = make_transmitters(20, 0), make_transmitters(20, 0), make_transmitters(20, 1)
    for field in fields(Transmitters):
        values = getattr(one, field.name)
        assert values.shape == (20,)
        assert values.dtype == torch.float32
        assert torch.equal(values, getattr(same, field.name))
        assert not torch.equal(values, getattr(other, field.name))


@pytest.mark.parametrize("seed", range(5))
def test_no_two_devices_share_a_property(seed: int) -> None:
    devices = make_transmitters(20, seed)
    for field in fields(Transmitters):
        ordered = getattr(devices, field.name).sort().values
        spacing = (ordered[-1] - ordered[0]) / 19
        assert ordered.diff().min() > 0.4 * spacing, field.name


@pytest.mark.usefixtures("clean")
def test_every_property_reaches_the_window() -> None:
    typical = make_transmitters(20, 0)
    label = torch.tensor([7])
    window = windows(label, typical, "window")
    for field in fields(Transmitters):
        changed = replace(typical, **{field.name: getattr(typical, field.name).roll(5)})
        assert not torch.equal(window, windows(label, changed, "window")), field.name


def test_symbols_have_unit_power_in_both_modulations() -> None:
    symbols = radio_sim.draw_symbols(200, generator("symbols"))
    moduli = [len(torch.unique((row.abs() * 1000).round())) for row in symbols]
    assert symbols.abs().square().mean().item() == pytest.approx(1.0, abs=0.02)
    assert set(moduli) == {1, 3}  # QPSK has one circle, 16-QAM three


def test_pulses_keep_unit_power_inside_their_band() -> None:
    signal = payload(50)
    density = torch.fft.fft(signal).abs().square().mean(0)
    edge = (1 + radio_sim.ROLLOFF) / (2 * radio_sim.OVERSAMPLING)
    outside = torch.fft.fftfreq(SAMPLES).abs() > edge + 1e-3
    assert power(signal).mean().item() == pytest.approx(1.0, abs=0.05)
    assert density[outside].sum() < 1e-4 * density.sum()


def test_a_matched_filter_finds_the_symbols_again() -> None:
    symbols = radio_sim.draw_symbols(4, generator("symbols"))
    impulse = torch.zeros_like(symbols)
    impulse[:, 0] = 1
    signal, pulse = (
        radio_sim.shape_pulses(each, torch.zeros(4, 1), generator("timing")) for each in (symbols, impulse)
    )
    matched = torch.fft.ifft(torch.fft.fft(signal) * torch.fft.fft(pulse).conj()) / radio_sim.OVERSAMPLING
    torch.testing.assert_close(matched[:, :: radio_sim.OVERSAMPLING], symbols, atol=1e-4, rtol=1e-4)


def test_a_clock_offset_stretches_time_about_the_middle() -> None:
    ppm = 40.0
    skewed, straight = payload(1, ppm)[0], payload(1)[0]
    frequency = 2 * math.pi * torch.fft.fftfreq(SAMPLES, dtype=torch.float64)
    spectrum = torch.fft.fft(straight.to(torch.complex128))
    time = torch.arange(SAMPLES, dtype=torch.float64)
    time = time + 1e-6 * ppm * (time - SAMPLES / 2)
    exact = (spectrum * torch.exp(1j * time[:, None] * frequency)).mean(1)
    assert (skewed - exact).abs().max() < 1e-3
    assert (straight - exact).abs().max() > 5e-3


def test_an_ideal_device_sends_what_it_is_given() -> None:
    signal, ideal = payload(), device()
    sent = radio_sim.turn_on(radio_sim.modulate(signal, ideal), ideal)[:, 100:]
    torch.testing.assert_close(sent, signal[:, 100:])
    torch.testing.assert_close(radio_sim.amplify(signal, ideal), signal)
    torch.testing.assert_close(radio_sim.oscillate(signal, ideal, generator("oscillator")), signal)


def test_gain_imbalance_is_the_power_ratio_of_the_branches() -> None:
    sent = radio_sim.modulate(tone() * (1 + 1j), device(gain_imbalance=1.0))
    ratio = 20 * torch.log10(sent.imag / sent.real)
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1.0), atol=1e-4, rtol=0)


def test_phase_imbalance_opens_the_angle_between_the_branches() -> None:
    skewed = device(phase_imbalance=0.09)
    angle = (radio_sim.modulate(1j * tone(), skewed) * radio_sim.modulate(tone(), skewed).conj()).angle()
    torch.testing.assert_close(angle, torch.full_like(angle, math.pi / 2 + 0.09))


def test_leakage_is_the_mean_of_what_is_sent() -> None:
    silence = radio_sim.modulate(tone(0.0), device(leakage_i=0.1, leakage_q=-0.05))
    torch.testing.assert_close(silence, tone() * (0.1 - 0.05j))


def test_the_carrier_turns_by_its_offset() -> None:
    sent = radio_sim.oscillate(tone(), device(carrier_offset=10.0), generator("oscillator"))
    hertz = (sent[0, 1:] * sent[0, :-1].conj()).angle() * radio_sim.SAMPLE_RATE / (2 * math.pi)
    assert hertz.mean().item() == pytest.approx(10e-6 * radio_sim.CARRIER, rel=1e-3)


def test_phase_noise_spreads_by_its_linewidth() -> None:
    lines = replace(device(), linewidth=torch.full((200, 1), 100.0))
    sent = radio_sim.oscillate(tone().expand(200, -1), lines, generator("oscillator"))
    steps = (sent[:, 1:] * sent[:, :-1].conj()).angle()
    expected = 2 * math.pi * 100.0 / radio_sim.SAMPLE_RATE
    assert steps.square().mean().item() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("amplitude", "gain", "turn"), [(0.01, 1.0, 0.0), (1.5, 2**-0.25, 0.3), (150.0, 0.01, 0.6)])
def test_the_amplifier_is_linear_when_small_and_limits_when_large(amplitude: float, gain: float, turn: float) -> None:
    out = radio_sim.amplify(tone(amplitude), device(saturation=1.5, phase_conversion=0.3))[0, 0] / amplitude
    assert out.abs().item() == pytest.approx(gain, rel=1e-3)
    assert out.angle().item() == pytest.approx(turn, abs=1e-3)


def test_the_transient_is_there_at_turn_on() -> None:
    started = radio_sim.turn_on(tone(), device(transient_depth=0.4, transient_turn=1.0, transient_time=50.0))[0]
    assert started[0].abs().item() == pytest.approx(0.6)
    assert started[0].angle().item() == pytest.approx(1.0)
    assert started[50].abs().item() == pytest.approx(1 - 0.4 / math.e, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_transient_is_gone_after_500_samples(seed: int) -> None:
    started = radio_sim.turn_on(tone(), make_transmitters(20, seed).of(torch.arange(20)))
    assert (started[:, :20] - 1).abs().amin() > 0.1
    assert (started[:, 500:] - 1).abs().amax() < 2e-3


def test_every_window_has_a_channel_of_its_own_with_unit_energy() -> None:
    impulse = torch.zeros(300, SAMPLES, dtype=torch.complex64)
    impulse[:, 0] = 1
    response = radio_sim.scatter(impulse, generator("channel"))
    energy = response.abs().square()
    torch.testing.assert_close(energy.sum(1), torch.ones(300))
    assert bool((energy[:, 1 + radio_sim.ECHOES :] == 0).all())
    assert bool((energy.mean(0)[: 1 + radio_sim.ECHOES].diff() < 0).all())
    assert response[:, 0].angle().std() > 1.5  # uniform phases have 1.81
    assert len(set(response[:, 0].tolist())) == 300


def test_the_receiver_adds_noise_within_the_range_of_snr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radio_sim, "GAIN_DB", (0.0, 0.0))
    snr = -10 * torch.log10(power(radio_sim.receive(tone(0.0).expand(300, -1), generator("receiver"))))
    low, high = radio_sim.SNR_DB
    assert low - 0.5 < snr.min() < low + 2
    assert high - 2 < snr.max() < high + 0.5


def test_the_receiver_has_an_offset_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radio_sim, "SNR_DB", (60.0, 60.0))
    heard = radio_sim.receive(tone().expand(500, -1), generator("receiver"))
    ppm = offset_ppm(heard)
    assert ppm.std().item() == pytest.approx(radio_sim.RECEIVER_PPM, rel=0.15)


def test_payload_and_channel_differ_between_windows_of_one_device() -> None:
    devices = make_transmitters(20, 0)
    received = windows(torch.full((16,), 4), devices, "windows")[:, 500:]
    received = received / power(received).sqrt()[:, None]
    overlap = (received @ received.mH).abs() / received.shape[1]
    assert (overlap - torch.eye(16)).abs().max() < 0.5


def test_the_carrier_offset_of_a_device_can_be_estimated_from_its_windows() -> None:
    devices = make_transmitters(20, 0)
    labels = torch.arange(20).repeat_interleave(40)
    estimates = offset_ppm(windows(labels, devices, "windows")[:, 500:]).view(20, 40)
    assert (estimates.median(1).values - devices.carrier_offset).abs().max() < 2.5
    # Devices differ by far more than windows of one device, but one window does not settle it.
    assert estimates.mean(1).std() > 4 * estimates.std(1).mean()
    assert estimates.std(1).mean() > 0.5 * radio_sim.RECEIVER_PPM


@pytest.mark.usefixtures("clean")
def test_leakage_and_saturation_can_be_seen_in_received_windows() -> None:
    # On one carrier without a turn the leakage is a constant and the limiting shows in the fourth moment.
    plain = {
        "carrier_offset": torch.zeros(2),
        "linewidth": torch.zeros(2),
        "phase_conversion": torch.zeros(2),
    }
    devices = replace(
        make_transmitters(2, 0),
        **plain,
        leakage_i=torch.tensor([0.0, 0.15]),
        leakage_q=torch.zeros(2),
        saturation=torch.tensor([2.4, 1.2]),
    )
    received = windows(torch.arange(2).repeat_interleave(300), devices, "windows")[:, 500:].view(2, 300, -1)
    constant = received.mean(-1).abs().square().mean(1)
    kurtosis = received.abs().pow(4).mean((1, 2)) / received.abs().square().mean((1, 2)).square()
    assert constant[1] - constant[0] > 0.005
    assert kurtosis[1] < kurtosis[0] - 0.05
