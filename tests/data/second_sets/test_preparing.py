"""A second test set is a dataset of its own, read from folders and archives with the classes of its base."""

import json
import tarfile
import zipfile

import numpy as np
import pytest

from tests.fixtures.datasets import (
    noise,
    prepared,
    write_image,
    write_images,
)
from tests.fixtures.jobs import Heard
from vbs_cli.data.shifted import conditions_of, open_shifted
from vbs_cli.errors import Busy, InvalidInput, MissingArtifact, VbsError
from vbs_cli.locks import locked


def test_it_is_a_dataset_of_one_split_with_the_classes_and_shape_of_its_base(tmp_path, images, second, shifted):
    write_images(second, {"cow": 3, "ant": 2}, seed=500)
    data = shifted(images)
    assert data.folder == tmp_path / "data" / "folder+phone"
    assert data.name == "folder+phone"
    assert data.counts == {"test": 5}
    assert (data.class_names, data.classes, data.shape) == (images.class_names, 3, images.shape)
    assert data.source == "second test set, second"
    assert data.split("test").y.tolist() == [0, 0, 2, 2, 2]
    assert data.ids("test") == ["ant/00.png", "ant/01.png", "cow/00.png", "cow/01.png", "cow/02.png"]
    assert np.array_equal(data.split("test").x[2].transpose(1, 2, 0), noise(500))
    assert open_shifted(tmp_path / "data", "folder", "phone") == data
    assert conditions_of(data, "phone") == {"test": ("phone", 1.0)}
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [".folder+phone.lock", "folder", data.name]


def test_one_that_is_missing_is_named_with_the_command(tmp_path, images):
    with pytest.raises(MissingArtifact, match=r"no folder\+phone data in .*--shift-from phone=FOLDER"):
        open_shifted(tmp_path / "data", "folder", "phone")


def test_a_second_time_it_is_there_and_changed_files_are_noticed(images, second, shifted):
    write_images(second, {"cow": 2}, seed=500)
    first, heard = shifted(images), Heard()
    assert shifted(images, progress=heard) == first
    assert heard.said == [f"{first.folder}: folder+phone is there already (second test set, second)"]
    write_images(second, {"ant": 1}, seed=900)
    with pytest.raises(InvalidInput, match=r"holds other data: second test set, second, 2 examples; .*--force"):
        shifted(images)
    assert shifted(images, force=True).counts == {"test": 3}
    assert shifted(images, name="day-2").counts == {"test": 3}


def test_a_cut_file_is_noticed_and_made_again(images, second, shifted):
    write_images(second, {"cow": 2}, seed=500)
    first, heard = shifted(images), Heard()
    (first.folder / "x_test.npy").write_bytes(b"")
    assert shifted(images, progress=heard) == first
    assert "x_test.npy is damaged; made again" in heard.said[0]


def test_a_base_that_was_prepared_anew_needs_its_test_set_anew(tmp_path, images, second, shifted):
    write_images(second, {"cow": 2}, seed=500)
    shifted(images)
    write_images(tmp_path / "own", {"dog": 12}, seed=7000)
    other = prepared(tmp_path, "folder", tmp_path / "own")
    with pytest.raises(InvalidInput, match="holds other data"):
        shifted(other)
    with pytest.raises(InvalidInput, match="was prepared for other folder data"):
        open_shifted(tmp_path / "data", "folder", "phone")
    assert shifted(other, force=True).classes == 4
    assert open_shifted(tmp_path / "data", "folder", "phone").classes == 4


def test_two_at_once_are_kept_apart(tmp_path, images, second, shifted):
    write_images(second, {"cow": 2}, seed=500)
    with locked(tmp_path / "data", name=".folder+phone.lock", hint=""), pytest.raises(Busy):
        shifted(images)


@pytest.mark.parametrize("name", ["clean", "all", "test", "val", "gaussian", "elastic", "radio", "cifar10-c"])
def test_names_that_mean_something_else_are_refused_with_a_cure(images, second, shifted, name):
    with pytest.raises(InvalidInput, match=f"'{name}' cannot name a test set: it is .*choose another name"):
        shifted(images, name=name)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "a+b", "-x", "é", "a" * 65, "fog@1"])
def test_names_that_are_no_plain_words_are_refused_with_the_rule(images, second, shifted, name):
    with pytest.raises(InvalidInput, match="names are made of letters, digits"):
        shifted(images, name=name)


@pytest.mark.parametrize("name", ["phone", "Day-2", "cifar10.1", "3_rooms"])
def test_plain_names_are_taken(tmp_path, images, second, shifted, name):
    write_images(second, {"cow": 2}, seed=500)
    shifted(images, name=name)
    assert open_shifted(tmp_path / "data", "folder", name).counts == {"test": 2}


def test_what_is_not_there_is_named(tmp_path, images, shifted):
    with pytest.raises(InvalidInput, match="there is nothing at"):
        shifted(images, tmp_path / "nowhere")


def test_what_is_written_says_where_it_is_from(images, second, shifted):
    write_images(second, {"cow": 2}, seed=500)
    described = json.loads((shifted(images).folder / "dataset.json").read_text())
    assert described["recipe"]["base"] == images.fingerprint
    assert set(described["files"]) == {"x_test.npy", "y_test.npy", "ids_test.txt"}
    assert described["command"].endswith(f"--shift-from phone={second}")


# Classes


def test_classes_without_examples_are_counted_and_told(images, second, shifted):
    write_images(second, {"bee": 2}, seed=500)
    heard = Heard()
    shifted(images, progress=heard)
    assert "folder+phone: no examples of 2 of 3 classes (ant, cow)" in heard.said


def test_a_class_that_the_base_lacks_is_named_with_those_it_has(images, second, shifted):
    write_images(second, {"bee": 2, "wasp": 1, "zebu": 1}, seed=500)
    with pytest.raises(InvalidInput, match=r"class 'wasp' and 1 more, which folder lacks; .*ant, bee, cow"):
        shifted(images)


def layouts(second, layout):
    for number, part in enumerate(layout):
        write_images(second / part, {"ant": 2, "cow": 2}, seed=500 + 5000 * number)


@pytest.mark.parametrize(
    "layout", [[""], ["test"], ["outer/inner"], ["outer/test"], ["train", "val", "test"], ["Validation", "TEST"]]
)
def test_folders_around_the_classes_and_other_splits_do_not_matter(images, second, shifted, layout):
    layouts(second, layout)
    data = shifted(images)
    assert data.counts == {"test": 4}
    seed = 500 + 5000 * (len(layout) - 1)
    wanted = [noise(seed + number) for number in (0, 1, 1000, 1001)]
    assert np.array_equal(data.split("test").x.transpose(0, 2, 3, 1), np.stack(wanted))


def test_splits_without_a_test_folder_are_refused(images, second, shifted):
    layouts(second, ["train", "val"])
    with pytest.raises(VbsError, match="has no test folder beside 'train'; give test at least"):
        shifted(images)


def test_files_beside_the_class_folders_are_refused(images, second, shifted):
    layouts(second, [""])
    write_image(second / "stray.png", noise(77))
    with pytest.raises(VbsError, match="1 files lie outside of the class folders"):
        shifted(images)


@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_an_archive_gives_the_same_arrays_as_its_folder(tmp_path, images, second, shifted, suffix):
    layouts(second, ["test"])
    archive = tmp_path / f"second.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(archive, "w") as file:
            for path in second.rglob("*.png"):
                file.write(path, path.relative_to(tmp_path))
    else:
        with tarfile.open(archive, "w:gz") as file:
            file.add(second, arcname="second")
    packed, plain = shifted(images, archive, name="a"), shifted(images, name="b")
    assert packed.files == plain.files
    assert packed.source == f"second test set, second.{suffix}"


def test_what_vbs_cannot_read_is_refused_with_what_it_can(images, second, shifted):
    (second / "a.txt").write_text("x")
    with pytest.raises(VbsError, match="no files that vbs can read; give images"):
        shifted(images)
