"""Data of one's own: images, sounds and arrays, from folders, archives and single files."""

import shutil
import zipfile

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from tests.fixtures.datasets import noise, prepared, write_image, write_images
from vbs_cli.data import DATASETS, Request, open_dataset
from vbs_cli.errors import InvalidInput, NotFinite, VbsError

RATE = 1000


@pytest.fixture
def make(tmp_path):
    """Prepare what lies in `own`."""

    def go(origin=None, **options):
        return prepared(tmp_path, "folder", origin or tmp_path / "own", **options)

    return go


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


def test_data_of_ones_own_must_be_named(tmp_path):
    for step in (DATASETS["folder"].recipe, lambda request: prepared(tmp_path, "folder")):
        with pytest.raises(InvalidInput, match="vbs download --dataset folder --from DIR"):
            step(Request())


def test_what_cannot_be_read_is_answered_with_what_can(make, own):
    (own / "a.txt").write_text("x")
    with pytest.raises(VbsError, match=r"no files that vbs can read; give images \(.*png.*sounds.*wav.*arrays.*npz"):
        make()


def test_mixed_kinds_are_refused_naming_both(make, own):
    write_images(own, {"ant": 1})
    (own / "bee").mkdir()
    soundfile.write(own / "bee" / "b.wav", np.zeros(10), RATE)
    with pytest.raises(VbsError, match=r"has images \(00\.png\) and sounds \(b\.wav\)"):
        make()


def test_the_recipe_follows_content_and_options_not_the_place(tmp_path, own):
    write_images(own, {"ant": 3, "bee": 3})
    shutil.copytree(own, tmp_path / "copy")
    recipe = DATASETS["folder"].recipe
    base = recipe(Request(origin=own))
    assert base == recipe(Request(origin=tmp_path / "copy"))
    changed = [{"seed": 1}, {"size": 8}, {"crop": 4.0}, {"resample": True}, {"skip_bad": True}]
    assert all(recipe(Request(origin=own, **options)) != base for options in changed)
    write_images(own, {"ant": 1}, seed=9)
    assert recipe(Request(origin=own)) != base


# Images


def test_images_in_class_folders(make, own, tmp_path):
    write_images(own, {"bee": 10, "ant": 10})
    data = make()
    assert (data.source, data.licence) == ("own data, own", "yours")
    assert data.class_names == ("ant", "bee")
    assert data.counts == {"train": 14, "val": 2, "test": 4}
    for split in data.counts:
        read = open_dataset(tmp_path / "data", "folder").split(split)
        for place, name in enumerate(data.ids(split)):
            label, number = name.removesuffix(".png").split("/")
            pixels = noise((1000 if label == "ant" else 0) + int(number))
            assert np.array_equal(read.x[place], pixels.transpose(2, 0, 1))
            assert read.y[place] == data.class_names.index(label)
    assert read.x.dtype == np.uint8
    assert torch.equal(read.inputs([0])[0], torch.from_numpy(np.array(read.x[0])) / 255)


def test_an_archive_gives_the_same_arrays_as_its_folder(make, own, tmp_path):
    write_images(own / "top", {"bee": 5, "ant": 5})
    with zipfile.ZipFile(tmp_path / "own.zip", "w") as archive:
        for path in own.rglob("*.png"):
            archive.write(path, path.relative_to(own))
    assert make(tmp_path / "own.zip").files == make(own).files


def test_the_seed_draws_the_splits(make, own):
    write_images(own, {"bee": 10, "ant": 10})
    first, other = make().ids("test"), make(seed=1).ids("test")
    assert first != other
    assert make().ids("test") == first


def test_images_are_resized_and_cropped(make, own):
    write_images(own, {"bee": 3}, height=10, width=14)
    write_images(own, {"ant": 3}, seed=50, height=20, width=12)
    with pytest.raises(VbsError, match="images have different sizes"):
        make()
    assert make(size=8).shape == (3, 8, 8)
    assert make(size=8, crop=6.0).shape == (3, 6, 6)
    assert make(crop=10.0).shape == (3, 10, 10)


@pytest.mark.parametrize(
    "options",
    [{"resample": True}, {"crop": 2.5}, {"crop": -1.0}, {"crop": float("nan")}, {"size": 4, "crop": 5.0}, {"size": -1}],
)
def test_options_that_make_no_sense_for_images_are_refused(make, own, options):
    write_images(own, {"bee": 3, "ant": 3})
    with pytest.raises(InvalidInput):
        make(**options)


def test_what_is_left_out_is_counted_by_reason(make, own):
    write_images(own, {"train/bee": 4, "train/ant": 4, "test/ant": 2, "test/bee": 2})
    (own / "train" / "bee" / "03.png").write_bytes(b"broken")
    shutil.copy(own / "train" / "ant" / "00.png", own / "test" / "ant" / "01.png")
    write_image(own / "stray.png", noise(77))
    data = make(skip_bad=True)
    wanted = {"damaged": 1, "in another split already": 1, "outside of the class folders": 1}
    assert data.left_out == wanted
    assert sum(data.counts.values()) == 10


def test_the_same_pixels_in_another_file_are_refused_too(make, own):
    write_images(own, {"train/bee": 2, "train/ant": 2, "val/ant": 1, "test/ant": 1})
    write_image(own / "test" / "ant" / "50.png", noise(0), compress_level=1)
    with pytest.raises(VbsError, match="are the same"):
        make()


# Sounds


def tone(seed, seconds=2.0, rate=RATE):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, int(seconds * rate))


def write_sounds(folder, counts, *, suffix="wav", rate=RATE, **options):
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            soundfile.write(folder / name / f"{index}.{suffix}", tone(100 * number + index, rate=rate, **options), rate)


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_sounds_are_kept_whole_for_training_and_cut_once_for_evaluation(make, own, suffix):
    write_sounds(own, {"bee": 10, "ant": 10}, suffix=suffix)
    data = make(crop=0.5)
    assert data.shape == (1, 500)
    assert data.counts == {"train": 14, "val": 2, "test": 4}
    train, test = data.split("train"), data.split("test")
    assert len(train.x.samples) == 14 * 2000
    assert test.x.shape == (4, 1, 500)
    assert test.x.dtype == np.int16
    label, name = data.ids("test")[0].split("/")
    whole = soundfile.read(own / label / name, dtype="int16")[0]
    window = np.lib.stride_tricks.sliding_window_view(whole, 500)
    assert (window == test.x[0, 0]).all(1).any()


def test_sounds_are_cut_to_128_hundredths_of_a_second_by_default(make, own):
    write_sounds(own, {"bee": 4, "ant": 4})
    assert make().shape == (1, 1280)


def test_another_rate_is_refused_unless_resampled(make, own):
    write_sounds(own, {"ant": 4, "bee": 4})
    soundfile.write(own / "bee" / "9.wav", tone(9, rate=2000), 2000)
    with pytest.raises(VbsError, match=r"9\.wav has 2,000 Hz and 1 channels.*--resample"):
        make()
    assert sum(make(resample=True).counts.values()) == 9


def test_damaged_sounds_are_named_or_left_out(make, own):
    write_sounds(own, {"train/ant": 3, "train/bee": 3, "val/ant": 1, "test/ant": 1}, suffix="flac")
    (own / "train" / "ant" / "0.flac").write_bytes(b"broken")  # the first, whose rate would be taken
    with pytest.raises(VbsError, match=r"ant/0\.flac is damaged.*--skip-bad"):
        make()
    assert make(skip_bad=True).left_out == {"damaged": 1}


def test_a_split_with_nothing_long_enough_says_so(make, own):
    write_sounds(own, {"train/ant": 3, "train/bee": 3, "test/ant": 1})
    write_sounds(own, {"val/ant": 2}, seconds=0.3)
    shutil.rmtree(own / "test")
    write_sounds(own, {"test/bee": 2}, seconds=1.9)
    wanted = "all 2 recordings of val are left out: 2 shorter than the crop; --crop takes windows shorter than 1.28 s"
    with pytest.raises(VbsError, match=wanted):
        make()


@pytest.mark.parametrize("options", [{"size": 32}, {"crop": 0.0}, {"crop": float("inf")}])
def test_options_that_make_no_sense_for_sounds_are_refused(make, own, options):
    write_sounds(own, {"ant": 3, "bee": 3})
    with pytest.raises(InvalidInput):
        make(**options)


# Arrays


def arrays(count=40, shape=(2, 16), seed=0, dtype=np.float32, classes=(3, 7)):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, *shape)) if np.dtype(dtype).kind == "f" else rng.integers(0, 100, (count, *shape))
    return x.astype(dtype), np.array(classes)[np.arange(count) % len(classes)]


def save_npz(path, x, y):
    np.savez(path, x=x, y=y)


def save_tensors(path, x, y):
    save_file({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, path)


SAVERS = {"npz": save_npz, "safetensors": save_tensors}


def check_all_there(data, x, y):
    """Every example is in one split, as its name says."""
    places = []
    for split in data.counts:
        read = data.split(split)
        for position, name in enumerate(data.ids(split)):
            place = int(name.split("-")[1])
            places.append(place)
            assert np.array_equal(read.x[position], x[place])
            assert data.class_names[int(read.y[position])] == str(y[place])
    assert sorted(places) == list(range(len(x)))


@pytest.mark.parametrize("suffix", SAVERS)
@pytest.mark.parametrize("alone", [True, False])
def test_one_file_is_divided(make, own, suffix, alone):
    x, y = arrays()
    SAVERS[suffix](own / f"anything.{suffix}", x, y)
    data = make(own / f"anything.{suffix}" if alone else None)
    assert data.counts == {"train": 28, "val": 4, "test": 8}
    assert data.class_names == ("3", "7")
    assert data.shape == (2, 16)
    check_all_there(data, x, y)


@pytest.mark.parametrize("suffix", SAVERS)
def test_files_of_splits_stay_as_they_are(make, own, suffix):
    given = {split: arrays(10, seed=seed) for seed, split in enumerate(("train", "val", "test"))}
    for split, (x, y) in given.items():
        SAVERS[suffix](own / f"{split}.{suffix}", x, y)
    data = make()
    for split, (x, _) in given.items():
        assert np.array_equal(data.split(split).x, x)
        assert data.ids(split)[3] == f"{split}-00003"
    (own / f"val.{suffix}").unlink()
    assert make().counts == {"train": 8, "val": 2, "test": 10}


def test_pairs_of_npy_files(make, own):
    x, y = arrays()
    np.save(own / "x.npy", x)
    np.save(own / "y.npy", y)
    check_all_there(make(), x, y)


@pytest.mark.parametrize("letter", ["x", "X"])
def test_pairs_of_npy_files_for_every_split(make, own, letter):
    for seed, split in enumerate(("train", "val", "test")):
        x, y = arrays(10, seed=seed)
        np.save(own / f"{letter}_{split}.npy", x)
        np.save(own / f"y_{split}.npy", y)
    assert np.array_equal(make().split("test").x, x)


def test_one_file_may_hold_the_splits(make, own):
    (x, y), (a, b) = arrays(20), arrays(10, seed=1)
    np.savez(own / "mnist.npz", x_train=x, y_train=y, x_test=a, y_test=b)
    assert np.array_equal(make().split("test").x, a)


@pytest.mark.parametrize(("shape", "wanted"), [((16,), (1, 16)), ((2, 16), (2, 16)), ((3, 6, 5), (3, 6, 5))])
def test_inputs_have_channels_and_one_or_two_dimensions(make, own, shape, wanted):
    save_npz(own / "a.npz", *arrays(shape=shape))
    assert make().shape == wanted


@pytest.mark.parametrize(
    ("dtype", "kept", "scale"),
    [
        ("uint8", "uint8", 255),
        ("int8", "int8", 128),
        ("int16", "int16", 2**15),
        (">i2", "int16", 2**15),
        ("int32", "int32", 2**31),
        ("float16", "float32", 1),
        ("float32", "float32", 1),
        (">f4", "float32", 1),
        ("float64", "float32", 1),
    ],
)
def test_whole_numbers_are_kept_and_scaled_and_others_become_float32(make, own, dtype, kept, scale):
    x, y = arrays(dtype=np.dtype(dtype))
    save_npz(own / "a.npz", x, y)
    data = make()
    read = data.split("test")
    assert read.x.dtype == np.dtype(kept)
    place = int(data.ids("test")[0].split("-")[1])
    assert torch.allclose(read.inputs([0])[0], torch.from_numpy(x[place].astype(np.float32)) / scale)


def test_bfloat16_becomes_float32_and_truth_values_zero_and_one(make, own, tmp_path):
    x, y = arrays()
    save_file({"x": torch.from_numpy(x).bfloat16(), "y": torch.from_numpy(y)}, own / "a.safetensors")
    assert make().split("test").x.dtype == np.float32
    (own / "a.safetensors").unlink()
    save_npz(own / "a.npz", x > 0, y)
    assert set(make().split("train").inputs(slice(None)).unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("dtype", "cure"), [("int64", "float32"), ("uint16", "float32"), ("complex64", "two channels"), ("U3", "float32")]
)
def test_other_types_are_refused_with_a_cure(make, own, dtype, cure):
    x, y = arrays(dtype=np.int16)
    save_npz(own / "a.npz", x.astype(dtype), y)
    with pytest.raises(VbsError, match=f"has the type .*{cure}"):
        make()


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_python_objects_are_not_loaded(make, own, suffix):
    _, y = arrays()
    bad = np.array([{"a": 1}] * len(y), dtype=object)
    if suffix == "npz":
        np.savez(own / "a.npz", x=bad, y=y)
    else:
        np.save(own / "x.npy", bad)
        np.save(own / "y.npy", y)
    with pytest.raises(VbsError, match="Python objects, which are not loaded"):
        make()


@pytest.mark.parametrize("suffix", ["npz", "npy", "safetensors"])
@pytest.mark.parametrize("content", [b"", b"hello world, this is no array", b"PK\x03\x04 broken"])
def test_damaged_arrays_are_named(make, own, suffix, content):
    (own / f"x.{suffix}").write_bytes(content)
    with pytest.raises(VbsError, match=rf"x\.{suffix} cannot be read"):
        make()


def test_a_truncated_array_is_named(make, own):
    x, y = arrays()
    for name, array in (("x", x), ("y", y)):
        np.save(own / f"{name}.npy", array)
    (own / "x.npy").write_bytes((own / "x.npy").read_bytes()[:-50])
    with pytest.raises(VbsError, match=r"x\.npy cannot be read"):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_counted_and_the_first_is_named(make, own, bad):
    x, y = arrays()
    x[[11, 25], 1, 3] = bad
    save_npz(own / "a.npz", x, y)
    with pytest.raises(NotFinite, match="2 of 40 examples of all hold NaN or infinity, number 11 first"):
        make()
    data = make(skip_bad=True)
    assert data.left_out == {"not finite": 2}
    ids = [name for split in data.counts for name in data.ids(split)]
    assert len(ids) == 38
    assert "all-00011" not in ids


def test_a_number_too_large_for_float32_is_not_finite(make, own):
    x, y = arrays(dtype=np.float64)
    x[5] = 1e300
    save_npz(own / "a.npz", x, y)
    with pytest.raises(NotFinite, match="number 5 first"):
        make()


def test_names_as_labels_are_the_classes(make, own):
    x, _ = arrays()
    save_npz(own / "a.npz", x, np.array(["wren", "owl"] * 20))
    data = make()
    assert data.class_names == ("owl", "wren")
    place = int(data.ids("test")[0].split("-")[1])
    assert data.split("test").y[0] == (place + 1) % 2


def test_labels_in_a_column_and_of_any_value(make, own):
    x, y = arrays(classes=(-5, 100, 2))
    save_npz(own / "a.npz", x, y[:, None])
    assert make().class_names == ("-5", "2", "100")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x, y[:-1]), "40 inputs and labels of shape"),
        (lambda x, y: (x, y.astype(float)), "labels of all have the type float64"),
        (lambda x, y: (x, y * 0), "one class only"),
        (lambda x, y: (x[:, 0, 0], y), r"shape \(40,\)"),
        (lambda x, y: (x[..., None, None, None], y), r"shape \(40, 2, 16, 1, 1, 1\)"),
        (lambda x, y: (x[:0], y[:0]), r"shape \(0, 2, 16\)"),
        (lambda x, y: (x, np.where(np.arange(40) < 38, 0, 1)), "the class '1' has 2 examples, too few"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(make, own, change, message):
    save_npz(own / "a.npz", *change(*arrays()))
    with pytest.raises(VbsError, match=message):
        make()


def test_a_label_that_training_lacks_is_named(make, own):
    save_npz(own / "train.npz", *arrays(10))
    save_npz(own / "test.npz", *arrays(10, seed=1, classes=(3, 8)))
    with pytest.raises(VbsError, match="test has the label 8, which train has not"):
        make()


@pytest.mark.parametrize("other", [{"shape": (2, 17)}, {"dtype": np.int16}])
def test_splits_that_differ_in_kind_are_refused(make, own, other):
    save_npz(own / "train.npz", *arrays(10))
    save_npz(own / "test.npz", *arrays(10, seed=1, **other))
    with pytest.raises(VbsError, match="make them alike"):
        make()


def test_the_same_example_on_both_sides_is_refused_or_left_out(make, own):
    x, y = arrays(20)
    other, z = arrays(10, seed=1)
    other[4] = x[7]
    save_npz(own / "train.npz", x, y)
    save_npz(own / "test.npz", other, z)
    same = "example train 7 and example test 4 have the same content; there are 1 such pairs"
    with pytest.raises(VbsError, match=same):
        make()
    data = make(skip_bad=True)
    assert data.left_out == {"in another split already": 1}
    assert data.counts["test"] == 9


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.npz", "b.npz"], "both hold x"),
        (["train.npz", "val.npz"], "has arrays for train and val"),
        (["train.npz", "other.npz"], "has arrays for all and train"),
        (["class/a.npz", "other/b.npz"], "no arrays called x and y"),
    ],
)
def test_files_that_leave_doubt_are_refused(make, own, names, message):
    for seed, name in enumerate(names):
        (own / name).parent.mkdir(exist_ok=True)
        save_npz(own / name, *arrays(seed=seed))
    with pytest.raises(VbsError, match=message):
        make()


def test_inputs_without_labels_are_refused(make, own):
    np.save(own / "x.npy", arrays()[0])
    with pytest.raises(VbsError, match=r"there is no y that belongs to .*x\.npy"):
        make()


def test_splits_are_in_different_blocks_of_a_large_array(make, own, monkeypatch):
    monkeypatch.setattr("vbs_cli.data.signals.BATCH_BYTES", 500)
    x, y = arrays()
    np.save(own / "x.npy", x)
    np.save(own / "y.npy", y)
    check_all_there(make(), x, y)


@pytest.mark.parametrize("option", [{"size": 8}, {"crop": 2.0}, {"resample": True}])
def test_options_that_make_no_sense_for_arrays_are_refused(make, own, option):
    save_npz(own / "a.npz", *arrays())
    with pytest.raises(InvalidInput, match=f"--{next(iter(option))} means nothing to arrays"):
        make(**option)
