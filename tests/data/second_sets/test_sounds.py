"""Second test sets of recordings."""

import re
import shutil

import numpy as np
import pytest
import soundfile

from tests.fixtures.datasets import (
    CLASSES,
    RATE,
    corpus,
    extracted,
    prepared,
    write_sounds,
)
from vbs_cli.errors import InvalidInput, VbsError


@pytest.fixture
def sounds(tmp_path):
    write_sounds(tmp_path / "own", CLASSES)
    return prepared(tmp_path, "folder", tmp_path / "own", crop=0.5)


def test_sounds_are_cut_to_the_windows_of_the_base(sounds, second, shifted):
    write_sounds(second, {"ant": 2, "bee": 3}, seed=1)
    data = shifted(sounds)
    assert data.shape == sounds.shape == (1, 500)
    assert data.split("test").x.dtype == np.int16
    assert data.split("test").y.tolist() == [0, 0, 1, 1, 1]
    for name, window in zip(data.ids("test"), data.split("test").x, strict=True):
        whole = soundfile.read(second / name, dtype="int16")[0]
        assert (np.lib.stride_tricks.sliding_window_view(whole, 500) == window[0]).all(1).any()


def test_a_recording_of_the_test_split_gets_the_window_that_it_has_there(tmp_path, sounds, second, shifted):
    for name in sounds.ids("test"):
        (second / name).parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "own" / name, second / name)
    assert np.array_equal(shifted(sounds).split("test").x, sounds.split("test").x)


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_recording_that_training_or_validation_heard_is_refused_under_any_name(
    tmp_path, sounds, second, shifted, split
):
    write_sounds(second, {"ant": 1, "bee": 1}, seed=1)
    shutil.copy(tmp_path / "own" / sounds.ids(split)[2], second / "bee" / "other.wav")
    with pytest.raises(InvalidInput, match=rf"1 of 3 examples are in .*bee/other\.wav is {split} 2"):
        shifted(sounds)


def test_silence_and_a_few_samples_in_common_make_no_copy(tmp_path, sounds, second, shifted):
    samples = soundfile.read(tmp_path / "own" / sounds.ids("val")[0], dtype="int16")[0]
    samples[::100] ^= 1
    write_sounds(second, {"ant": 2}, seed=1, silence=0.9)
    soundfile.write(second / "ant" / "alike.wav", samples, RATE)
    assert shifted(sounds).counts == {"test": 3}
    write_sounds(tmp_path / "quiet", CLASSES, silence=0.9)
    quiet = prepared(tmp_path, "folder", tmp_path / "quiet", crop=0.5)
    assert not quiet.split("val").x[0].any()
    assert shifted(quiet, force=True).counts == {"test": 3}


def test_another_rate_is_refused_or_converted_as_the_base_was(tmp_path, sounds, second, shifted):
    write_sounds(second, {"ant": 2}, seed=1, rate=2 * RATE)
    with pytest.raises(VbsError, match=r"has 2,000 Hz and 1 channels instead of 1,000 Hz and 1; .*prepare folder with"):
        shifted(sounds)
    base = prepared(tmp_path, "folder", tmp_path / "own", crop=0.5, resample=True)
    assert shifted(base).split("test").x.shape == (2, 1, 500)


def test_recordings_shorter_than_the_window_are_left_out_unless_all_are(sounds, second, shifted):
    write_sounds(second, {"ant": 2}, seed=1, seconds=0.3)
    with pytest.raises(VbsError, match=r"all 2 recordings of test are left out.*give recordings of 0\.5 s or more"):
        shifted(sounds)
    write_sounds(second, {"bee": 1}, seed=1)
    assert shifted(sounds).left_out == {"shorter than the crop": 2}


def test_librispeech_is_read_by_speaker_and_chapter(tmp_path, second, shifted):
    base = prepared(tmp_path, "librispeech", corpus(tmp_path / "corpus"))
    rng = np.random.default_rng(1)
    for name in ("710-99-0000", "84-98-0001"):
        path = second / "LibriSpeech" / "other" / name.split("-")[0] / name.split("-")[1] / f"{name}.flac"
        path.parent.mkdir(parents=True)
        soundfile.write(path, rng.integers(-999, 999, 24_000, dtype=np.int16), 16_000)
    data = shifted(base)
    assert data.shape == (1, 20_480)
    assert dict(zip(data.ids("test"), data.split("test").y.tolist(), strict=True)) == {
        "710-99-0000": base.class_names.index("710"),
        "84-98-0001": base.class_names.index("84"),
    }
    shutil.rmtree(second / "LibriSpeech" / "other" / "84")
    assert shifted(base, name="alone").split("test").y.tolist() == [base.class_names.index("710")]
    again = tmp_path / "corpus" / "LibriSpeech"
    keep = base.ids("test")
    for path in again.rglob("*.flac"):
        if path.stem not in keep:
            path.unlink()
    same = shifted(base, tmp_path / "corpus", name="same")
    windows = dict(zip(base.ids("test"), base.split("test").x, strict=True))
    for name, window in zip(same.ids("test"), same.split("test").x, strict=True):
        assert np.array_equal(window, windows[name])


@pytest.mark.outside_data("librispeech-subset.tar")
def test_real_speech_of_other_chapters_is_a_test_set_and_that_of_training_is_refused(tmp_path, outside_data, shifted):
    extracted(outside_data, tmp_path / "own", re.compile(r".*/(84|2035)/\d+/.*\.flac").fullmatch, 50)
    speakers = tmp_path / "own" / "LibriSpeech" / "dev-clean"
    other = tmp_path / "other"
    for speaker in speakers.iterdir():
        chapters = sorted(speaker.iterdir(), key=lambda path: len(list(path.iterdir())))
        shutil.copytree(chapters[0], other / speaker.name / chapters[0].name)
        shutil.rmtree(chapters[0])
    base = prepared(tmp_path, "folder", tmp_path / "own")
    data = shifted(base, other)
    assert data.counts == {"test": 9}
    assert data.split("test").y.tolist() == [0] * 7 + [1] * 2
    assert (data.split("test").inputs(slice(None)).std((1, 2)) > 0).all()
    heard = speakers / base.ids("val")[0]
    shutil.copy(heard, other / base.ids("val")[0].split("/")[0] / "renamed.flac")
    with pytest.raises(InvalidInput, match=r"1 of 10 examples are in the train or val split.*renamed\.flac is val 0"):
        shifted(base, other, name="leak")
