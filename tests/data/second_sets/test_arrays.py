"""Second test sets of arrays."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.fixtures.datasets import (
    noise,
    prepared,
    write_images,
    write_sounds,
)
from vbs_cli.errors import InvalidInput, NotFinite, VbsError


def some(count=40, shape=(2, 16), seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (100 * rng.normal(size=(count, *shape))).astype(dtype)


@pytest.fixture
def make_arrays(tmp_path):
    """Base of arrays with the given labels."""

    def go(labels, **options):
        np.savez(tmp_path / "own.npz", x=some(**options), y=np.resize(labels, 40))
        return prepared(tmp_path, "folder", tmp_path / "own.npz")

    return go


def save_npy(folder, x, y, ending):
    np.save(folder / f"x{ending}.npy", x)
    np.save(folder / f"y{ending}.npy", y)


def save_npz(folder, x, y, ending):
    np.savez(folder / "a.npz", **{f"x{ending}": x, f"y{ending}": y})


def save_tensors(folder, x, y, ending):
    save_file({f"x{ending}": torch.from_numpy(x), f"y{ending}": torch.from_numpy(y)}, folder / "a.safetensors")


@pytest.mark.parametrize("ending", ["", "_test"])
@pytest.mark.parametrize("save", [save_npy, save_npz, save_tensors])
def test_arrays_are_taken_as_they_are(make_arrays, second, shifted, save, ending):
    base, x = make_arrays([7, 3]), some(6, seed=1)
    save(second, x, np.array([7, 7, 3, 7, 3, 3]), ending)
    data = shifted(base)
    assert np.array_equal(data.split("test").x, x)
    assert data.split("test").y.tolist() == [1, 1, 0, 1, 0, 0]
    for path in second.glob("a.*"):
        assert shifted(base, path, name="alone").files == data.files


def test_of_arrays_for_several_splits_those_of_test_are_meant(make_arrays, tmp_path, shifted):
    base, x = make_arrays([7, 3]), some(4, seed=1)
    np.savez(tmp_path / "b.npz", x_train=some(9, seed=2), y_train=np.zeros(9, int), x_test=x, y_test=np.full(4, 3))
    assert np.array_equal(shifted(base, tmp_path / "b.npz").split("test").x, x)
    np.savez(tmp_path / "c.npz", x_train=x, y_train=np.zeros(4, int))
    with pytest.raises(VbsError, match="has arrays for train only; give x_test and y_test"):
        shifted(base, tmp_path / "c.npz", name="other")


@pytest.mark.parametrize(
    ("classes", "given", "numbers"),
    [
        (["wren", "owl"], ["wren", "owl"], [1, 0]),
        (["wren", "owl"], [b"wren", b"owl"], [1, 0]),
        (["wren", "owl"], [1, 0], [1, 0]),
        ([7, 3], [7, 3], [1, 0]),
        ([7, 3], ["7", "3"], [1, 0]),
        ([2, 1], [1, 2], [0, 1]),
        ([1, 2, 3], [3, 2], [2, 1]),
        ([9, 10], ["10", "9"], [1, 0]),
    ],
)
def test_labels_are_matched_by_text_and_number_classes_that_have_names(
    make_arrays, tmp_path, shifted, classes, given, numbers
):
    np.savez(tmp_path / "b.npz", x=some(2, seed=1), y=np.array(given))
    assert shifted(make_arrays(classes), tmp_path / "b.npz").split("test").y.tolist() == numbers


@pytest.mark.parametrize(
    ("classes", "given", "unknown"),
    [
        (["wren", "owl"], [0, 2], "0"),
        (["wren", "owl"], [-1, 0], "-1"),
        ([7, 3], [0, 1], "0"),
        ([7, 3], ["a", "7"], "a"),
    ],
)
def test_labels_that_the_base_lacks_are_refused(make_arrays, tmp_path, shifted, classes, given, unknown):
    np.savez(tmp_path / "b.npz", x=some(2, seed=1), y=np.array(given))
    with pytest.raises(InvalidInput, match=f"has the class '{unknown}'.*which folder lacks"):
        shifted(make_arrays(classes), tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (2, 17)}, r"float32 of shape \(2, 17\), the inputs of folder are float32 of shape \(2, 16\)"),
        ({"shape": (16,)}, r"float32 of shape \(1, 16\), .* \(2, 16\)"),
        ({"dtype": np.int16}, r"has int16 of shape \(2, 16\), the inputs of folder are float32"),
    ],
)
def test_arrays_of_another_shape_or_scale_are_refused_naming_both(make_arrays, tmp_path, shifted, change, message):
    np.savez(tmp_path / "b.npz", x=some(2, seed=1, **change), y=[7, 3])
    with pytest.raises(InvalidInput, match=message):
        shifted(make_arrays([7, 3]), tmp_path / "b.npz")


def test_what_is_not_finite_is_named(make_arrays, tmp_path, shifted):
    x = some(5, seed=1)
    x[3, 1, 2] = np.nan
    np.savez(tmp_path / "b.npz", x=x, y=[7, 3, 7, 3, 7])
    with pytest.raises(NotFinite, match="number 3 first"):
        shifted(make_arrays([7, 3]), tmp_path / "b.npz")


def test_arrays_that_training_knows_are_refused(make_arrays, tmp_path, shifted):
    base = make_arrays([7, 3])
    x = np.concatenate([some(2, seed=1), base.split("val").x[1:3]])
    np.savez(tmp_path / "b.npz", x=x, y=[7, 3, 7, 3])
    with pytest.raises(InvalidInput, match=r"2 of 4 examples are in .* all-00002 is val 1"):
        shifted(base, tmp_path / "b.npz")


def test_python_objects_are_not_loaded(make_arrays, second, shifted):
    save_npy(second, np.array([{}, {}]), np.array([7, 3]), "")
    with pytest.raises(VbsError, match="Python objects, which are not loaded"):
        shifted(make_arrays([7, 3]))


@pytest.mark.parametrize("names", [("x.npy", "y.npy"), ("cifar10.1_v6_data.npy", "cifar10.1_v6_labels.npy")])
def test_image_arrays_with_channels_last_are_turned(images, second, shifted, names):
    pixels = np.stack([noise(9000 + number) for number in range(4)])
    for name, array in zip(names, (pixels, np.array([2, 0, 1, 1])), strict=True):
        np.save(second / name, array)
    data = shifted(images)
    assert np.array_equal(data.split("test").x, pixels.transpose(0, 3, 1, 2))
    assert data.split("test").y.tolist() == [2, 0, 1, 1]


@pytest.mark.parametrize("write", [write_images, write_sounds])
def test_another_kind_of_data_is_refused_naming_what_the_base_has(make_arrays, second, shifted, write):
    write(second, {"7": 2, "3": 2})
    kind = "images" if write is write_images else "sounds"
    with pytest.raises(InvalidInput, match=rf"second has {kind}, the inputs of folder are float32 of shape \(2, 16\)"):
        shifted(make_arrays([7, 3]))


def test_images_are_no_test_set_for_arrays_of_another_scale(make_arrays, second, shifted):
    write_images(second, {"7": 2, "3": 2})
    message = r"second has images, the inputs of folder are float32 of shape \(3, 8, 8\)"
    with pytest.raises(InvalidInput, match=message):
        shifted(make_arrays([7, 3], shape=(3, 8, 8)))
