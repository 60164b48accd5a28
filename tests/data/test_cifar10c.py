"""The official files of CIFAR-10-C, and what is refused in their place."""

import json
import tarfile

import numpy as np
import pytest

from tests.fixtures.datasets import prepared, write_images
from tests.fixtures.jobs import Heard
from vbs_cli.data import DATASETS, Request, open_dataset
from vbs_cli.data.cifar10c import CLASSES, CORRUPTIONS
from vbs_cli.data.shifted import conditions_of, open_shifted
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.protocols import protocol
from vbs_cli.stages.download import describe, download, list_datasets

EACH = 6  # images of a severity
SOME = ("gaussian_noise", "jpeg_compression", "fog")


def pixels(number):
    return np.random.default_rng(number).integers(0, 256, (5 * EACH, 32, 32, 3), dtype=np.uint8)


def labels():
    return np.tile(np.array([3, 8, 8, 0, 6, 9]), 5)


@pytest.fixture
def official(tmp_path):
    """Three corruptions in files like the official ones, but with six images."""
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    for number, name in enumerate(SOME):
        np.save(folder / f"{name}.npy", pixels(number))
    np.save(folder / "labels.npy", labels())
    return folder


def made(tmp_path, origin):
    return prepared(tmp_path, "cifar10-c", origin)


def test_every_corruption_and_severity_is_a_split(tmp_path, official):
    data = made(tmp_path, official)
    wanted = [f"{name}@{level}" for name in ("gaussian-noise", "jpeg-compression", "fog") for level in
              ("0.2", "0.4", "0.6", "0.8", "1")]  # fmt: skip
    assert list(data.counts) == wanted
    assert set(data.counts.values()) == {EACH}
    assert (data.shape, data.class_names) == ((3, 32, 32), CLASSES)
    for place, split in enumerate(wanted):
        read = data.split(split)
        number, severity = divmod(place, 5)
        images = pixels(number)[severity * EACH : (severity + 1) * EACH]
        np.testing.assert_array_equal(read.x.transpose(0, 2, 3, 1), images)
        assert read.y.tolist() == [3, 8, 8, 0, 6, 9]
        assert float(read.inputs([0]).max()) == images[0].max() / 255


def test_an_archive_gives_the_same_arrays_as_its_folder(tmp_path, official):
    with tarfile.open(tmp_path / "CIFAR-10-C.tar", "w") as tar:
        tar.add(official, arcname="CIFAR-10-C")
    assert made(tmp_path / "b", tmp_path / "CIFAR-10-C.tar").files == made(tmp_path / "a", official).files


def test_files_are_read_block_by_block_with_the_same_result(tmp_path, official, monkeypatch):
    whole = made(tmp_path / "a", official)
    monkeypatch.setattr("vbs_cli.data.cifar10c.BLOCK", 4)
    assert made(tmp_path / "b", official).files == whole.files


def test_splits_are_conditions_of_runs_of_cifar10(tmp_path, official):
    data = made(tmp_path, official)
    assert open_shifted(tmp_path / "data", "cifar10", "cifar10-c") == data
    conditions = conditions_of(data, "cifar10-c")
    assert conditions["fog@0.6"] == ("cifar10-c-fog", 0.6)
    assert conditions["gaussian-noise@1"] == ("cifar10-c-gaussian-noise", 1.0)
    assert len(conditions) == 15


def test_images_that_several_corruptions_leave_alike_are_all_kept(tmp_path, official):
    np.save(official / "fog.npy", np.zeros_like(pixels(0)))
    np.save(official / "contrast.npy", np.zeros_like(pixels(0)))
    assert set(made(tmp_path, official).counts.values()) == {EACH}


def test_a_cifar10_of_other_classes_is_not_tested_by_it(tmp_path, official):
    made(tmp_path, official)
    write_images(tmp_path / "own", {"train/frog": 10, "train/cat": 10, "test/cat": 2}, height=32, width=32)
    prepared(tmp_path, "cifar10", tmp_path / "own")
    with pytest.raises(InvalidInput, match=r"cifar10-c has 10 classes.*cifar10 has 2"):
        open_shifted(tmp_path / "data", "cifar10", "cifar10-c")


def test_other_files_beside_them_are_named_and_not_read(tmp_path, official):
    np.save(official / "fogg.npy", np.zeros(3))
    heard = Heard()
    data = download(tmp_path / "data", "cifar10-c", Request(origin=official), progress=heard)
    assert "cifar10-c: fogg.npy: no file of cifar10-c, not read" in heard.said
    assert len(data.counts) == 15


def test_the_list_and_the_table_count_corruptions_rather_than_splits(tmp_path, official):
    data = download(tmp_path / "data", "cifar10-c", Request(origin=official))
    [row] = [row for row in list_datasets(tmp_path / "data") if row["dataset"] == "cifar10-c"]
    assert row["examples"] == describe(data)["examples"] == "3 corruptions x 5 x 6"
    assert not any("@" in column for column in describe(data))


def test_it_is_made_once_and_again_when_files_change(tmp_path, official):
    first = download(tmp_path / "data", "cifar10-c", Request(origin=official))
    heard = Heard()
    assert download(tmp_path / "data", "cifar10-c", Request(origin=official), progress=heard) == first
    assert "is there already" in heard.said[0]
    np.save(official / "fog.npy", pixels(7))
    with pytest.raises(InvalidInput, match=r"holds other data: .* 3 corruptions x 5 x 6 examples; .*--force"):
        download(tmp_path / "data", "cifar10-c", Request(origin=official))
    assert download(tmp_path / "data", "cifar10-c", Request(origin=official), force=True) != first
    assert open_dataset(tmp_path / "data", "cifar10-c").recipe != first.recipe


def test_the_command_prepares_the_official_files(tmp_path, official, vbs):
    done = vbs(tmp_path, "download", "--dataset", "cifar10-c", "--from", str(official))
    assert done.code == 0, done.err
    assert "3 corruptions x 5 x 6" in done.out


def test_every_corruption_has_a_family():
    assert len(CORRUPTIONS) == len(set(CORRUPTIONS)) == 19
    families = DATASETS["cifar10-c"].families
    assert (families["gaussian-noise"], families["jpeg-compression"], families["frost"]) == ("noise", "blur", "weather")
    assert len(families) == 19


def test_nothing_can_be_trained_on_it(tmp_path, vbs):
    with pytest.raises(InvalidInput, match="test set for runs of cifar10"):
        protocol("cifar10-c", "quick")
    done = vbs(tmp_path, "train", "--dataset", "cifar10-c")
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith("no network is trained on it; vbs train --dataset cifar10")


def test_it_must_be_told_where_the_files_are():
    with pytest.raises(InvalidInput, match=r"zenodo.*vbs download --dataset cifar10-c --from DIR"):
        DATASETS["cifar10-c"].recipe(Request())


def save(name, array):
    return lambda folder: np.save(folder / name, array, allow_pickle=True)


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


WRONG_LAST = np.where(np.arange(5 * EACH) == 5 * EACH - 1, 1, labels())
FILES = [f"{name}.npy" for name in SOME]


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (remove("labels.npy"), r"no file labels\.npy"),
        (remove(*FILES), r"no file of a corruption, such as fog\.npy"),
        (save("fog.npy", pixels(0).astype(np.float32)), r"fog\.npy has float32 of shape \(30, 32, 32, 3\).*uint8"),
        (save("fog.npy", pixels(0).transpose(0, 3, 1, 2)), r"fog\.npy has uint8 of shape \(30, 3, 32, 32\)"),
        (save("fog.npy", pixels(0)[:25]), r"fog\.npy has 25 images, labels\.npy 30 labels"),
        (save("fog.npy", np.array([{}] * 30)), r"fog\.npy cannot be read: it holds Python objects"),
        (lambda folder: (folder / "fog.npy").write_bytes(b"\x93NUMPY"), r"fog\.npy cannot be read"),
        (save("labels.npy", labels()[:28]), "28 labels; their number must be a multiple of 5"),
        (save("labels.npy", labels()[:0]), "has 0 labels"),
        (save("labels.npy", labels() + 1), "has the label 10; labels are 0 to 9"),
        (save("labels.npy", labels() - 1), "has the label -1"),
        (save("labels.npy", WRONG_LAST), "other labels for one severity than for another"),
        (save("labels.npy", labels()[:, None]), r"has int64 of shape \(30, 1\)"),
        (save("labels.npy", labels() / 2), "has float64"),
        (save("labels.npy", np.array([{}] * 30)), r"labels\.npy cannot be read: it holds Python objects"),
    ],
)
def test_files_that_are_not_the_official_ones_are_refused_in_one_line_with_a_cure(tmp_path, official, harm, message):
    harm(official)
    with pytest.raises(VbsError, match=message) as caught:
        made(tmp_path, official)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data" / "cifar10-c").exists()


def test_the_prepared_files_say_what_they_are(tmp_path, official):
    data = made(tmp_path, official)
    described = json.loads((data.folder / "dataset.json").read_text())
    assert described["source"] == "CIFAR-10-C, CIFAR-10-C"
    assert len(described["files"]) == 2 * 15
