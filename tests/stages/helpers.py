"""What the tests of the stages share."""

from tests.conftest import SMALL
from vbs_cli.data import open_dataset
from vbs_cli.progress import Progress
from vbs_cli.run import Run, Store
from vbs_cli.stages import networks, status
from vbs_cli.stages.base import Job
from vbs_cli.stages.sweep import sweep


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
    networks.check(networks.train_all(job))
    sweep(job, job.run.settings.noises)


def states(job):
    return {row["artifact"]: row["state"] for row in status.status(job)}
