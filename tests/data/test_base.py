"""Prepared datasets: complete or not there, and checked when they are read."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import COUNTS, small_preparation, tones
from vbs_cli.data import Split, open_dataset, prepare
from vbs_cli.data.base import Clips
from vbs_cli.errors import DamagedArtifact, MissingArtifact, UnknownName, VbsError


def test_what_was_prepared_can_be_read_back(made):
    data = open_dataset(made / "data", "radio")
    for split, count in COUNTS.items():
        x, y, _ = next(tones(split))
        read = data.split(split)
        assert len(read) == count
        assert torch.equal(read.inputs(slice(None)), x)
        assert torch.equal(read.y, y)
    assert data.source == "simulated (sines)"


def test_blocks_cover_every_example_in_order(made):
    split = open_dataset(made / "data", "radio").split("test")
    whole = torch.cat([x for _, x in split.blocks()])
    assert torch.equal(whole, split.inputs(slice(None)))


def test_the_fingerprint_is_that_of_the_content_not_of_the_place(made, tmp_path):
    here = open_dataset(made / "data", "radio").fingerprint
    assert prepare(tmp_path, "radio", small_preparation()).fingerprint == here
    assert prepare(tmp_path, "radio", small_preparation(source="measured")).fingerprint != here


def test_a_single_flipped_bit_is_found(workplace):
    path = workplace / "data" / "radio" / "x_test.npy"
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedArtifact, match="damaged"):
        open_dataset(workplace / "data", "radio").split("test")


def test_a_missing_dataset_names_the_command(tmp_path):
    with pytest.raises(MissingArtifact, match="vbs download --dataset radio --simulate"):
        open_dataset(tmp_path, "radio")
    with pytest.raises(UnknownName, match="did you mean 'radio'"):
        open_dataset(tmp_path, "raido")


def test_an_interrupted_preparation_leaves_the_old_data_in_place(workplace):
    before = open_dataset(workplace / "data", "radio").fingerprint

    def breaks(split):
        yield from tones(split)
        if split == "val":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(workplace / "data", "radio", replace(small_preparation(), batches=breaks))
    assert open_dataset(workplace / "data", "radio").fingerprint == before


def test_examples_that_are_lost_on_the_way_are_an_error(tmp_path):
    counts = {**COUNTS, "train": COUNTS["train"] + 1}
    with pytest.raises(VbsError, match="1 examples of radio are missing and not counted as left out"):
        prepare(tmp_path, "radio", replace(small_preparation(), counts=counts))
    assert not (tmp_path / "radio").exists()


def test_foreign_json_is_refused(tmp_path):
    (tmp_path / "radio").mkdir()
    (tmp_path / "radio" / "dataset.json").write_text(json.dumps({"x": 1}))
    with pytest.raises(DamagedArtifact):
        open_dataset(tmp_path, "radio")


def test_arrays_with_pickled_objects_are_refused(workplace):
    data = open_dataset(workplace / "data", "radio")
    path = data.folder / "x_test.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DamagedArtifact):
        data.split("test")


@pytest.mark.parametrize(("dtype", "largest"), [("uint8", 255), ("int8", 128), ("int16", 32768), ("int32", 2**31)])
def test_whole_numbers_are_divided_by_the_range_of_their_type(dtype, largest):
    x = np.array([[[0, 1, np.iinfo(dtype).max]]], dtype)
    read = Split("any", "test", x, torch.zeros(1)).inputs(slice(None))
    assert read.dtype == torch.float32
    assert torch.equal(read, torch.from_numpy(x.astype(np.float32)) / largest)


def recordings():
    """Ten recordings of 50 to 59 samples, each counting up from a hundred of its own."""
    length = np.arange(50, 60)
    samples = np.concatenate([100 * i + np.arange(n) for i, n in enumerate(length)]).astype(np.int16)
    first = np.cumsum(length) - length
    return Split("any", "train", Clips(samples, first, length, np.zeros(10, np.int64), crop=50), torch.arange(10))


def test_clips_read_like_an_array():
    split = recordings()
    x = split.inputs(np.array([3, 0])) * 2**15
    assert x.shape == (2, 1, 50)
    assert x[0, 0].tolist() == list(range(300, 350))
    assert x[1, 0].tolist() == list(range(50))
    assert split.inputs(slice(2, 4)).shape == (2, 1, 50)


def test_redrawn_clips_stay_inside_their_recordings_and_reach_every_place():
    split = recordings()
    starts = set()
    for seed in range(100):
        x = split.redrawn(torch.Generator().manual_seed(seed)).inputs(slice(None)) * 2**15
        begin = x[:, 0, 0] - 100 * torch.arange(10)
        assert torch.equal(x[:, 0] - x[:, 0, :1], torch.arange(50.0).expand(10, 50))
        assert ((begin >= 0) & (begin <= torch.arange(10))).all()
        starts.add(int(begin[9]))
    assert starts == set(range(10))


def test_redrawing_depends_on_the_generator_alone_and_leaves_arrays_as_they_are(made):
    draws = [recordings().redrawn(torch.Generator().manual_seed(5)).inputs(slice(None)) for _ in range(2)]
    assert torch.equal(*draws)
    plain = open_dataset(made / "data", "radio").split("train")
    assert plain.redrawn(torch.Generator()) is plain
