"""A run that is stopped anywhere, by anything, ends like one that never was."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import ENVIRONMENT, SMALL
from tests.fixtures.command import run_vbs
from tests.fixtures.jobs import all_numbers, hashes, job_in
from vbs_cli.errors import VbsError
from vbs_cli.run import layout
from vbs_cli.run.formats import checkpoint_from


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_every_file_operation_may_fail_once(made, data_only, monkeypatch, operation):
    """The Nth operation of the Nth attempt fails, until one attempt has fewer operations than N."""
    real = getattr(os, operation)
    attempt = calls = 0

    def failing(*arguments):
        nonlocal calls
        calls += 1
        if calls == attempt:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, operation, failing)
    for attempt in range(1, 400):  # noqa: B007
        calls = 0
        try:
            all_numbers(job_in(data_only))
        except VbsError as error:
            assert "No space left" in str(error)  # noqa: PT017
        else:
            break
    assert attempt > 10
    assert hashes(data_only) == hashes(made)
    assert not list(data_only.rglob("*.vbs-tmp"))


def epochs_done(folder):
    """Of the unfinished training, as its checkpoint tells."""
    path = folder / layout.checkpoint(0, "conventional")
    return checkpoint_from(path.read_bytes()).epoch if path.exists() else 0


def test_a_killed_training_resumes_and_ends_with_the_same_weights(data_only, tmp_path_factory):
    environment = {**ENVIRONMENT, "VBS_EPOCHS": "60", "VBS_SEEDS": "1", "VBS_METHODS": "conventional"}
    command = [sys.executable, "-m", "vbs_cli", "train", "--dataset", "radio"]
    child = subprocess.Popen(
        command, cwd=data_only, env={**os.environ, **environment, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    folder = data_only / "runs" / "radio"
    deadline = time.monotonic() + 60
    # a second checkpoint means that the manifest knows the first
    while epochs_done(folder) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (folder / layout.weights(0, "conventional")).exists()
    done = run_vbs(data_only, "train", "--dataset", "radio", env=environment)
    assert done.code == 0, done.err
    assert "seed 0 conventional goes on after epoch" in done.err
    done = run_vbs(data_only, "train", "--dataset", "radio", "--run", "whole", env=environment)
    assert done.code == 0, done.err
    assert "goes on" not in done.err
    whole = data_only / "runs" / "whole" / layout.weights(0, "conventional")
    assert whole.read_bytes() == (folder / layout.weights(0, "conventional")).read_bytes()


def test_a_truncated_checkpoint_is_an_error_with_a_way_out(workplace):
    path = workplace / "runs" / "radio" / layout.weights(0, "conventional")
    path.write_bytes(path.read_bytes()[:100])
    done = run_vbs(workplace, "train")
    assert done.code == 1
    assert "seed-0/conventional.safetensors is damaged" in done.err
    assert "rm " in done.err


def test_leftovers_are_never_read_and_go_with_the_next_command(workplace):
    leftover = workplace / "runs" / "radio" / ".metrics.parquet.1-ab.vbs-tmp"
    leftover.write_bytes(b"half a table")
    assert run_vbs(workplace, "evaluate").code == 0
    assert not leftover.exists()


def test_small_settings_are_those_of_the_environment():
    for name, value in ENVIRONMENT.items():
        assert float(value) == getattr(SMALL, name.removeprefix("VBS_").lower())
