"""Prepared datasets: complete or not there, and checked when they are read."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import COUNTS, small_preparation, tones
from vbs_cli.data import open_dataset, prepare
from vbs_cli.errors import DamagedArtifact, MissingArtifact, UnknownName, VbsError


def test_what_was_prepared_can_be_read_back(made):
    data = open_dataset(made / "data", "radio")
    for split, count in COUNTS.items():
        x, y = next(tones(split))
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


def test_too_few_examples_are_an_error(tmp_path):
    counts = {**COUNTS, "train": COUNTS["train"] + 1}
    with pytest.raises(VbsError, match="96 rows instead of 97"):
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
