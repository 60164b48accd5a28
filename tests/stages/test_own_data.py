"""Data of one's own from the folder to the report: images, sounds and arrays."""

import json

import numpy as np
import pytest
import soundfile
import torch

from tests.fixtures.datasets import write_image
from vbs_cli.data import open_dataset
from vbs_cli.models import build_model
from vbs_cli.networks.training import Schedule, initialised, train

SMALL = {"SEEDS": "1", "WIDTH": "24", "EPOCHS": "12", "BATCH": "16", "DRAWS": "2", "LEVELS": "2", "LR": "3e-3"}
COUNT = 30  # of each of three classes


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setenv(f"VBS_{name}", value)


def images(folder):
    """Red, green and blue noise."""
    rng = np.random.default_rng(0)
    for colour, name in enumerate(("red", "green", "blue")):
        for number in range(COUNT):
            pixels = rng.integers(0, 80, (16, 20, 3), dtype=np.uint8)
            pixels[..., colour] += 120
            write_image(folder / name / f"{number:02}.png", pixels)
    return folder


def sounds(folder):
    """Three tones in noise."""
    rng = np.random.default_rng(0)
    for frequency in (300, 900, 2_700):
        (folder / str(frequency)).mkdir(parents=True)
        for number in range(COUNT):
            time = np.arange(rng.integers(900, 1_500)) / 8_000
            wave = 9_000 * np.sin(2 * np.pi * (frequency * time + rng.random())) + rng.normal(0, 3_000, len(time))
            soundfile.write(folder / str(frequency) / f"{number}.wav", wave.astype(np.int16), 8_000)
    return folder


def arrays(folder):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], COUNT)
    x = rng.normal(0, 0.3, (len(y), 2, 240)) + np.repeat([-1, 0, 1], COUNT)[:, None, None]
    folder.mkdir()
    np.savez(folder / "mine.npz", x=x, y=y)
    return folder


@pytest.mark.parametrize(
    ("make", "options", "shape", "noises"),
    [
        (images, ("--size", "16"), "3 x 16 x 16", ["affine", "elastic", "salt-and-pepper"]),
        (sounds, ("--crop", "0.1"), "1 x 800", ["salt-and-pepper", "gaussian"]),
        (arrays, (), "2 x 240", ["speckle"]),
    ],
)
def test_own_data_go_all_the_way(tmp_path, vbs, make, options, shape, noises):
    make(tmp_path / "mine")
    done = vbs(tmp_path, "download", "--dataset", "folder", "--from", "mine", *options, "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert (row["train"], row["val"], row["test"], row["classes"]) == (63, 9, 18, 3)
    assert (row["shape"], row["source"]) == (shape, "own data, mine")

    assert vbs(tmp_path, "run", "--dataset", "folder").code == 0
    assert (tmp_path / "runs/folder/report.html").is_file()
    swept = vbs(tmp_path, "noise-sweep", "--noise", ",".join(noises), "--json")
    assert swept.code == 0, swept.err
    rows = json.loads(swept.out)["rows"]
    assert {row["noise"] for row in rows} == set(noises)
    accuracy = {row["value"] for row in rows if row["metric"] == "accuracy" and row["level"] == 0}
    assert max(accuracy) > 0.6  # of three classes
    assert exported(tmp_path, vbs)["network"] == ("nin" if make is images else "conv1d-radio")


def exported(folder, vbs):
    """The card of the run's network as a file that has passed its check."""
    done = vbs(folder, "export", "--to", "pt2", "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert row["test_inputs"] == 36  # all 18, as they are and under noise
    return json.loads((folder / f"{row['artifact']}.json").read_bytes())


def test_training_hears_another_window_in_every_epoch_and_the_same_ones_in_every_training(tmp_path, vbs):
    sounds(tmp_path / "mine")
    assert vbs(tmp_path, "download", "--dataset", "folder", "--from", "mine", "--crop", "0.1").code == 0
    data = open_dataset(tmp_path / "data", "folder")

    def trained(seed):
        seen = []
        split = data.split("train")
        inputs = type(split).inputs

        class Watched(type(split)):
            def inputs(self, index):
                seen.append(inputs(self, index))
                return seen[-1]

        watched = Watched(split.dataset, split.name, split.x, split.y)
        model = initialised(lambda: build_model("auto", shape=data.shape, classes=3, width=4), seed=0, name="x")
        val = data.split("val")
        assert len(list(train(model, watched, val, Schedule(2, batch=63, lr=1e-3), seed=seed, name="x"))) == 2
        return seen

    def rows(x):
        return {row.numpy().tobytes() for row in x}

    first, second = trained(0)
    assert len(rows(first) & rows(second)) < 5
    assert all(torch.equal(a, b) for a, b in zip(trained(0), (first, second), strict=True))
    assert len(rows(first) & rows(trained(1)[0])) < 5


def test_own_images_can_have_one_of_torchvision_s_networks(tmp_path, vbs, monkeypatch):
    monkeypatch.setenv("VBS_EPOCHS", "3")
    images(tmp_path / "mine")
    assert vbs(tmp_path, "download", "--dataset", "folder", "--from", "mine", "--size", "64").code == 0
    for name, message in (("vgg11", "does not end in average pooling"), ("resnet81", "did you mean 'resnet18'")):
        refused = vbs(tmp_path, "train", "--dataset", "folder", "--model", name)
        assert refused.code == 2
        assert message in refused.err
    done = vbs(tmp_path, "train", "--dataset", "folder", "--model", "resnet18")
    assert done.code == 0, done.err
    scored = vbs(tmp_path, "evaluate", "--json")
    assert scored.code == 0, scored.err
    accuracy = {row["value"] for row in json.loads(scored.out)["rows"] if row["metric"] == "accuracy"}
    assert max(accuracy) > 0.6  # of three classes
    assert exported(tmp_path, vbs)["what"].startswith("resnet18 for 3 classes of folder")
