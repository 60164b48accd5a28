"""Networks at work on a cluster: a real scheduler and two workers on this machine, one of which may be lost."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from tests.conftest import ENVIRONMENT, SMALL
from tests.fixtures.command import run_vbs
from tests.fixtures.jobs import Heard, hashes, job_in, saved_job, wait_for
from vbs_cli.errors import VbsError
from vbs_cli.executors.cluster import Cluster, carry_out
from vbs_cli.locks import is_held
from vbs_cli.run import layout
from vbs_cli.run.formats import checkpoint_from
from vbs_cli.stages.train import train


class Started:
    """Processes that end with the test."""

    def __init__(self):
        self.running = []

    def start(self, *words, cwd):
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=cwd,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def kill(self, process):
        """With its children, as when a machine is lost."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.running.remove(process)


@pytest.fixture
def started():
    all_of_them = Started()
    yield all_of_them
    for process in list(all_of_them.running):
        all_of_them.kill(process)


@pytest.fixture
def cluster(started, tmp_path):
    """A scheduler and two workers on this machine, each of which runs one command at a time."""
    file = tmp_path / "scheduler.json"
    options = ("--host", "127.0.0.1", "--no-dashboard")
    started.start(
        *("-m", "distributed.cli.dask_scheduler", *options, "--port", "0", "--scheduler-file", str(file)), cwd=tmp_path
    )
    wait_for(file.is_file)
    words = ("-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1", *options)
    workers = [started.start(*words, cwd=tmp_path) for _ in range(2)]
    return str(file), workers


def test_a_cluster_gives_the_same_bits(made, data_only, cluster):
    address, _ = cluster
    done = run_vbs(data_only, "train", "--dataset", "radio", "--seeds", "1", "--cluster", address, env=ENVIRONMENT)
    assert done.code == 0, done.err
    assert "seed 0 dropout: done in" in done.err
    done = run_vbs(data_only, "noise-sweep", "--levels", "3", "--cluster", address)
    assert "seed 0 dropout, logits: done in" in done.err
    expected = {name: sha256 for name, sha256 in hashes(made).items() if "seed-0/" in name}
    assert len(expected) == 2 * (2 + 2 + 2 * 2)
    assert expected.items() <= hashes(data_only).items()


def test_the_task_of_a_killed_worker_goes_on_elsewhere_to_the_same_bits(data_only, cluster, started):
    address, workers = cluster
    settings = replace(SMALL, seeds=1, epochs=60)
    heard = Heard()
    job = saved_job(data_only, settings, crew=Cluster(address), progress=heard)
    folder = job.run.path
    watched = folder / layout.checkpoint(0, "conventional")

    def epochs_done():
        return checkpoint_from(watched.read_bytes()).epoch if watched.is_file() else 0

    result = {}
    thread = threading.Thread(target=lambda: result.update(failures=train(job)))
    thread.start()
    wait_for(lambda: epochs_done() >= 3)
    holder = (folder / ".parts" / "seed-0-conventional.lock.json").read_text()
    started.kill(worker_of(workers, holder))
    thread.join(120)
    assert result == {"failures": {}}
    assert any("seed 0 conventional goes on after epoch" in said for said in heard.said)
    weights = job.run.store.read(layout.weights(0, "conventional"))
    # the same without any of this
    (data_only / "runs").rename(data_only / "elsewhere")
    alone = job_in(data_only, replace(settings, methods=("conventional",)))
    train(alone)
    assert alone.run.store.read(layout.weights(0, "conventional")) == weights


def worker_of(workers, holder):
    """The worker whose command holds a lock: the one at the head of its line of parents."""
    pid = json.loads(holder)["pid"]
    heads = {worker.pid: worker for worker in workers}
    while pid not in heads:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rsplit(")", 1)[1].split()[1])
    return heads[pid]


def test_an_interrupted_command_stops_its_pieces_on_the_cluster(data_only, cluster):
    address, _ = cluster
    environment = {**os.environ, **ENVIRONMENT, "VBS_EPOCHS": "100000", "VBS_SEEDS": "1", "VBS_DEVICE": "cpu"}
    command = [sys.executable, "-m", "vbs_cli", "train", "--dataset", "radio", "--cluster", address]
    process = subprocess.Popen(command, cwd=data_only, env=environment, stderr=subprocess.DEVNULL)
    folder = data_only / "runs" / "radio"
    wait_for(lambda: list(folder.glob("seed-*/*.unfinished.safetensors")))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    wait_for(lambda: not any(is_held(folder / ".parts", name=lock.name) for lock in folder.glob(".parts/*.lock")))


def test_a_worker_of_another_version_refuses():
    error, wrong_use, _ = carry_out(["--version"], "0/dropout", "topic", "0.0.0")
    assert "not 0.0.0" in error
    assert wrong_use


def test_a_cluster_that_does_not_answer_is_named(data_only, monkeypatch):
    monkeypatch.setattr("vbs_cli.executors.cluster.ANSWER", 0.5)
    job = saved_job(data_only, crew=Cluster("tcp://127.0.0.1:9"))
    with pytest.raises(VbsError, match=r"no scheduler answers at tcp://127.0.0.1:9 .*dask scheduler"):
        train(job)
