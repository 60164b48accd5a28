"""Noises for sound: rooms, telephones and recorders."""

import numpy as np
import pytest
import scipy.signal
import torch

from tests.fixtures.recordings import SPEECH, by_scipy, distorted, drawn, seeded, signals, spline
from vbs_cli.data.noise import SEVERITIES
from vbs_cli.data.noises.sound import RATE, companded, resampled, room_response

RT60 = (0.1, 0.2, 0.4, 0.7, 1.0)
COUNT = 16  # examples, so that both signs are drawn


@pytest.fixture(params=["sound", SPEECH])
def x(request):
    return signals(request.param, request)


def by_severity(*values):
    return list(zip(SEVERITIES, values, strict=True))


def tones(cycles, length=4096, count=COUNT):
    """The same tone in each example: (count, 1, length)."""
    return torch.sin(2 * torch.pi * cycles * torch.arange(length).double()).expand(count, 1, -1)


@pytest.mark.parametrize(("level", "cutoff"), by_severity(0.0125, 0.025, 0.05, 0.1, 0.2))
def test_high_pass_is_scipys_butterworth_filter_forwards_and_backwards(x, level, cutoff):
    heard = distorted("high-pass", x, level)
    torch.testing.assert_close(heard, by_scipy(x, "high", cutoff), rtol=0, atol=1e-4)


@pytest.mark.parametrize("level", SEVERITIES)
def test_high_pass_removes_a_deep_tone_and_leaves_a_high_one(level):
    deep, high = (distorted("high-pass", tones(cycles), level)[0, 0, 1000:-1000] for cycles in (0.002, 0.3))
    assert float(deep.abs().max()) < 0.05
    torch.testing.assert_close(high, tones(0.3)[0, 0, 1000:-1000], rtol=0, atol=0.01)


@pytest.mark.parametrize(("level", "decibels"), by_severity(6, 12, 18, 24, 30))
def test_gain_makes_some_examples_louder_and_others_fainter_by_as_many_decibels(level, decibels):
    x = seeded(COUNT, 1, 50)
    change = 20 * (distorted("gain", x, level) / x).log10()
    torch.testing.assert_close(change, change[..., :1].expand_as(change))
    assert sorted({round(each, 6) for each in change.flatten().tolist()}) == [-decibels, decibels]


@pytest.mark.parametrize(("level", "change"), by_severity(0.05, 0.1, 0.15, 0.2, 0.3))
def test_speed_is_a_cubic_spline_read_faster_or_slower_about_the_middle(x, level, change):
    middle = (x.shape[2] - 1) / 2
    heard = distorted("speed", x, level)
    for each, sign, found in zip(x, drawn("speed", x).flatten().tolist(), heard, strict=True):
        position = middle + (np.arange(x.shape[2]) - middle) * (1 + sign * change)
        torch.testing.assert_close(found[0], spline(each[0], position), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("level", "change"), by_severity(0.05, 0.1, 0.15, 0.2, 0.3))
def test_a_tone_is_heard_higher_or_lower_by_as_many_percent_and_silence_where_it_has_ended(level, change):
    heard = distorted("speed", tones(0.05), level)[:, 0]
    spectrum = torch.fft.rfft(heard * torch.hann_window(4096, dtype=heard.dtype), 2**16).abs()
    found = spectrum.argmax(1) / 2**16 / 0.05
    sign = drawn("speed", tones(0.05)).flatten()
    assert set(sign.tolist()) == {-1, 1}
    torch.testing.assert_close(found, 1 + sign * change, rtol=0, atol=1e-3)
    ended = int(2048 * (1 - 1 / (1 + change))) - 2
    assert not heard[sign > 0, :ended].any()
    assert not heard[sign > 0, -ended:].any()
    assert heard[sign < 0, :ended].any(1).all()


def stretches(silent):
    """Number of runs of True in each row."""
    edges = torch.nn.functional.pad(silent.int(), (1, 1)).diff(dim=1)
    return (edges == 1).sum(1).tolist()


@pytest.mark.parametrize("length", [20_480, 3001, 202])
@pytest.mark.parametrize(("level", "share"), by_severity(0.05, 0.1, 0.2, 0.3, 0.5))
def test_four_stretches_of_each_example_are_silent_and_the_rest_is_as_it_was(length, level, share):
    x = seeded(COUNT, 1, length)
    heard = distorted("dropouts", x, level)
    silent = (heard == 0)[:, 0]
    assert stretches(silent) == [4] * COUNT
    assert silent.sum(1).tolist() == pytest.approx([share * length] * COUNT, abs=4)
    assert torch.equal(heard[:, 0][~silent], x[:, 0][~silent])


def test_dropouts_grow_around_places_that_differ_between_examples_and_reach_every_sample():
    x = torch.ones(400, 1, 400)
    before = torch.zeros(400, 400, dtype=torch.bool)
    for level in (0.1, *SEVERITIES):
        silent = distorted("dropouts", x, level)[:, 0] == 0
        assert (silent | ~before).all()
        before = silent
        quarters = silent.view(400, 4, 100)
        for later in (1, 2, 3):
            assert float((quarters[:, 0] != quarters[:, later]).any(1).float().mean()) > 0.9
    assert 0 < before.sum(0).min() < before.sum(0).max() < 400


def response(x, seconds):
    return room_response(drawn("reverberation", x), seconds, torch.float64)


@pytest.mark.parametrize(("level", "seconds"), by_severity(*RT60))
def test_reverberation_convolves_each_example_with_its_room_and_keeps_its_power(x, level, seconds):
    heard = distorted("reverberation", x, level)
    for each, room, found in zip(x.numpy(), response(x, seconds).numpy(), heard.numpy(), strict=True):
        expected = scipy.signal.fftconvolve(each, room, axes=1)[:, : each.shape[1]]
        expected *= np.sqrt((each**2).mean() / (expected**2).mean())
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("seconds", RT60)
def test_energy_in_a_room_decays_by_60_db_in_rt60_as_schroeder_measures_it(seconds):
    x = torch.empty(64, 1, 2 * RATE)
    energy = response(x, seconds)[:, 0, 1:].square().mean(0)
    left = energy.flip(0).cumsum(0).flip(0)
    decibels = 10 * (left / left[0]).log10()
    fitted = (decibels < -5) & (decibels > -35)  # T30 of ISO 3382
    slope = np.polyfit(np.arange(len(energy))[fitted] / RATE, decibels[fitted], 1)[0]
    assert -60 / slope == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize("seconds", RT60)
def test_the_tail_is_as_strong_as_the_direct_sound_at_an_rt60_of_400_ms_and_grows_with_it(seconds):
    room = response(torch.empty(64, 1, 2 * RATE), seconds)
    assert (room[..., 0] == 1).all()
    assert float(room[..., 1:].square().sum(2).mean()) == pytest.approx(seconds / 0.4, rel=0.05)


@pytest.mark.parametrize("length", [16, 17, 18, 19, 20_480, 3001])
def test_half_the_rate_and_back_is_what_scipy_resamples(length):
    x, half = seeded(3, 1, length), (length + 1) // 2
    narrow = scipy.signal.resample(x.numpy(), half, axis=2)
    torch.testing.assert_close(resampled(x, half), torch.from_numpy(narrow))
    wide = scipy.signal.resample(narrow, length, axis=2)
    torch.testing.assert_close(resampled(torch.from_numpy(narrow), length), torch.from_numpy(wide))


def by_torchaudio(x):
    """Signal in [-1, 1] after coding by mu-law of 8 bits and decoding."""
    audio = pytest.importorskip("torchaudio.functional")
    return audio.mu_law_decoding(audio.mu_law_encoding(x, 256).to(x.dtype), 256)


def test_eight_bits_of_mu_law_are_those_of_torchaudio():
    x = torch.cat([torch.linspace(-1, 1, 4001), torch.zeros(1)]).double()
    torch.testing.assert_close(companded(x, 8), by_torchaudio(x))


@pytest.mark.parametrize("bits", [8, 7, 6, 5, 4, 4.5])
def test_mu_law_leaves_as_many_values_as_its_bits_tell_and_rounds_to_the_nearest(bits):
    x = torch.linspace(-1, 1, 100_001).double()
    found = companded(x, bits)
    values = found.unique()
    assert len(values) == round(2**bits)
    torch.testing.assert_close(values, -values.flip(0))
    assert float(values[-1]) == pytest.approx(1)
    assert torch.equal(found, found.sort().values)
    # The nearest of the values, on the scale on which their steps are equal.
    compressed = [(1 + 255 * each.abs()).log() * each.sign() for each in (x, found)]
    step = 2 * np.log(256) / (round(2**bits) - 1)
    assert float((compressed[0] - compressed[1]).abs().max()) <= step / 2 + 1e-9


def test_a_telephone_of_eight_bits_is_scipys_resampling_and_torchaudios_mu_law(x):
    heard = distorted("telephone", x, 0.2)
    for each, found in zip(x, heard, strict=True):
        narrow = torch.from_numpy(scipy.signal.resample(each.numpy(), (each.shape[1] + 1) // 2, axis=1))
        loudest = narrow.abs().max()
        coded = by_torchaudio(narrow / loudest) * loudest
        expected = scipy.signal.resample(coded.numpy(), each.shape[1], axis=1)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)


@pytest.mark.parametrize(("level", "bits"), [(0.1, 12), *by_severity(8, 7, 6, 5, 4)])
def test_a_telephone_codes_in_fewer_bits_at_each_severity(level, bits):
    x = seeded(3, 1, 4002)  # half of it is odd, so that no frequency falls on the edge of the band
    narrow = scipy.signal.resample(x.numpy(), 2001, axis=2)
    loudest = np.abs(narrow).max(2, keepdims=True)
    expected = companded(torch.from_numpy(narrow / loudest), bits).numpy() * loudest
    heard = scipy.signal.resample(distorted("telephone", x, level).numpy(), 2001, axis=2)
    np.testing.assert_allclose(heard, expected, atol=1e-9)


@pytest.mark.parametrize("level", [1e-6, 0.2, 0.7, 1.0])
def test_nothing_above_half_the_band_passes_a_telephone(level):
    heard = distorted("telephone", seeded(3, 1, 4000), level)
    spectrum = torch.fft.rfft(heard).abs()
    assert float(spectrum[..., 1001:].max()) < 1e-9 * float(spectrum.max())
