"""`vbs calibrate`: fit the methods of every seed on its validation records."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vbs_cli.artifacts.fits import Fitted
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import clean_passes
from vbs_cli.artifacts.plan import with_plan
from vbs_cli.run import layout


def calibrate(job: Job) -> Fitted:
    """Fit the methods that are not up to date, with the passes that they need; return all fitted methods."""
    job.need_seeds()
    job = with_plan(job)
    own = [*(p.name for p in clean_passes(job, "val")), layout.METHODS]
    job.make([layout.METHODS], forced=own if job.force else ())
    return job.run.methods


def rows(fitted: Fitted) -> list[dict[str, Any]]:
    """One row per seed, method and fitted number."""
    return [
        {"seed": seed, "method": name, "parameter": parameter, "value": value}
        for seed, methods in fitted.items()
        for name, method in methods.items()
        for parameter, value in asdict(method).items()
    ]
