"""Noises for all signals: by power, by frequency, by peak; the suites for speech and radio."""

import math

import numpy as np
import pytest
import torch

from tests.fixtures.recordings import CAPTURES, SPEECH, by_scipy, distorted, drawn, seeded, signals, spline
from vbs_cli.data import NOISES, SUITES
from vbs_cli.data.noise import RADIO, SEVERITIES, SOUND, WAVES, suites_for
from vbs_cli.data.noises.signals import interpolated, power_ratio

DECIBELS = (30, 20, 10, 5, 0)
OF_SUITES = [(suite, name) for suite in ("speech", "radio") for name in SUITES[suite].levels]


@pytest.fixture(params=["sound", "radio", SPEECH, CAPTURES])
def x(request):
    return signals(request.param, request)


def decibels(loud, faint):
    return (10 * (loud.square().sum((1, 2)) / faint.square().sum((1, 2))).log10()).tolist()


@pytest.mark.parametrize(("level", "asked"), list(zip(SEVERITIES, DECIBELS, strict=True)))
def test_noise_is_as_many_decibels_below_each_example_as_asked(x, level, asked):
    added = distorted("snr", x, level) - x
    assert decibels(x, added) == pytest.approx([asked] * len(x), abs=0.5)


def test_noise_by_power_is_white_and_equally_strong_in_all_channels():
    x = torch.zeros(3, 2, 50_000, dtype=torch.float64)
    x[:, 0] = 1
    added = distorted("snr", x, 1.0) - x
    assert added.square().mean(2).flatten().tolist() == pytest.approx([0.5] * 6, rel=0.05)
    for lag in (1, 2, 7):
        assert float((added[..., lag:] * added[..., :-lag]).mean()) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(("level", "asked"), list(zip(SEVERITIES, DECIBELS, strict=True)))
def test_a_mixture_adds_another_whole_example_as_many_decibels_below_as_asked(x, level, asked):
    shift = int(drawn("mixture", x)[0])
    added = distorted("mixture", x, level) - x
    assert decibels(x, added) == pytest.approx([asked] * len(x))
    for i, each in enumerate(added):
        partner = x[(i + shift) % len(x)]
        assert float(torch.cosine_similarity(each.flatten(), partner.flatten(), dim=0)) == pytest.approx(1)


def test_the_partner_in_a_mixture_is_between_a_quarter_and_three_quarters_of_the_block_away():
    for count in range(2, 14):
        shifts = torch.stack([drawn("mixture", torch.empty(count, 1, 8), seed) for seed in range(60)])
        assert shifts.shape == (60, count)
        assert (shifts == shifts[:, :1]).all()
        allowed = {shift for shift in range(1, count) if count <= 4 * shift <= 3 * count}
        assert set(shifts.unique().tolist()) == allowed


def test_a_block_of_one_example_is_mixed_with_itself_reversed():
    x = seeded(1, 2, 50)
    torch.testing.assert_close(distorted("mixture", x, 1.0), x + x.flip(2))


def test_a_silent_partner_adds_nothing():
    x = seeded(2, 1, 50)
    x[1] = 0
    assert torch.equal(distorted("mixture", x, 1.0), x)
    assert not power_ratio(x, torch.zeros_like(x)).any()


@pytest.mark.parametrize(
    ("level", "cutoff"),
    [*zip(SEVERITIES, (0.5, 0.375, 0.25, 0.1875, 0.125), strict=True), (0.1, 2 / math.pi * math.atan(2))],
)
def test_low_pass_is_scipys_butterworth_filter_forwards_and_backwards(x, level, cutoff):
    torch.testing.assert_close(distorted("low-pass", x, level), by_scipy(x, "low", cutoff), rtol=0, atol=1e-4)


@pytest.mark.parametrize("level", [0.01, 0.1, 0.2, 1.0])
def test_what_is_filtered_at_one_end_is_not_heard_at_the_other(level):
    x = torch.zeros(2, 1, 301, dtype=torch.float64)
    x[0, 0, 0] = x[1, 0, -1] = 1
    heard = distorted("low-pass", x, level).abs()
    assert float(heard[0, 0, 150:].max()) < 1e-4
    assert float(heard[1, 0, :150].max()) < 1e-4


@pytest.mark.parametrize(("level", "share"), list(zip(SEVERITIES, (0.5, 0.3, 0.2, 0.1, 0.05), strict=True)))
def test_clipping_is_at_a_share_of_each_examples_own_peak(x, level, share):
    for each, clipped in zip(x.numpy(), distorted("clipping", x, level).numpy(), strict=True):
        bound = share * np.abs(each).max()
        np.testing.assert_allclose(clipped, np.clip(each, -bound, bound))


@pytest.mark.parametrize(("level", "steps"), list(zip(SEVERITIES, (32, 16, 8, 4, 2), strict=True)))
def test_quantised_samples_are_multiples_of_a_step_no_further_than_half_a_step_away(x, level, steps):
    step = x.abs().amax((1, 2), keepdim=True) / steps
    rounded = distorted("quantisation", x, level)
    torch.testing.assert_close((rounded / step).round() * step, rounded)
    assert float(((rounded - x) / step).abs().max()) <= 0.5 + 1e-9
    assert (rounded / step).abs().amax((1, 2)).tolist() == pytest.approx([steps] * len(x))


@pytest.mark.parametrize("length", [1, 2, 17, 400])
def test_values_between_samples_are_those_of_a_cubic_spline_with_central_differences(length):
    x = seeded(3, 2, length)
    position = torch.from_numpy(np.random.default_rng(1).uniform(-6, length + 5, (3, 1, length)))
    found = interpolated(x, position)
    for channels, where, values in zip(x, position, found, strict=True):
        for channel, value in zip(channels, values, strict=True):
            torch.testing.assert_close(value, spline(channel, where[0].numpy()))


def test_values_at_samples_are_the_samples_and_silence_outside():
    x = seeded(2, 1, 30)
    shifted = interpolated(x, torch.arange(-5.0, 25).double().view(1, 1, -1))
    assert torch.equal(shifted[..., 5:], x[..., :25])
    assert not shifted[..., :5].any()
    assert not interpolated(x, torch.tensor([-1e9, 1e9, -3.5, 31.5] * 7 + [-2.0, 31.0]).view(1, 1, -1)).any()


def example_of(suite, length, count=5):
    return seeded(count, {"speech": 1, "radio": 2}[suite], length)


@pytest.mark.parametrize(("suite", "name"), OF_SUITES)
@pytest.mark.parametrize("level", [0.1, 0.6, 1.0])
def test_how_loud_an_example_is_makes_no_difference_to_its_distortion(suite, name, level):
    x = example_of(suite, 400)
    loudness = torch.tensor([0.01, 0.3, 2, 40, 128]).double().view(-1, 1, 1)
    expected = distorted(name, x, level)
    torch.testing.assert_close(distorted(name, x * loudness, level), expected * loudness, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("suite", "name"), OF_SUITES)
@pytest.mark.parametrize("length", [16, 17, 1580])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_silence_stays_silent_and_short_signals_stay_finite(suite, name, length, dtype):
    x = example_of(suite, length).to(dtype)
    for level in (1e-6, 0.3, 1.0):
        assert distorted(name, x, level).isfinite().all()
        assert not distorted(name, torch.zeros_like(x), level).any()


@pytest.mark.parametrize(("suite", "name"), OF_SUITES)
def test_single_precision_is_enough_for_every_noise(suite, name):
    x = example_of(suite, 1580)
    for level in (0.2, 1.0):
        single = distorted(name, x.float(), level).double()
        # Rounding may fall to the other side of a step.
        close = (single - distorted(name, x, level)).abs() <= 1e-4 * x.abs().amax((1, 2), keepdim=True)
        assert float(close.double().mean()) > 0.999


# A telephone halves the rate at any level.
@pytest.mark.parametrize(("suite", "name"), [each for each in OF_SUITES if each[1] != "telephone"])
def test_a_level_close_to_zero_leaves_nearly_everything(suite, name):
    x = example_of(suite, 1580)
    apart = (distorted(name, x, 1e-4) - x).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)
    assert float(apart.max()) < 0.05


def test_suites_are_for_the_kind_of_signal_that_they_name():
    assert "speech" in suites_for((1, 20_480))
    assert "radio" in suites_for((2, 1580))
    assert SUITES["speech"].kinds == [SOUND]
    assert SUITES["radio"].kinds == [RADIO]
    of_all = {name for name, noise in NOISES.items() if tuple(noise.kinds) == WAVES}
    assert {"snr", "mixture", "low-pass", "clipping", "quantisation"} <= of_all
    for suite in ("speech", "radio"):
        assert of_all <= set(SUITES[suite].levels)
        assert all(NOISES[name].most == 1 for name in SUITES[suite].levels)
