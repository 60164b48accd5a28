"""A small dataset and a small finished run, made once and copied for the tests that change them."""

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vbs_cli.artifacts import passes
from vbs_cli.artifacts.job import Job
from vbs_cli.data import Preparation, prepare
from vbs_cli.data.preparation import Batch
from vbs_cli.networks import training
from vbs_cli.protocols import protocol
from vbs_cli.run import Run, Store
from vbs_cli.stages.run import run_all

pytest_plugins = ["tests.fixtures.command", "tests.fixtures.outside", "tests.fixtures.tables"]

CLASSES, SHAPE = 4, (2, 200)  # gives 10 patches
COUNTS = {"train": 96, "val": 60, "test": 70}
SMALL = replace(protocol("radio", "quick"), seeds=2, width=6, epochs=2, batch=32, draws=3, kernel=3, levels=3, lr=5e-3)
# The same by the environment, for commands that start from the profile.
ENVIRONMENT = {
    "VBS_SEEDS": "2",
    "VBS_WIDTH": "6",
    "VBS_EPOCHS": "2",
    "VBS_BATCH": "32",
    "VBS_DRAWS": "3",
    "VBS_KERNEL": "3",
    "VBS_LEVELS": "3",
    "VBS_LR": "5e-3",
}


def tones(split: str):
    """Sines whose frequency is the class, under noise."""
    rng = torch.Generator().manual_seed(len(split))
    y = torch.randint(0, CLASSES, (COUNTS[split],), generator=rng)
    time = torch.arange(SHAPE[1]) / SHAPE[1]
    phase = torch.rand(len(y), SHAPE[0], 1, generator=rng) * 6.28
    x = torch.sin(2 * torch.pi * (4 + 6 * y[:, None, None]) * time + phase)
    yield Batch(x + 0.7 * torch.randn(x.shape, generator=rng), y)


def small_preparation(source="simulated (sines)"):
    return Preparation(
        source=source,
        licence="none",
        class_names=tuple(map(str, range(CLASSES))),
        shape=SHAPE,
        counts=COUNTS,
        batches=tones,
    )


def pytest_configure():
    """Commands that the tests start must hear Ctrl-C, also where the tests themselves run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def few_threads():
    """Small tensors gain nothing from threads, and busy machines lose by them."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Small networks are trained sooner than other processes start; tests that want some ask for them."""
    monkeypatch.setenv("VBS_JOBS", "1")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Whatever asks for another machine meets a proxy that is not there."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A folder with data/radio and a finished runs/radio."""
    folder = tmp_path_factory.mktemp("made")
    torch.set_num_threads(1)
    data = prepare(folder / "data", "radio", small_preparation())
    run = Run(folder / "runs" / "radio", SMALL, Store(folder / "runs" / "radio"))
    with run.settings_saved():
        run_all(Job(run, data))
    return folder


@pytest.fixture
def workplace(made, tmp_path) -> Path:
    """A copy of `made` to do with as one likes."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def data_only(made, tmp_path) -> Path:
    """A copy with the data alone."""
    shutil.copytree(made / "data", tmp_path / "data")
    return tmp_path


@pytest.fixture
def no_network(monkeypatch):
    """Any forward pass or training fails the test."""

    def refuse(*_, **__):
        raise AssertionError("a network ran")

    monkeypatch.setattr(passes, "walk", refuse)
    monkeypatch.setattr(training, "train", refuse)
