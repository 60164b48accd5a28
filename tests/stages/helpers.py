"""What the tests of the stages share."""

import time

from tests.conftest import SMALL
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.work import NetworksFailed
from vbs_cli.data import open_dataset
from vbs_cli.progress import Progress
from vbs_cli.run import Run, Store, layout
from vbs_cli.stages import status
from vbs_cli.stages.sweep import sweep
from vbs_cli.stages.train import train

KEPT = (".safetensors", layout.METRICS, layout.RELIABILITY, layout.METHODS, layout.INTERVALS)


class Heard(Progress):
    """Keeps what is said to the user."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def job_in(folder, settings=SMALL, **extra):
    path = folder / "runs" / "radio"
    return Job(Run(path, settings, Store(path)), open_dataset(folder / "data", "radio"), **extra)


def all_numbers(job):
    """The run without its pictures."""
    if failures := train(job):
        raise NetworksFailed(failures)
    sweep(job, job.run.settings.noises)


def states(job):
    return {row["artifact"]: row["state"] for row in status.status(job)}


def hashes(folder):
    """Of everything that holds no times."""
    entries = job_in(folder).run.store.entries
    return {name: entry.sha256 for name, entry in entries.items() if name.endswith(KEPT)}


def saved_job(folder, settings=SMALL, **extra):
    """A job whose settings other processes can read."""
    job = job_in(folder, settings, **extra)
    with job.run.settings_saved():
        return job


def wait_for(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
