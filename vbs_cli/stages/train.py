"""`vbs train`: the networks of every seed."""

from __future__ import annotations

from dataclasses import replace

from vbs_cli.artifacts import training
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import check_has_networks
from vbs_cli.artifacts.plan import with_plan
from vbs_cli.artifacts.training import summary
from vbs_cli.artifacts.work import Failures, NetworksFailed
from vbs_cli.errors import InvalidInput

__all__ = ["need_training", "summary", "train"]


def train(job: Job) -> Failures:
    """Train the networks that are missing; return those that failed, while all others are done."""
    need_training(job)
    job = with_plan(job)
    names = job.graph.stage(training.STAGE)
    failures: Failures = {}
    try:
        replace(job, trains=True).make(names, forced=names if job.force else ())
    except NetworksFailed as error:
        failures = error.failures
    training.tidy(job)
    if job.tensorboard:
        training.fill_board(job)
    return failures


def need_training(job: Job) -> None:
    """Refuse a run whose network was trained elsewhere, or that has none."""
    check_has_networks(job)
    if job.run.settings.weights:
        hint = "vbs calibrate, evaluate, noise-sweep, diagnose and export work on it"
        raise InvalidInput(f"the network of {job.run.path} was trained elsewhere", hint=hint)
