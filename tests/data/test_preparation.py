"""From batches to a prepared dataset: recordings, names, what is refused and what is counted."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import COUNTS, small_preparation, tones
from vbs_cli.data import DATASETS, Preparation, Request, check_request, open_dataset, prepare
from vbs_cli.data.preparation import Batch, origin_recipe
from vbs_cli.errors import InvalidInput, UnknownName, VbsError

CROP = 4


def sounds(split):
    """Two batches; the training recordings have 4 to 9 samples, those of the other splits are cut already."""
    for start in (0, 3):
        numbers = range(start, start + 3)
        whole = [np.arange(10 * i, 10 * i + CROP + i, dtype=np.int16) for i in numbers]
        x = whole if split == "train" else np.stack([sound[:CROP] for sound in whole])[:, None]
        yield Batch(x, [i % 2 for i in numbers], [f"{split}-{i}" for i in numbers])


def sound_preparation(**changes):
    values = {
        "source": "made",
        "licence": "none",
        "class_names": ("even", "odd"),
        "shape": (1, CROP),
        "counts": dict.fromkeys(COUNTS, 6),
        "batches": sounds,
        "dtype": "int16",
        "recordings": ("train",),
    }
    return Preparation(**{**values, **changes})


def test_recordings_are_kept_whole_and_the_other_splits_as_they_were_cut(tmp_path):
    data = prepare(tmp_path, "librispeech", sound_preparation())
    train, test = data.split("train"), data.split("test")
    assert train.x.length.tolist() == [4, 5, 6, 7, 8, 9]
    assert train.y.tolist() == test.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert (train.inputs(np.array([5])) * 2**15).flatten().tolist() == [50, 51, 52, 53]
    assert torch.equal(train.inputs(slice(None)), test.inputs(slice(None)))
    assert test.x.shape == (6, 1, CROP)
    assert data.class_names == ("even", "odd")


def test_the_names_of_the_examples_are_kept_with_them(tmp_path):
    prepare(tmp_path, "librispeech", sound_preparation())
    assert open_dataset(tmp_path, "librispeech").ids("val") == [f"val-{i}" for i in range(6)]
    assert prepare(tmp_path, "radio", small_preparation()).ids("val") == []


def test_what_is_left_out_is_counted_and_nothing_else_may_be_missing(tmp_path):
    more = {**dict.fromkeys(COUNTS, 6), "train": 8}
    left_out = Counter({"listed, but not there": 5})  # before anything is read

    def some_short(split):
        left_out["shorter than the crop"] += 2 * (split == "train")
        yield from sounds(split)

    data = prepare(tmp_path, "librispeech", sound_preparation(counts=more, batches=some_short, left_out=left_out))
    assert data.left_out == {"listed, but not there": 5, "shorter than the crop": 2}
    assert data.counts["train"] == 6
    with pytest.raises(VbsError, match="2 examples of librispeech are missing and not counted"):
        prepare(tmp_path, "librispeech", sound_preparation(counts=more))


def test_a_class_without_training_examples_is_named(tmp_path):
    named = sound_preparation(class_names=("even", "odd", "none"))
    with pytest.raises(VbsError, match=r"1 of 3 classes have no training example \(none\)"):
        prepare(tmp_path, "librispeech", named)


def test_an_empty_split_is_refused(tmp_path):
    def nothing(split):
        yield from () if split == "val" else sounds(split)

    with pytest.raises(VbsError, match="the val split is empty"):
        prepare(tmp_path, "librispeech", sound_preparation(batches=nothing))


def test_the_same_example_in_two_splits_is_refused(tmp_path):
    def again(split):
        x, y, _ = next(tones(split))
        if split == "test":
            x[30] = next(tones("train")).x[2]
        yield Batch(x, y)

    with pytest.raises(VbsError, match="example train 2 and example test 30 are the same"):
        prepare(tmp_path, "radio", replace(small_preparation(), batches=again))


def test_inputs_of_another_shape_are_refused(tmp_path):
    with pytest.raises(VbsError, match="rows of shape"):
        prepare(tmp_path, "radio", replace(small_preparation(), shape=(2, 100)))


@pytest.mark.parametrize(
    ("dataset", "request_", "message"),
    [
        ("librispeech", Request(simulate=True), "--simulate means nothing to librispeech"),
        ("librispeech", Request(profile="paper"), "--profile means nothing"),
        ("radio", Request(skip_bad=True), "--skip-bad means nothing to radio"),
        ("cifar10", Request(size=3), "--size means nothing to cifar10"),
    ],
)
def test_options_that_mean_nothing_to_a_dataset_are_refused(dataset, request_, message):
    with pytest.raises(InvalidInput, match=message):
        check_request(dataset, request_)


def test_an_origin_must_exist_and_excludes_a_simulation(tmp_path):
    with pytest.raises(InvalidInput, match="there is nothing at"):
        check_request("radio", Request(origin=tmp_path / "none"))
    with pytest.raises(InvalidInput, match="exclude each other"):
        check_request("radio", Request(origin=tmp_path, simulate=True))
    with pytest.raises(UnknownName):
        check_request("raido", Request())


def test_an_origin_is_known_by_its_content_wherever_it_lies(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text("content")
    recipes = [origin_recipe(Request(origin=tmp_path / name)) for name in ("a", "b")]
    assert recipes[0] == recipes[1]
    (tmp_path / "b" / "deep" / "file").write_text("other")
    assert origin_recipe(Request(origin=tmp_path / "b")) != recipes[0]
    (tmp_path / "a" / "deep" / "file").rename(tmp_path / "a" / "deep" / "renamed")
    assert origin_recipe(Request(origin=tmp_path / "a")) != recipes[0]


def test_a_request_tells_its_command(tmp_path):
    request = Request(origin=tmp_path / "x", skip_bad=True, crop=2.5)
    assert request.command("folder") == f"vbs download --dataset folder --from {tmp_path / 'x'} --crop 2.5 --skip-bad"
    assert Request().command("cifar10") == "vbs download --dataset cifar10"


def test_every_dataset_takes_known_options_and_names_a_command():
    known = set(Request.__dataclass_fields__)
    for name, dataset in DATASETS.items():
        assert dataset.takes <= known
        assert dataset.command.startswith(f"vbs download --dataset {name}")
        assert dataset.summary
