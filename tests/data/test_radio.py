"""The radio dataset: what becomes of captured and of simulated windows."""

import os
import pickle
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fixtures.datasets import SAMPLES, captures
from vbs_cli.data import DATASETS, Request, Workspace, open_dataset, prepare, radio, radio_sim
from vbs_cli.errors import InvalidInput, NotFinite, VbsError


@contextmanager
def opened(folder, **request):
    work = Workspace(folder / "downloads", folder / "scratch")
    with DATASETS["radio"].open(Request(**request), work) as preparation:
        yield preparation


def made(tmp_path, origin):
    with opened(tmp_path, origin=origin) as preparation:
        return prepare(tmp_path / "data", "radio", preparation)


def test_each_example_is_scaled_to_one_by_its_own_range_over_both_channels():
    x = torch.tensor([[[0.0, 2.0], [4.0, 1.0]], [[-3.0, -1.0], [-2.0, -1.5]]])
    expected = [[[-1.0, 0.0], [1.0, -0.5]], [[-1.0, 1.0], [0.0, 0.5]]]
    np.testing.assert_allclose(radio.scale(x), expected)


def test_a_constant_example_stays_finite():
    assert torch.isfinite(radio.scale(torch.full((1, 2, 4), 3.0))).all()


def test_the_first_500_samples_are_dropped_before_scaling(monkeypatch, tmp_path):
    monkeypatch.setitem(radio.SIZES, "quick", {"train": 40, "val": 20, "test": 20})
    with opened(tmp_path, simulate=True, seed=3) as preparation:
        ((x, y, _),) = preparation.batches("train")
    ((raw, labels),) = radio_sim.batches("train", 40, seed=3)
    assert x.shape == (40, *preparation.shape) == (40, 2, 1580)
    assert torch.equal(y, labels)
    assert torch.equal(x, radio.scale(raw[:, :, 500:]))
    assert torch.equal(x.amin((1, 2)), -torch.ones(40))
    torch.testing.assert_close(x.amax((1, 2)), torch.ones(40))


def test_sizes_are_those_of_the_profiles_and_the_source_says_simulated(tmp_path):
    with opened(tmp_path, simulate=True, profile="paper") as paper:
        assert list(paper.counts.values()) == [70_000, 9_900, 20_100]
    with opened(tmp_path, simulate=True) as quick:
        assert list(quick.counts.values()) == [6_000, 1_500, 3_000]
    assert quick.source.startswith("simulated")
    assert radio.recipe(Request(simulate=True)) != radio.recipe(Request(simulate=True, seed=1))


@pytest.mark.parametrize("option", [{"seed": 1}, {"profile": "paper"}])
def test_captures_have_neither_a_seed_nor_a_profile(tmp_path, option):
    with pytest.raises(InvalidInput, match="means nothing to captures"):
        radio.recipe(Request(origin=tmp_path, **option))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.float16, torch.float64])
def test_captures_of_any_numeric_type_are_scaled_alike(tmp_path, dtype):
    data = made(tmp_path, captures(tmp_path / "files", dtype=dtype))
    raw = torch.load(tmp_path / "files" / "X_val.pth", weights_only=True).float()[:, :, 500:]
    val = data.split("val")
    assert torch.equal(val.inputs(slice(None)), radio.scale(raw))
    assert data.shape == (2, SAMPLES - 500)
    assert data.counts == {"train": 12, "val": 6, "test": 6}


def test_labels_of_any_whole_numbers_become_classes(tmp_path):
    data = made(tmp_path, captures(tmp_path / "files", devices=(40, -7, 12)))
    assert data.class_names == ("-7", "12", "40")
    assert data.split("train").y.tolist() == [2, 0, 1] * 4


def test_an_archive_of_a_folder_is_taken_as_well(tmp_path):
    folder = captures(tmp_path / "files")
    archive = shutil.make_archive(tmp_path / "files", "zip", tmp_path, "files")
    assert made(tmp_path / "a", Path(archive)).files == made(tmp_path / "b", folder).files


def test_files_of_old_versions_of_torch_are_read_too(tmp_path):
    folder = captures(tmp_path / "files")
    new = torch.load(folder / "X_test.pth", weights_only=True)
    torch.save(new, folder / "X_test.pth", _use_new_zipfile_serialization=False)
    assert len(made(tmp_path, folder).split("test")) == 6


def test_a_malicious_file_is_refused_and_its_code_not_run(tmp_path):
    folder = captures(tmp_path / "files")

    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "pwned"),)

    for write in (lambda path: path.write_bytes(pickle.dumps(Attack())), lambda path: torch.save(Attack(), path)):
        write(folder / "X_val.pth")
        with pytest.raises(VbsError, match=r"X_val\.pth is not a tensor that can be read safely"):
            made(tmp_path, folder)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("X_val.pth", torch.zeros(6, 3, SAMPLES), r"X_val\.pth has torch\.float32 of shape \(6, 3, 520\)"),
        ("X_val.pth", torch.zeros(6, 2, SAMPLES + 1), r"shape \(6, 2, 521\)"),
        ("X_train.pth", torch.zeros(12, 2, 500), r"more than 500 samples"),
        ("X_test.pth", torch.zeros(6, 2, SAMPLES, dtype=torch.complex64), "complex64"),
        ("y_test.pth", torch.zeros(5, dtype=torch.int64), r"6 windows and labels of shape \(5,\)"),
        ("y_test.pth", torch.full((6,), 9), "a device 9 that training lacks"),
        ("X_test.pth", [1, 2], "it holds a list"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, name, content, message):
    folder = captures(tmp_path / "files")
    torch.save(content, folder / name)
    with pytest.raises(VbsError, match=message):
        made(tmp_path, folder)


def test_samples_that_are_not_numbers_are_located(tmp_path):
    folder = captures(tmp_path / "files")
    x = torch.load(folder / "X_val.pth", weights_only=True)
    x[4, 1, 510] = torch.nan
    torch.save(x, folder / "X_val.pth")
    with pytest.raises(NotFinite, match="first in window 4"):
        made(tmp_path, folder)


def test_a_window_in_two_splits_is_refused(tmp_path):
    folder = captures(tmp_path / "files")
    train, test = (torch.load(folder / name, weights_only=True) for name in ("X_train.pth", "X_test.pth"))
    test[3] = train[7]
    torch.save(test, folder / "X_test.pth")
    with pytest.raises(VbsError, match="example train 7 and example test 3 are the same"):
        made(tmp_path, folder)
    assert not (tmp_path / "data" / "radio").exists()


def test_a_missing_file_is_named_with_those_that_belong_there(tmp_path):
    folder = captures(tmp_path / "files")
    (folder / "y_val.pth").unlink()
    with pytest.raises(VbsError, match=r"y_val\.pth is missing; --from takes a folder with X_train\.pth"):
        made(tmp_path, folder)


@pytest.mark.outside_data("radio-captures")
def test_real_captures(tmp_path, outside_data):
    data = made(tmp_path, outside_data)
    assert data.counts == {"train": 6115, "val": 1078, "test": 1739}
    assert data.classes == 20
    x = data.split("test").inputs(slice(0, 100))
    assert (x.amin((1, 2)) == -1).all()
    torch.testing.assert_close(x.amax((1, 2)), torch.ones(100))
    assert open_dataset(tmp_path / "data", "radio").fingerprint == data.fingerprint
