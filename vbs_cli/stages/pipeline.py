"""`vbs run`: the stages in a row."""

from __future__ import annotations

from pathlib import Path

from vbs_cli.stages import passes as caches
from vbs_cli.stages import train
from vbs_cli.stages import work as networks
from vbs_cli.stages.base import Job
from vbs_cli.stages.calibrate import calibrate
from vbs_cli.stages.plot import plot
from vbs_cli.stages.report import report
from vbs_cli.stages.sweep import sweep


def cost(job: Job) -> float:
    """What is to be done, in forward passes of one example; the stages after the networks take seconds."""
    retrained = set(train.pending(job))
    due = [p for p in caches.all_passes(job) if (p.seed, p.role) in retrained or caches.is_due(job, p)]
    return len(retrained) * train.cost_of_one(job) + sum(caches.pass_cost(job, p) for p in due)


def run_all(job: Job) -> Path:
    """From the prepared data to the report, whose path it returns."""
    with job.progress.whole("vbs run", cost(job)):
        networks.everything(job)
        calibrate(job)
        sweep(job, job.run.settings.noises)
        plot(job)
        return report(job)
