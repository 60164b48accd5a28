"""`vbs evaluate`: score every method on every cached pass over the test split."""

from __future__ import annotations

import pandas as pd

from vbs_cli.artifacts import tables
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import clean_passes
from vbs_cli.artifacts.plan import report_left_out, with_plan


def evaluate(job: Job) -> pd.DataFrame:
    """Make the tables, and before them the fits and passes that are not up to date; return the metrics."""
    job.need_seeds()
    job = with_plan(job)
    names = job.graph.stage(tables.STAGE)
    own = [*(p.name for p in clean_passes(job, "test")), *names]
    job.make(names, forced=own if job.force else ())
    report_left_out(job)
    return job.run.metrics
