"""CIFAR-10 from its official archives and from images, none of which is ever unpickled."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.cifar10 import COUNT, FILES, NAMES, check_is_content, content, packed, python2, write_python2
from tests.fixtures.datasets import noise, prepared, write_image, write_images
from tests.fixtures.malice import Malice
from vbs_cli.data import DATASETS, Request, open_dataset
from vbs_cli.data.cifar10 import drawn
from vbs_cli.errors import VbsError


def write_python3(folder: Path, protocol: int) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(FILES):
        rows, labels = content(number)
        (folder / name).write_bytes(pickle.dumps({b"labels": labels, b"data": rows}, protocol=protocol))
    names = {b"label_names": [name.encode() for name in NAMES]}
    (folder / "batches.meta").write_bytes(pickle.dumps(names, protocol=protocol))


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(FILES):
        rows, labels = content(number)
        (folder / f"{name}.bin").write_bytes(np.column_stack([np.array(labels, np.uint8), rows]).tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")


WRITERS = {
    "python2": write_python2,
    "python3": lambda folder: write_python3(folder, 3),
    "protocol 4": lambda folder: write_python3(folder, 4),
    "protocol 5": lambda folder: write_python3(folder, 5),
    "binary": write_binary,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("as_archive", [True, False])
def test_official_files_are_read_from_archives_and_folders(tmp_path, writer, as_archive):
    WRITERS[writer](tmp_path / "cifar-10-batches")
    origin = packed(tmp_path / "cifar-10-batches", tmp_path / "c.tar.gz") if as_archive else tmp_path
    data = prepared(tmp_path / "out", "cifar10", origin)
    check_is_content(data)
    assert data.source == f"CIFAR-10, {origin.name}"


def test_arrays_by_columns_are_turned(tmp_path):
    write_python2(tmp_path / "c")
    (tmp_path / "c" / "data_batch_3").write_bytes(python2(*content(2), column_major=True))
    check_is_content(prepared(tmp_path / "out", "cifar10", tmp_path / "c"))


def test_the_split_is_fixed_and_takes_a_fifth():
    first, again = drawn(1000), drawn(1000)
    assert all(np.array_equal(first[split], again[split]) for split in first)
    assert (len(first["train"]), len(first["val"])) == (800, 200)
    assert sorted([*first["train"], *first["val"]]) == list(range(1000))
    assert (np.diff(first["val"]) > 0).all()


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("file", ["data_batch_2", "batches.meta"])
def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path, protocol, file):
    write_python2(tmp_path / "c")
    rows, labels = content(1)
    payload = {"data": rows, "labels": labels, "label_names": NAMES, "extra": Malice(tmp_path / "ran")}
    (tmp_path / "c" / file).write_bytes(pickle.dumps(payload, protocol=protocol))
    with pytest.raises(VbsError, match=file):
        prepared(tmp_path / "out", "cifar10", tmp_path / "c")
    assert not (tmp_path / "ran").exists()


ROWS, LABELS = content(0)


@pytest.mark.parametrize(
    "broken",
    [
        python2(ROWS, LABELS)[:5000],
        python2(ROWS, LABELS[:-1]),
        python2(ROWS[:-1], LABELS),
        python2(ROWS, [*LABELS[:-1], 77]),
        b"",
        b"no pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({"labels": LABELS}),
        pickle.dumps({"labels": LABELS, "data": "x" * 3072 * COUNT}),
        pickle.dumps({"labels": [str(label) for label in LABELS], "data": ROWS}),
    ],
)
def test_a_batch_that_is_not_what_it_should_be_is_refused(tmp_path, broken):
    write_python2(tmp_path / "c")
    (tmp_path / "c" / "data_batch_1").write_bytes(broken)
    with pytest.raises(VbsError, match=r"data_batch_1|train batches"):
        prepared(tmp_path / "out", "cifar10", tmp_path / "c")
    assert not (tmp_path / "out" / "data" / "cifar10").exists()


@pytest.mark.parametrize("name", ["data_batch_4", "test_batch", "batches.meta"])
def test_a_missing_file_is_named(tmp_path, name):
    write_python2(tmp_path / "c")
    (tmp_path / "c" / name).unlink()
    with pytest.raises(VbsError, match=f"{name} is missing"):
        prepared(tmp_path / "out", "cifar10", tmp_path / "c")


def test_half_a_record_is_refused(tmp_path):
    write_binary(tmp_path / "c")
    path = tmp_path / "c" / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(VbsError, match="no whole number of images"):
        prepared(tmp_path / "out", "cifar10", tmp_path / "c")


def test_images_are_read_with_classes_by_name_and_ids_by_path(tmp_path):
    write_images(
        tmp_path / "c", {"train/frog": 10, "train/cat": 10, "test/frog": 2, "test/cat": 2}, height=32, width=32
    )
    data = prepared(tmp_path / "out", "cifar10", packed(tmp_path / "c", tmp_path / "c.tar.gz"))
    assert data.class_names == ("cat", "frog")
    assert data.counts == {"train": 16, "val": 4, "test": 4}
    assert data.ids("test") == ["test/cat/00.png", "test/cat/01.png", "test/frog/00.png", "test/frog/01.png"]
    every = [f"train/{label}/{number:02d}.png" for label in ("cat", "frog") for number in range(10)]
    assert data.ids("val") == [every[place] for place in drawn(20)["val"]]
    assert np.array_equal(data.split("test").x[2].transpose(1, 2, 0), noise(2000, 32, 32))
    assert data.split("test").inputs(slice(None)).max() <= 1


def test_images_of_another_size_point_to_the_other_dataset(tmp_path):
    write_images(tmp_path / "c", {"train/frog": 5, "train/cat": 5, "test/cat": 2}, height=32, width=32)
    write_image(tmp_path / "c" / "test" / "cat" / "99.png", noise(1, 20, 30))
    with pytest.raises(VbsError, match=r"99\.png 30 x 20; vbs download --dataset folder"):
        prepared(tmp_path / "out", "cifar10", tmp_path / "c")


def test_images_without_splits_are_refused(tmp_path):
    write_images(tmp_path / "c", {"frog": 5, "cat": 5}, height=32, width=32)
    with pytest.raises(VbsError, match="has no train and test folders"):
        prepared(tmp_path / "out", "cifar10", tmp_path / "c")


def test_damaged_images_are_named_or_left_out(tmp_path):
    write_images(tmp_path / "c", {"train/frog": 5, "train/cat": 5, "test/cat": 2}, height=32, width=32)
    (tmp_path / "c" / "test" / "cat" / "01.png").write_bytes(b"")
    with pytest.raises(VbsError, match=r"cat/01\.png is damaged"):
        prepared(tmp_path / "out", "cifar10", tmp_path / "c")
    data = prepared(tmp_path / "out", "cifar10", tmp_path / "c", skip_bad=True)
    assert (data.counts["test"], data.left_out) == (1, {"damaged": 1})


def test_the_recipe_tells_archives_apart_without_opening_them(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    recipe = DATASETS["cifar10"].recipe
    assert recipe(Request()) != recipe(Request(origin=tmp_path / "a"))
    assert recipe(Request()) != recipe(Request(skip_bad=True))


@pytest.mark.outside_data("cifar10-images.tar.xz")
def test_all_of_cifar10_as_images(tmp_path, outside_data):
    data = prepared(tmp_path, "cifar10", outside_data)
    assert data.counts == {"train": 40_000, "val": 10_000, "test": 10_000}
    assert data.class_names[:3] == ("airplane", "automobile", "bird")
    assert (data.classes, data.shape) == (10, (3, 32, 32))
    train = open_dataset(tmp_path / "data", "cifar10").split("train")
    # The means of the colours over CIFAR-10 as everyone gives them.
    means = train.inputs(slice(0, None, 10)).mean((0, 2, 3))
    assert means.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.01)
    assert train.y.bincount().float().std() < 60
    assert not (tmp_path / "scratch").exists() or not list((tmp_path / "scratch").iterdir())
