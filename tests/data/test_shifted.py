"""A second test set: read as its base dataset was, with the base's classes, and without what networks know."""

import json
import re
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.fixtures.datasets import captures, corpus, noise, prepared, write_image, write_images
from tests.fixtures.jobs import Heard
from vbs_cli.data.radio import DROPPED
from vbs_cli.data.shifted import conditions_of, open_shifted, prepare_shifted
from vbs_cli.errors import Busy, InvalidInput, MissingArtifact, NotFinite, VbsError
from vbs_cli.locks import locked

RATE = 1000
CLASSES = {"ant": 12, "bee": 12, "cow": 12}


@pytest.fixture
def shifted(tmp_path):
    """Prepare what lies in `second`, or elsewhere, as a test set `phone` of a base."""

    def go(base, origin=None, name="phone", **options):
        return prepare_shifted(tmp_path / "data", base, origin or tmp_path / "second", name, **options)

    return go


@pytest.fixture
def second(tmp_path):
    (tmp_path / "second").mkdir()
    return tmp_path / "second"


@pytest.fixture
def images(tmp_path):
    """Base of images in three classes."""
    write_images(tmp_path / "own", CLASSES)
    return prepared(tmp_path, "folder", tmp_path / "own")


# What it is written as, and found by


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


# Layouts of folders


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


# Images


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


# Sounds


def write_sounds(folder, counts, *, seed=0, rate=RATE, seconds=2.0, silence=0.25):
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            rng = np.random.default_rng([seed, number, index])
            wave = rng.uniform(-0.5, 0.5, int(seconds * rate))
            wave[: int(silence * len(wave))] = 0
            soundfile.write(folder / name / f"{index}.wav", wave, rate)


@pytest.fixture
def sounds(tmp_path):
    write_sounds(tmp_path / "own", CLASSES)
    return prepared(tmp_path, "folder", tmp_path / "own", crop=0.5)


def test_sounds_are_cut_to_the_windows_of_the_base(sounds, second, shifted):
    write_sounds(second, {"ant": 2, "bee": 3}, seed=1)
    data = shifted(sounds)
    assert data.shape == sounds.shape == (1, 500)
    assert data.split("test").x.dtype == np.int16
    assert data.split("test").y.tolist() == [0, 0, 1, 1, 1]
    for name, window in zip(data.ids("test"), data.split("test").x, strict=True):
        whole = soundfile.read(second / name, dtype="int16")[0]
        assert (np.lib.stride_tricks.sliding_window_view(whole, 500) == window[0]).all(1).any()


def test_a_recording_of_the_test_split_gets_the_window_that_it_has_there(tmp_path, sounds, second, shifted):
    for name in sounds.ids("test"):
        (second / name).parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "own" / name, second / name)
    assert np.array_equal(shifted(sounds).split("test").x, sounds.split("test").x)


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_recording_that_training_or_validation_heard_is_refused_under_any_name(
    tmp_path, sounds, second, shifted, split
):
    write_sounds(second, {"ant": 1, "bee": 1}, seed=1)
    shutil.copy(tmp_path / "own" / sounds.ids(split)[2], second / "bee" / "other.wav")
    with pytest.raises(InvalidInput, match=rf"1 of 3 examples are in .*bee/other\.wav is {split} 2"):
        shifted(sounds)


def test_silence_and_a_few_samples_in_common_make_no_copy(tmp_path, sounds, second, shifted):
    samples = soundfile.read(tmp_path / "own" / sounds.ids("val")[0], dtype="int16")[0]
    samples[::100] ^= 1
    write_sounds(second, {"ant": 2}, seed=1, silence=0.9)
    soundfile.write(second / "ant" / "alike.wav", samples, RATE)
    assert shifted(sounds).counts == {"test": 3}
    write_sounds(tmp_path / "quiet", CLASSES, silence=0.9)
    quiet = prepared(tmp_path, "folder", tmp_path / "quiet", crop=0.5)
    assert not quiet.split("val").x[0].any()
    assert shifted(quiet, force=True).counts == {"test": 3}


def test_another_rate_is_refused_or_converted_as_the_base_was(tmp_path, sounds, second, shifted):
    write_sounds(second, {"ant": 2}, seed=1, rate=2 * RATE)
    with pytest.raises(VbsError, match=r"has 2,000 Hz and 1 channels instead of 1,000 Hz and 1; .*prepare folder with"):
        shifted(sounds)
    base = prepared(tmp_path, "folder", tmp_path / "own", crop=0.5, resample=True)
    assert shifted(base).split("test").x.shape == (2, 1, 500)


def test_recordings_shorter_than_the_window_are_left_out_unless_all_are(sounds, second, shifted):
    write_sounds(second, {"ant": 2}, seed=1, seconds=0.3)
    with pytest.raises(VbsError, match=r"all 2 recordings of test are left out.*give recordings of 0\.5 s or more"):
        shifted(sounds)
    write_sounds(second, {"bee": 1}, seed=1)
    assert shifted(sounds).left_out == {"shorter than the crop": 2}


def test_librispeech_is_read_by_speaker_and_chapter(tmp_path, second, shifted):
    base = prepared(tmp_path, "librispeech", corpus(tmp_path / "corpus"))
    rng = np.random.default_rng(1)
    for name in ("710-99-0000", "84-98-0001"):
        path = second / "LibriSpeech" / "other" / name.split("-")[0] / name.split("-")[1] / f"{name}.flac"
        path.parent.mkdir(parents=True)
        soundfile.write(path, rng.integers(-999, 999, 24_000, dtype=np.int16), 16_000)
    data = shifted(base)
    assert data.shape == (1, 20_480)
    assert dict(zip(data.ids("test"), data.split("test").y.tolist(), strict=True)) == {
        "710-99-0000": base.class_names.index("710"),
        "84-98-0001": base.class_names.index("84"),
    }
    shutil.rmtree(second / "LibriSpeech" / "other" / "84")
    assert shifted(base, name="alone").split("test").y.tolist() == [base.class_names.index("710")]
    again = tmp_path / "corpus" / "LibriSpeech"
    keep = base.ids("test")
    for path in again.rglob("*.flac"):
        if path.stem not in keep:
            path.unlink()
    same = shifted(base, tmp_path / "corpus", name="same")
    windows = dict(zip(base.ids("test"), base.split("test").x, strict=True))
    for name, window in zip(same.ids("test"), same.split("test").x, strict=True):
        assert np.array_equal(window, windows[name])


# Arrays


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


# Captures


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


# Real data


def extracted(archive, folder, wanted, limit):
    """The first files of a tar that are wanted, by their names."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and wanted(member.name):
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(tar.extractfile(member).read())
                limit -= 1
                if not limit:
                    return


@pytest.mark.outside_data("librispeech-subset.tar")
def test_real_speech_of_other_chapters_is_a_test_set_and_that_of_training_is_refused(tmp_path, outside_data, shifted):
    extracted(outside_data, tmp_path / "own", re.compile(r".*/(84|2035)/\d+/.*\.flac").fullmatch, 50)
    speakers = tmp_path / "own" / "LibriSpeech" / "dev-clean"
    other = tmp_path / "other"
    for speaker in speakers.iterdir():
        chapters = sorted(speaker.iterdir(), key=lambda path: len(list(path.iterdir())))
        shutil.copytree(chapters[0], other / speaker.name / chapters[0].name)
        shutil.rmtree(chapters[0])
    base = prepared(tmp_path, "folder", tmp_path / "own")
    data = shifted(base, other)
    assert data.counts == {"test": 9}
    assert data.split("test").y.tolist() == [0] * 7 + [1] * 2
    assert (data.split("test").inputs(slice(None)).std((1, 2)) > 0).all()
    heard = speakers / base.ids("val")[0]
    shutil.copy(heard, other / base.ids("val")[0].split("/")[0] / "renamed.flac")
    with pytest.raises(InvalidInput, match=r"1 of 10 examples are in the train or val split.*renamed\.flac is val 0"):
        shifted(base, other, name="leak")


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
