"""Sound files: exact samples, damage that decoders pass over, other rates, windows that can be repeated."""

from collections import Counter

import numpy as np
import pytest
import soundfile
import torch

from vbs_cli.data.audio import AudioReading, BadRecording, read_samples
from vbs_cli.data.preparation import Example
from vbs_cli.errors import VbsError

RATE = 16_000
READING = AudioReading(rate=RATE, crop=1_000)


def tone(seconds=0.5, rate=RATE, channels=1, frequency=440.0):
    time = np.arange(round(seconds * rate)) / rate
    wave = np.round(8_000 * np.sin(2 * np.pi * frequency * time)).astype(np.int16)
    return wave if channels == 1 else np.stack([wave] * channels, 1)


def recording(folder, name="a", wave=None, rate=RATE, suffix=".flac", label=0):
    path = folder / f"{name}{suffix}"
    soundfile.write(path, tone() if wave is None else wave, rate)
    return Example(path, label, name)


@pytest.mark.parametrize("suffix", [".flac", ".wav"])
def test_samples_are_those_that_were_written(tmp_path, suffix):
    wave = np.random.default_rng(0).integers(-(2**15), 2**15, 5_000, dtype=np.int16)
    path = recording(tmp_path, wave=wave, suffix=suffix).path
    np.testing.assert_array_equal(read_samples(path, rate=RATE), wave)


@pytest.mark.parametrize("keep", [0, 20, 60, 2_000, -40])
def test_a_flac_file_that_ends_early_is_named(tmp_path, keep):
    path = recording(tmp_path).path
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadRecording, match=r"a\.flac is damaged: .*--skip-bad"):
        read_samples(path, rate=RATE)


def test_flipped_bits_in_a_flac_file_are_found(tmp_path):
    """The decoder itself passes over most of them; the MD5 in the file does not."""
    path = recording(tmp_path, wave=np.random.default_rng(0).integers(-99, 99, 9_000, dtype=np.int16)).path
    content = path.read_bytes()
    for position in range(200, len(content), len(content) // 25):
        broken = bytearray(content)
        broken[position] ^= 8
        path.write_bytes(broken)
        with pytest.raises(BadRecording, match="damaged"):
            read_samples(path, rate=RATE)


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (RATE, 2), (44_100, 2)])
def test_another_rate_or_stereo_is_refused_unless_it_may_be_converted(tmp_path, rate, channels):
    path = recording(tmp_path, wave=tone(rate=rate, channels=channels), rate=rate).path
    with pytest.raises(VbsError, match=rf"has {rate:,} Hz and {channels} channels .* --resample converts it"):
        read_samples(path, rate=RATE)
    converted = read_samples(path, rate=RATE, resample=True)
    assert abs(len(converted) - RATE // 2) <= 1
    middle = slice(1_000, 7_000)
    np.testing.assert_allclose(converted[middle], tone()[: len(converted)][middle], atol=200)


def test_conversion_stays_within_16_bits(tmp_path):
    loud = np.where(np.arange(8_000) % 100 < 50, 2**15 - 1, -(2**15)).astype(np.int16)
    path = recording(tmp_path, wave=loud, rate=8_000).path
    converted = read_samples(path, rate=RATE, resample=True)
    assert np.abs(np.diff(converted.astype(int))).max() < 2**16  # no wrap from one end of the range to the other
    assert converted.max() > 30_000
    assert converted.min() < -30_000


def batches(reading, recordings, left_out=None, window=None):
    return list(reading.batches(recordings, Counter() if left_out is None else left_out, window=window))


def test_recordings_come_in_order_with_their_labels_and_names(tmp_path):
    many = [recording(tmp_path, f"r{i}", tone(frequency=200 + 10 * i), label=i % 3) for i in range(70)]
    found = batches(READING, many)
    assert [len(batch.y) for batch in found] == [64, 6]
    assert [name for batch in found for name in batch.ids] == [f"r{i}" for i in range(70)]
    assert [y for batch in found for y in batch.y] == [i % 3 for i in range(70)]
    np.testing.assert_array_equal(found[1].x[2], tone(frequency=200 + 10 * 66))


def test_recordings_shorter_than_the_crop_are_left_out_and_counted(tmp_path):
    some = [recording(tmp_path, f"r{n}", tone()[:n]) for n in (999, 1_000, 1_001)]
    left_out = Counter()
    (batch,) = batches(READING, some, left_out)
    assert batch.ids == ["r1000", "r1001"]
    assert left_out == {"shorter than the crop": 1}


def test_a_damaged_recording_stops_everything_unless_bad_ones_are_skipped(tmp_path):
    some = [recording(tmp_path, f"r{i}") for i in range(3)]
    some[1].path.write_bytes(b"nonsense")
    with pytest.raises(VbsError, match=r"r1\.flac is damaged"):
        batches(READING, some)
    left_out = Counter()
    (batch,) = batches(AudioReading(rate=RATE, crop=1_000, skip_bad=True), some, left_out)
    assert batch.ids == ["r0", "r2"]
    assert left_out == {"damaged": 1}


def test_a_window_depends_on_the_names_of_dataset_split_and_recording_alone(tmp_path):
    wave = np.random.default_rng(0).integers(-99, 99, 9_000, dtype=np.int16)
    some = [recording(tmp_path, name, wave) for name in ("a", "b", "c")]
    (forward,), (backward,) = (batches(READING, order, window=("librispeech", "val")) for order in (some, some[::-1]))
    assert forward.x.shape == (3, 1, 1_000)
    np.testing.assert_array_equal(forward.x, backward.x[::-1])
    assert not np.array_equal(forward.x[0], forward.x[1])
    (other,) = batches(READING, some, window=("librispeech", "test"))
    assert not np.array_equal(forward.x[0], other.x[0])


def test_windows_reach_both_ends_of_a_recording():
    starts = {int(READING.window(np.arange(1_004), "d", "val", str(i))[0]) for i in range(200)}
    assert starts == set(range(5))


def test_a_batch_of_which_nothing_is_left_has_the_right_shape(tmp_path):
    (batch,) = batches(READING, [recording(tmp_path, wave=tone()[:10])], window=("d", "val"))
    assert batch.x.shape == (0, 1, 1_000)
    assert torch.from_numpy(batch.x).dtype == torch.int16
