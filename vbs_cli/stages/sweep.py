"""`vbs noise-sweep`: the test split under growing noise, one forward pass per network, view, noise and level."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from vbs_cli.artifacts import study, tables
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import check_has_networks, noise_passes
from vbs_cli.artifacts.plan import planned, report_left_out
from vbs_cli.data import noises_for
from vbs_cli.data.noise import check_suits
from vbs_cli.errors import InvalidInput


def with_sweep(job: Job, noises: Sequence[str], levels: Sequence[float] = ()) -> Job:
    """Job planned with a sweep of these noises over these levels, by default those of its settings."""
    check_noises(job, noises)
    return planned(job, noise_passes(job, noises, levels))


def sweep(job: Job, noises: Sequence[str], levels: Sequence[float] = ()) -> pd.DataFrame:
    """Make the passes, then the tables of these and all cached passes; return the metrics of these noises."""
    job.need_seeds()
    job = with_sweep(job, noises, levels)
    swept = [p.name for p in noise_passes(job, noises, levels)]
    wanted = [*swept, *job.graph.stage(tables.STAGE), *job.graph.stage("examples")]
    job.make(wanted, forced=swept if job.force else ())
    report_left_out(job)
    metrics = job.run.metrics
    return metrics[metrics["noise"].isin(list(noises))].reset_index(drop=True)


def chosen_noises(job: Job, names: Sequence[str] | None) -> list[str]:
    """Noises to sweep: those named ("all" for every one that fits the data), else those of the settings."""
    check_has_networks(job)
    words = [word.strip() for name in names or () for word in name.split(",")]
    if "all" in words:
        return noises_for(job.data.shape)
    chosen = list(dict.fromkeys(words)) or list(job.run.settings.noises)
    check_noises(job, chosen)
    return chosen


def check_noises(job: Job, noises: Sequence[str]) -> None:
    """Refuse a noise that is unknown or not for these inputs before anything is computed."""
    for noise in noises:
        check_suits(noise, job.data.shape)


def with_study(job: Job, exposure: study.Exposure) -> Job:
    """Job planned with the ensemble study of one noise."""
    check_has_networks(job)
    check_noises(job, [exposure.noise])
    if len(job.seeds) < 2:
        raise InvalidInput("an ensemble needs at least two seeds", hint="vbs train --seeds 10 trains more members")
    if study.MEMBER not in job.passing:
        raise InvalidInput("the run trains no conventional networks", hint="--methods with one of them, e.g. vbs")
    job = planned(job, listed=exposure.passes(job))
    job.graph.add(study.artifacts(job, exposure))
    return job


def run_study(job: Job, exposure: study.Exposure) -> pd.DataFrame:
    """Make the passes that are not cached and compare the two ensembles at every level; return the metrics."""
    job = with_study(job, exposure)
    names = job.graph.stage(study.STAGE)
    own = [*(p.name for p in exposure.passes(job)), *names]
    job.make(names, forced=own if job.force else ())
    return job.run.study_metrics
