"""Networks that were trained elsewhere: from a file of weights and a folder of images to a run like any other."""

import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from tests.fixtures.malice import Malice
from vbs_cli import Logits, TemperatureScaling, open_run, score
from vbs_cli.data import open_dataset

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU())
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = self.body((x - 0.5) / 0.25)
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))

build = Net

def segment():
    return nn.Conv2d(3, 3, 3, padding=1)

def normed():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 3))

def number():
    return 7

def four():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with images of three colours, a module of the user's, and weights of its network."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(("blue", "green", "red")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(40):
            pixels = rng.integers(0, 160, (16, 16, 3), dtype=np.uint8)
            pixels[..., 2 - number] += 60
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{i}.png")
    module = f"theirs_{tmp_path.name.replace('-', '_')}"  # Python keeps modules by their names
    (tmp_path / f"{module}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.manual_seed(0)
    net = __import__(module).build()
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    return tmp_path, module, net.eval()


def calibrate(module, *more, function="build", weights="w.safetensors"):
    return ("calibrate", "--model", f"{module}:{function}", "--weights", weights, "--data", "images", "-q", *more)


def test_the_run_has_the_networks_own_logits_and_fits_on_them(place, vbs):
    path, module, net = place
    done = vbs(path, *calibrate(module, "--json"))
    assert done.code == 0, done.err
    assert {row["method"] for row in json.loads(done.out)["rows"]} >= {"temperature", "vbs"}
    assert vbs(path, "evaluate", "-q").code == 0
    run, data = open_run(path / "runs/build"), open_dataset(path / "data", "folder")
    records = []
    for split in ("val", "test"):
        inputs, labels = data.split(split).inputs(slice(None)), data.split(split).y
        with torch.no_grad():
            own = net(inputs)
        torch.testing.assert_close(run.logits(0, split).logits, own, rtol=1e-4, atol=1e-4)
        records.append(Logits.from_logits(own, labels=labels))
    expected = score(TemperatureScaling().fit(records[0]).predict_proba(records[1]), records[1].labels)
    table = run.metrics
    found = table[(table["method"] == "temperature") & (table["noise"] == "clean")].set_index("metric")["value"]
    assert found["nll"] == pytest.approx(expected["nll"], abs=1e-3)


def test_it_is_a_run_like_any_other(place, vbs):
    path, module, _ = place
    assert vbs(path, *calibrate(module)).code == 0
    for words in (
        ("noise-sweep", "--noise", "gaussian", "--levels", "3"),
        ("diagnose", "--noise", "gaussian"),
        ("report",),
    ):
        done = vbs(path, *words, "-q")
        assert done.code == 0, done.err
    done = vbs(path, "export", "--to", "torchscript", "-q", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"][0]["probabilities_difference"] <= 1e-5
    again = vbs(path, *(word for word in calibrate(module) if word != "-q"))
    assert "all is up to date" in again.err
    refused = vbs(path, "train")
    assert (refused.code, "was trained elsewhere" in refused.err) == (2, True)


def test_other_weights_make_everything_after_them_again(place, vbs):
    path, module, net = place
    assert vbs(path, *calibrate(module)).code == 0
    before = open_run(path / "runs/build").logits(0, "val").logits
    save_file({name: value + 0.1 for name, value in net.state_dict().items() if value.is_floating_point()}
              | {name: value for name, value in net.state_dict().items() if not value.is_floating_point()},
              path / "w.safetensors")  # fmt: skip
    assert vbs(path, *calibrate(module)).code == 0
    assert not torch.allclose(open_run(path / "runs/build").logits(0, "val").logits, before)


@pytest.mark.parametrize(
    "nest", [lambda s: {"state_dict": s, "epoch": 3}, lambda s: {f"module.{k}": v for k, v in s.items()}]
)
def test_weights_as_training_scripts_save_them(place, vbs, nest):
    path, module, net = place
    torch.save(nest(net.state_dict()), path / "w.pth")
    assert vbs(path, *calibrate(module, weights="w.pth")).code == 0


def test_a_pickle_that_is_more_than_tensors_is_refused_and_not_run(place, vbs):
    path, module, net = place
    torch.save({"state_dict": net.state_dict(), "more": Malice(path / "owned")}, path / "bad.pth")
    (path / "bad.pkl").write_bytes(pickle.dumps(Malice(path / "owned")))
    for name in ("bad.pth", "bad.pkl"):
        done = vbs(path, *calibrate(module, weights=name))
        assert (done.code, "it was not run" in done.err) == (2, True), done.err
    assert not (path / "owned").exists()
    assert not (path / "runs").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("segment", "no patch logits"),
        ("normed", "stands between its average pooling and its linear layer"),
        ("number", "returns a int"),
        ("nothing", "there is no"),
        ("four", "answers with 4 numbers, the data have 3 classes"),
    ],
)
def test_what_is_no_classifier_that_averages_patches_is_refused(place, vbs, function, message):
    path, module, _ = place
    done = vbs(path, *calibrate(module, function=function))
    assert (done.code, message in done.err) == (2, True), done.err
    assert "Traceback" not in done.err


def test_weights_that_do_not_match_are_told_apart(place, vbs):
    path, module, net = place
    state = net.state_dict()
    changed = {
        "missing": {name: value for name, value in state.items() if name != "fc.bias"},
        "unknown": {**state, "extra": torch.ones(1)},
        "of another shape": {**state, "fc.weight": torch.zeros(5, 8), "fc.bias": torch.zeros(5)},
    }
    for what, weights in changed.items():
        save_file({name: value.contiguous() for name, value in weights.items()}, path / "other.safetensors")
        done = vbs(path, *calibrate(module, weights="other.safetensors"))
        assert (done.code, what in done.err) == (2, True), done.err
    assert not (path / "runs/build/run.toml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "resnet18", "--weights", "w.safetensors"), "need the network that they belong to"),
        (("--weights", "w.safetensors"), "need the network that they belong to"),
        (("--model", "torchvision:resnet18"), "give its --weights too"),
        (("--model", "torchvision:resnet17", "--weights", "w.safetensors", "--data", "images"), "torchvision:resnet1"),
    ],
)
def test_half_a_request_gets_one_line_with_the_cure(place, vbs, words, message):
    path, _, _ = place
    done = vbs(path, "calibrate", *words, "-q")
    assert (done.code, message in done.err) == (2, True), done.err


def test_torchvisions_networks_take_weights_by_their_own_names(place, vbs):
    from torchvision.models import resnet18

    path, _, _ = place
    torch.manual_seed(0)
    net = resnet18(num_classes=3)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_var, 0.5, 2.0)
    save_file(net.state_dict(), path / "r.safetensors")
    prepared = vbs(path, "download", "--dataset", "folder", "--from", "images", "--size", "64", "-q")
    assert prepared.code == 0, prepared.err
    done = vbs(path, "calibrate", "--model", "torchvision:resnet18", "--weights", "r.safetensors", "-q")
    assert done.code == 0, done.err
    x = open_dataset(path / "data", "folder").split("test").inputs(slice(None))
    assert vbs(path, "evaluate", "-q").code == 0
    with torch.no_grad():
        own = net.eval()(x)
    torch.testing.assert_close(open_run(path / "runs/resnet18").logits(0).logits, own, rtol=1e-3, atol=1e-3)
