"""Second test sets of radio captures."""

import shutil

import numpy as np
import pytest
import torch

from tests.fixtures.datasets import (
    captures,
    prepared,
)
from vbs_cli.data.radio import DROPPED
from vbs_cli.errors import InvalidInput, VbsError


@pytest.fixture
def radio(tmp_path):
    return prepared(tmp_path, "radio", captures(tmp_path / "captures", devices=(4, 7, 9), sizes=(12, 6, 6)))


def capture(folder, x, y):
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(x, folder / "X_test.pth")
    torch.save(y, folder / "y_test.pth")


def raw(count=4):
    return torch.randint(-100, 100, (count, 2, 520), generator=torch.Generator().manual_seed(8), dtype=torch.int8)


def test_captures_are_cut_and_scaled_as_the_base(tmp_path, radio, second, shifted):
    capture(second / "inside", raw(), torch.tensor([9, 4, 4, 7]))
    data = shifted(radio)
    window = raw()[:, :, DROPPED:].double().flatten(1)
    low, high = window.amin(1, keepdim=True), window.amax(1, keepdim=True)
    wanted = ((window - low) / (high - low) * 2 - 1).reshape(4, 2, -1)
    torch.testing.assert_close(data.split("test").inputs(slice(None)).double(), wanted, atol=1e-6, rtol=0)
    assert data.split("test").y.tolist() == [2, 0, 0, 1]
    np.savez(tmp_path / "raw.npz", x=raw().numpy(), y=[9, 4, 4, 7])
    assert np.array_equal(shifted(radio, tmp_path / "raw.npz", name="raw").split("test").x, data.split("test").x)


def test_the_test_captures_of_the_base_come_out_as_they_are_and_training_ones_are_refused(tmp_path, radio, shifted):
    again = shifted(radio, tmp_path / "captures")
    assert np.array_equal(again.split("test").x, radio.split("test").x)
    shutil.copy(tmp_path / "captures" / "X_train.pth", tmp_path / "captures" / "X_test.pth")
    shutil.copy(tmp_path / "captures" / "y_train.pth", tmp_path / "captures" / "y_test.pth")
    with pytest.raises(InvalidInput, match=r"12 of 12 examples are in .* number 0 is train 0"):
        shifted(radio, tmp_path / "captures", name="other")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (raw()[:, :, :-1], torch.tensor([4, 4, 4, 4]), r"windows of shape \(2, 519\), where \(2, 520\) were needed"),
        (raw(), torch.tensor([4, 4, 4, 8]), "has the class '8', which radio lacks"),
        (raw(), torch.tensor([4.0, 4.0, 4.0, 4.5]), r"torch\.float32 labels; give whole numbers"),
        (raw(), torch.tensor([4, 4]), "4 windows and labels of shape"),
        ({"x": raw()}, torch.tensor([4, 4, 4, 4]), "it holds a dict"),
    ],
)
def test_captures_that_do_not_fit_are_refused(radio, second, shifted, x, y, message):
    capture(second, x, y)
    with pytest.raises(VbsError, match=message):
        shifted(radio)


@pytest.mark.outside_data("radio-captures")
def test_real_captures_come_out_as_the_base_has_them(tmp_path, outside_data, shifted):
    for folder in ("own", "second"):
        (tmp_path / folder).mkdir()
    for split, step in (("train", 10), ("val", 10), ("test", 1)):
        for letter in ("X", "y"):
            tensor = torch.load(outside_data / f"{letter}_{split}.pth", weights_only=True)
            for folder in ("own", "second") if split == "test" else ("own",):
                torch.save(tensor[::step].clone(), tmp_path / folder / f"{letter}_{split}.pth")
    base = prepared(tmp_path, "radio", tmp_path / "own")
    data = shifted(base)
    assert data.counts == {"test": 1739}
    assert data.files["x_test.npy"] == base.files["x_test.npy"]
    assert data.files["y_test.npy"] == base.files["y_test.npy"]
