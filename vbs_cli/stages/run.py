"""`vbs run`: everything from the networks to the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vbs_cli.artifacts import examples, fits, passes, tables, training
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass
from vbs_cli.artifacts.plan import report_left_out
from vbs_cli.run import Artifact, layout
from vbs_cli.stages.plot import plot
from vbs_cli.stages.report import report
from vbs_cli.stages.sweep import with_sweep
from vbs_cli.stages.train import need_training

NUMBERS = (fits.STAGE, tables.STAGE, examples.STAGE)


def run_all(job: Job) -> Path:
    """Make all that the settings call for, from the prepared data to the report, whose path it returns."""
    need_training(job)
    job.need_seeds()
    job = replace(with_sweep(job, job.run.settings.noises), trains=True)
    wanted = [*job.graph.stage(training.STAGE), *(p.name for p in passes.settings_passes(job))]
    forced = wanted if job.force else ()
    due = job.graph.due(job.graph.behind(wanted), forced=forced)
    others = {p.name for p in passes.recorded_passes(job)}.difference(wanted)
    with job.progress.whole("vbs run", sum(cost(job, artifact) for artifact in due)):
        job.make(wanted, forced=forced)
        training.tidy(job)
        if others and any(artifact.recipe.stage == training.STAGE for artifact in due):
            job = with_sweep(job, job.run.settings.noises)  # anew: networks that were trained leave other sweeps stale
        numbers = job.graph.stage(*NUMBERS)
        job.make(numbers, forced=numbers if job.force else ())
        report_left_out(job)
        plot(job)
        return report(job)


def cost(job: Job, artifact: Artifact) -> float:
    """Cost of an artifact in forward passes of one example; those made without a network count as zero."""
    values = artifact.recipe.settings
    if artifact.recipe.stage == passes.STAGE:
        return passes.cost(job, Pass.of(values))
    if artifact.recipe.stage == training.STAGE and artifact.name == layout.weights(values["seed"], values["network"]):
        return training.cost_of_one(job)
    return 0.0
