"""LibriSpeech: lists, halves, classes, and corpora of the user's own in the same layout."""

import tarfile
from collections import Counter

import numpy as np
import pytest
import soundfile
import torch

from tests.fixtures.datasets import corpus
from vbs_cli.data import DATASETS, Request, Workspace, prepare
from vbs_cli.data.librispeech import LISTS, make_lists, official_list
from vbs_cli.errors import VbsError


def made(tmp_path, origin, **request):
    work = Workspace(tmp_path / "downloads", tmp_path / "scratch")
    with DATASETS["librispeech"].open(Request(origin=origin, **request), work) as preparation:
        recipe = DATASETS["librispeech"].recipe(Request(origin=origin, **request))
        return prepare(tmp_path / "data", "librispeech", preparation, recipe=recipe)


def test_the_official_lists_have_251_speakers_and_the_sizes_of_the_paper():
    train, test = map(official_list, LISTS)
    lists = make_lists(train, test)
    assert {split: len(names) for split, names in lists.splits.items()} == {"train": 22830, "val": 2854, "test": 2854}
    assert len(lists.speakers) == 251
    assert lists.speakers[0] == train[0].split("-")[0]
    for names in lists.splits.values():
        assert len({name.split("-")[0] for name in names}) == 251


@pytest.mark.outside_data("librispeech100-split")
def test_the_lists_that_come_with_the_package_are_the_official_ones(outside_data):
    for name in LISTS:
        assert official_list(name) == (outside_data / name).read_text().split()


def test_the_test_list_is_halved_speaker_by_speaker():
    test = [f"{speaker}-1-{i}" for speaker in ("a", "b") for i in range(4)] + ["c-1-0"]
    lists = make_lists(["a-0-0", "b-0-0", "c-0-0"], test)
    val, rest = lists.splits["val"], lists.splits["test"]
    assert sorted(val + rest) == sorted(test)
    assert Counter(name[0] for name in val) == {"a": 2, "b": 2, "c": 1}
    assert Counter(name[0] for name in rest) == {"a": 2, "b": 2}
    assert val == [name for name in test if name in val]


def test_classes_follow_first_appearance_in_the_training_list():
    assert make_lists(["9-0-0", "84-0-0", "9-0-1"], ["84-0-1", "9-0-2"]).speakers == ("9", "84")


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (["1-1-1", "2-1-1"], ["2-1-1", "1-1-2"], "1 utterances are listed twice, 2-1-1 first"),
        (["1-1-1", "1-1-1"], ["1-1-2"], "1-1-1 first"),
        (["1-1"], ["1-1-2"], "'1-1' is not the name of an utterance"),
    ],
)
def test_lists_that_make_no_sense_are_refused(train, test, message):
    with pytest.raises(VbsError, match=message):
        make_lists(train, test)


def test_a_corpus_with_lists_of_its_own(tmp_path):
    data = made(tmp_path, corpus(tmp_path / "corpus"))
    assert data.counts == {"train": 12, "val": 3, "test": 3}
    assert data.class_names == ("84", "9", "710")
    train, test = data.split("train"), data.split("test")
    assert train.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert train.x.length.tolist() == [24_000] * 12
    assert data.ids("test") == ["84-12-0005", "9-12-0005", "710-12-0005"]
    whole, _ = soundfile.read(tmp_path / "corpus/LibriSpeech/dev-clean/9/12/9-12-0005.flac", dtype="float32")
    window = test.inputs(np.array([1]))[0, 0]
    assert window.shape == (20_480,)
    places = torch.from_numpy(whole).unfold(0, 20_480, 1)
    assert (places == window).all(1).sum() == 1


def test_a_folder_and_a_tar_of_it_give_the_same_arrays(tmp_path):
    folder = corpus(tmp_path / "corpus")
    packed = tmp_path / "corpus.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(folder, "corpus")
    from_folder, from_tar = made(tmp_path / "a", folder), made(tmp_path / "b", packed)
    assert from_folder.files == from_tar.files
    assert from_folder.recipe != from_tar.recipe


def test_every_preparation_gives_the_same_bits(tmp_path):
    folder = corpus(tmp_path / "corpus")
    assert made(tmp_path / "a", folder).fingerprint == made(tmp_path / "b", folder).fingerprint


def test_a_corpus_without_lists_is_taken_for_the_official_one(tmp_path):
    with pytest.raises(VbsError, match=r"28,538 of 28,538 listed utterances are not in .*lists of your own"):
        made(tmp_path, corpus(tmp_path / "corpus", lists=False))


def test_half_of_the_lists_is_not_enough(tmp_path):
    folder = corpus(tmp_path / "corpus")
    (folder / "lists" / "test_split.txt").unlink()
    with pytest.raises(VbsError, match=r"should have one test_split\.txt and has none"):
        made(tmp_path, folder)


def test_missing_and_damaged_utterances_stop_or_are_counted(tmp_path):
    folder = corpus(tmp_path / "corpus")
    (folder / "LibriSpeech/dev-clean/84/12/84-12-0001.flac").unlink()
    with pytest.raises(VbsError, match=r"1 of 18 listed utterances are not in .*, 84-12-0001 first"):
        made(tmp_path, folder)
    broken = folder / "LibriSpeech/dev-clean/9/12/9-12-0004.flac"
    broken.write_bytes(broken.read_bytes()[:999])
    data = made(tmp_path, folder, skip_bad=True)
    assert data.left_out == {"listed, but not there": 1, "damaged": 1}
    assert data.counts == {"train": 11, "val": 2, "test": 3}
    assert data.ids("train")[:2] == ["84-12-0000", "84-12-0002"]


def test_utterances_shorter_than_the_crop_are_left_out_and_counted(tmp_path):
    folder = corpus(tmp_path / "corpus")
    short = folder / "LibriSpeech/dev-clean/710/12/710-12-0002.flac"
    soundfile.write(short, np.zeros(20_479, np.int16), 16_000)
    data = made(tmp_path, folder)
    assert data.left_out == {"shorter than the crop": 1}
    assert data.counts["train"] == 11


@pytest.mark.outside_data("librispeech-subset.tar")
def test_real_speech(tmp_path, outside_data):
    data = made(tmp_path, outside_data)
    assert data.counts == {"train": 800, "val": 100, "test": 100}
    assert data.classes == 40
    assert data.left_out == {}
    assert not (tmp_path / "scratch").exists()
    assert len(set(data.split("val").y.tolist())) == len(set(data.split("test").y.tolist())) == 40
    assert 0.01 < float(data.split("test").inputs(slice(None)).std()) < 0.2
