"""Second test sets of images."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from tests.fixtures.datasets import (
    CLASSES,
    extracted,
    prepared,
    write_image,
    write_images,
)
from tests.fixtures.jobs import Heard
from vbs_cli.errors import InvalidInput, VbsError


def test_images_are_resized_and_cropped_as_those_of_the_base(tmp_path, second, shifted):
    write_images(tmp_path / "own", CLASSES, height=20, width=14)
    base = prepared(tmp_path, "folder", tmp_path / "own", size=10, crop=8.0)
    shutil.copytree(tmp_path / "own" / "cow", second / "cow")
    write_images(second, {"ant": 1}, seed=500, height=11, width=30)
    test = [place for place, name in enumerate(base.ids("test")) if name.startswith("cow")]
    for path in (second / "cow").iterdir():
        if f"cow/{path.name}" not in base.ids("test"):
            path.unlink()
    data = shifted(base)
    assert data.shape == (3, 8, 8)
    assert np.array_equal(data.split("test").x[1:], base.split("test").x[test])


def test_images_of_another_size_are_refused_naming_both_sizes(images, second, shifted):
    write_images(second, {"cow": 1}, height=9, width=7)
    with pytest.raises(VbsError, match=r"folder is 8 x 8, .*00\.png 7 x 9; resize them"):
        shifted(images)


def test_damaged_images_are_left_out_where_the_base_was_prepared_so(tmp_path, images, second, shifted):
    write_images(second, {"cow": 3}, seed=500)
    (second / "cow" / "01.png").write_bytes(b"broken")
    with pytest.raises(VbsError, match=r"01\.png is damaged"):
        shifted(images)
    tolerant, heard = prepared(tmp_path, "folder", tmp_path / "own", skip_bad=True), Heard()
    data = shifted(tolerant, progress=heard)
    assert (data.counts, data.left_out) == ({"test": 2}, {"damaged": 1})
    assert "folder+phone: left out 1 examples: damaged" in heard.said


# What networks know


@pytest.mark.parametrize("split", ["train", "val"])
def test_examples_of_the_training_and_validation_splits_are_refused_by_count_and_name(
    tmp_path, images, second, shifted, split
):
    write_images(second, {"ant": 2, "cow": 1}, seed=500)
    for position in (0, 1):
        pixels = images.split(split).x[position].transpose(1, 2, 0)
        write_image(second / "ant" / f"copy{position}.png", np.ascontiguousarray(pixels), compress_level=1)
    message = rf"2 of 5 examples are in the train or val split of folder too, ant/copy0\.png is {split} 0; leave them"
    with pytest.raises(InvalidInput, match=message):
        shifted(images)
    assert not (tmp_path / "data" / "folder+phone").exists()


def test_examples_of_the_test_split_may_be_there_again(tmp_path, images, second, shifted):
    for name in images.ids("test"):
        (second / name).parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "own" / name, second / name)
    data = shifted(images)
    assert np.array_equal(data.split("test").x, images.split("test").x)
    assert torch.equal(data.split("test").y, images.split("test").y)


@pytest.mark.outside_data("cifar10-images.tar.xz")
def test_other_real_images_with_a_changed_look_are_a_test_set(tmp_path, outside_data, second, shifted):
    extracted(outside_data, tmp_path / "all", lambda name: name < "train/b" and name[-8:-4] < "0040", 80)
    for path in sorted((tmp_path / "all").rglob("*.jpg")):
        label, number = path.parent.name, int(path.stem)
        if number < 30:
            (tmp_path / "own" / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / "own" / label)
        else:
            pixels = np.asarray(Image.open(path)) // 2
            write_image(second / label / f"{number}.png", pixels)
    base = prepared(tmp_path, "folder", tmp_path / "own")
    assert base.class_names == ("airplane", "automobile")
    data = shifted(base)
    assert data.counts == {"test": 20}
    assert data.split("test").inputs(slice(None)).max() <= 127 / 255
    assert data.split("test").y.tolist() == [0] * 10 + [1] * 10
