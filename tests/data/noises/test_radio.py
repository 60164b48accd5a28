"""Noises for radio: what happens to I and Q as one complex number."""

import math

import numpy as np
import pytest
import torch

from tests.fixtures.recordings import CAPTURES, distorted, drawn, seeded, signals, spline
from vbs_cli.data.noise import SEVERITIES
from vbs_cli.data.noises.radio import path_response

COUNT = 16  # examples, so that both signs are drawn
LENGTH = 2001


@pytest.fixture(params=["radio", CAPTURES])
def x(request):
    return signals(request.param, request)


def by_severity(*values):
    return list(zip(SEVERITIES, values, strict=True))


def as_complex(x):
    return torch.complex(x[:, 0], x[:, 1])


def carrier(cycles=0.0, count=COUNT):
    """Complex tone of some cycles per sample, with phase 0 in the middle: (count, 2, LENGTH)."""
    angle = 2 * math.pi * cycles * (torch.arange(LENGTH).double() - (LENGTH - 1) / 2)
    return torch.stack([angle.cos(), angle.sin()]).expand(count, -1, -1)


def strongest(x):
    """Frequency in cycles per sample at which each example is strongest: (N,)."""
    window = torch.hann_window(LENGTH, dtype=torch.float64)
    frequency = torch.fft.fftfreq(2**16)
    return frequency[torch.fft.fft(as_complex(x) * window, 2**16).abs().argmax(1)]


@pytest.mark.parametrize("name", ["carrier-offset", "phase-rotation", "phase-noise"])
@pytest.mark.parametrize("level", [0.1, *SEVERITIES])
def test_what_turns_the_phase_leaves_every_magnitude(x, name, level):
    torch.testing.assert_close(as_complex(distorted(name, x, level)).abs(), as_complex(x).abs())


@pytest.mark.parametrize(("level", "offset"), by_severity(0.0002, 0.0005, 0.001, 0.002, 0.004))
def test_a_carrier_is_found_as_far_above_or_below_as_it_was_shifted(level, offset):
    heard = distorted("carrier-offset", carrier(0.03), level)
    sign = drawn("carrier-offset", heard).flatten()
    assert set(sign.tolist()) == {-1, 1}
    torch.testing.assert_close(strongest(heard), 0.03 + sign * offset, rtol=0, atol=1e-5)
    torch.testing.assert_close(heard[..., LENGTH // 2], carrier(0.03)[..., LENGTH // 2])


@pytest.mark.parametrize(("level", "offset"), by_severity(0.0002, 0.0005, 0.001, 0.002, 0.004))
def test_a_carrier_offset_multiplies_by_a_complex_tone(x, level, offset):
    time = torch.arange(x.shape[2]).double() - (x.shape[2] - 1) / 2
    sign = drawn("carrier-offset", x)[:, 0].double()
    expected = as_complex(x) * torch.exp(2j * math.pi * offset * sign * time)
    torch.testing.assert_close(as_complex(distorted("carrier-offset", x, level)), expected)


@pytest.mark.parametrize("level", [0.1, *SEVERITIES])
def test_a_rotation_multiplies_by_one_complex_number_and_ends_at_half_a_turn(x, level):
    sign = drawn("phase-rotation", x)[:, 0].double()
    expected = as_complex(x) * torch.exp(1j * math.pi * level * sign)
    torch.testing.assert_close(as_complex(distorted("phase-rotation", x, level)), expected)
    torch.testing.assert_close(distorted("phase-rotation", x, 1.0), -x)
    assert set(drawn("phase-rotation", torch.empty(COUNT, 2, 1)).flatten().tolist()) == {-1, 1}


@pytest.mark.parametrize(("level", "radians"), by_severity(0.005, 0.01, 0.02, 0.04, 0.08))
def test_the_phase_walks_by_independent_gaussian_steps_of_the_radians_asked(level, radians):
    angle = as_complex(distorted("phase-noise", carrier(), level)).angle()
    steps = torch.from_numpy(np.diff(np.unwrap(angle.numpy(), axis=1), axis=1))
    assert float(steps.std()) == pytest.approx(radians, rel=0.02)
    assert float((steps[:, 1:] * steps[:, :-1]).mean()) == pytest.approx(0, abs=0.02 * radians**2)
    assert float((steps**4).mean()) == pytest.approx(3 * radians**4, rel=0.1)
    torch.testing.assert_close(steps.std(1), torch.full((COUNT,), radians).double(), rtol=0.1, atol=0)


@pytest.mark.parametrize(
    ("level", "decibels", "degrees"),
    [(0.2, 0.5, 2), (0.4, 1, 5), (0.6, 2, 10), (0.8, 3, 15), (1.0, 4, 20)],
)
def test_the_image_of_a_tone_is_as_strong_as_theory_says_of_the_imbalance(level, decibels, degrees):
    """Image rejection of a receiver: (1 - 2 g cos + g^2) / (1 + 2 g cos + g^2)."""
    cycles = 60 / LENGTH
    spectrum = torch.fft.fft(as_complex(distorted("iq-imbalance", carrier(cycles), level))).abs().square()
    g, c = 10 ** (decibels / 20), math.cos(math.radians(degrees))
    expected = (1 - 2 * g * c + g**2) / (1 + 2 * g * c + g**2)
    torch.testing.assert_close(spectrum[:, -60] / spectrum[:, 60], torch.full((COUNT,), expected).double())


@pytest.mark.parametrize(("level", "decibels", "degrees"), [(0.2, 0.5, 2), (0.6, 2, 10), (1.0, 4, 20)])
def test_either_channel_is_louder_and_their_angle_wider_or_narrower(level, decibels, degrees):
    x = carrier(60 / LENGTH)
    i, q = distorted("iq-imbalance", x, level).unbind(1)
    louder = 20 * (i.square().mean(1) / q.square().mean(1)).sqrt().log10()
    assert sorted({round(each, 6) for each in louder.tolist()}) == [-decibels, decibels]
    product = (i * q).mean(1) / (i.square().mean(1) * q.square().mean(1)).sqrt()
    apart = product.asin().rad2deg()
    assert sorted({round(each, 6) for each in apart.tolist()}) == [-degrees, degrees]
    assert len({(a > 0, b > 0) for a, b in zip(louder.tolist(), apart.tolist(), strict=True)}) == 4


@pytest.mark.parametrize(("level", "power"), by_severity(0.02, 0.05, 0.15, 0.4, 1.0))
def test_multipath_convolves_each_example_with_its_complex_paths(x, level, power):
    paths = path_response(drawn("multipath", x), power, torch.float64)
    heard = as_complex(distorted("multipath", x, level))
    for each, path, found in zip(as_complex(x), paths, heard, strict=True):
        expected = np.convolve(each.numpy(), path.numpy())[: len(each)]
        torch.testing.assert_close(found, torch.from_numpy(expected))


@pytest.mark.parametrize(("level", "power"), by_severity(0.02, 0.05, 0.15, 0.4, 1.0))
def test_an_impulse_comes_at_once_and_in_three_echoes_within_sixteen_samples(level, power):
    x = torch.zeros(2000, 2, 40).double()
    x[:, 0, 5] = 1
    heard = as_complex(distorted("multipath", x, level))
    heard[heard.abs() < 1e-9] = 0
    assert not heard[:, :5].any()
    torch.testing.assert_close(heard[:, 5], torch.ones(2000, dtype=heard.dtype))
    assert not heard[:, 22:].any()
    echoes = heard[:, 6:22]
    assert set((echoes != 0).sum(1).tolist()) == {1, 2, 3}  # those of equal delay are one
    assert (echoes != 0).any(0).all()
    assert float(echoes.abs().square().sum(1).mean()) == pytest.approx(power, rel=0.05)
    assert abs(complex((echoes**2).sum(1).mean())) < 0.05 * power  # phases of all directions


def test_echoes_of_equal_delay_add_up():
    gains = torch.tensor([[[0.5, 0.5, 0.5], [1, 2, 3], [4, 5, -6]]]).double()
    path = path_response(gains, 6.0, torch.float64)[0]
    assert path[9] == 6 + 3j
    assert path.abs().count_nonzero() == 2


@pytest.mark.parametrize(("level", "rate"), by_severity(0.001, 0.002, 0.005, 0.01, 0.02))
def test_a_sampling_offset_is_a_cubic_spline_read_at_another_rate_and_later(x, level, rate):
    middle = (x.shape[2] - 1) / 2
    sign, delay = drawn("sampling-offset", x).double().numpy()[..., 0].T
    heard = distorted("sampling-offset", x, level)
    for n, channels in enumerate(x):
        position = middle + (np.arange(x.shape[2]) - middle) * (1 + sign[n] * rate) - level * delay[n]
        for channel, found in zip(channels, heard[n], strict=True):
            torch.testing.assert_close(found, spline(channel, position), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("level", "rate"), by_severity(0.001, 0.002, 0.005, 0.01, 0.02))
def test_a_tone_is_received_higher_or_lower_and_late_or_early_by_half_a_sample_at_most(level, rate):
    cycles = 0.05
    heard = distorted("sampling-offset", carrier(cycles), level)
    sign = drawn("sampling-offset", heard)[:, 0, 0]
    torch.testing.assert_close(strongest(heard), cycles * (1 + sign * rate), rtol=0, atol=1e-5)
    late = -as_complex(heard)[:, LENGTH // 2].angle() / (2 * math.pi * cycles)
    assert 0.3 * level < float(late.max()) <= 0.5 * level + 0.01
    assert -0.5 * level - 0.01 <= float(late.min()) < -0.3 * level


def test_both_channels_are_sampled_at_the_same_times():
    x = seeded(4, 1, 300).repeat(1, 2, 1)
    heard = distorted("sampling-offset", x, 0.7)
    assert torch.equal(heard[:, 0], heard[:, 1])


@pytest.mark.parametrize("level", [0.2, 1.0])
def test_a_sampling_offset_differs_more_at_a_higher_level(x, level):
    lower, higher = (distorted("sampling-offset", x, each) - x for each in (level / 2, level))
    assert float(higher.flatten(1).norm(dim=1).mean()) > float(lower.flatten(1).norm(dim=1).mean())
