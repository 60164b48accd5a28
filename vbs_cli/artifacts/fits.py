"""Fitted methods of every seed, from its validation records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vbs_cli import files
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import clean_passes, read_records
from vbs_cli.logits import Logits
from vbs_cli.methods import METHODS, Method
from vbs_cli.run import Artifact, Recipe, layout
from vbs_cli.views import VIEWS

STAGE = "calibrate"
Fitted = Mapping[int, Mapping[str, Method]]  # by seed and name; layout.TOGETHER is the seed of methods that read all


def artifacts(job: Job) -> list[Artifact]:
    """Artifact of the file with all fitted methods."""
    settings = {"methods": options(job), **job.joins}
    inputs = tuple(p.name for p in clean_passes(job, "val"))
    return [Artifact(layout.METHODS, Recipe(STAGE, settings, inputs, code(job)), make)]


def options(job: Job) -> dict[str, dict[str, Any]]:
    """Pair and options of each of the run's methods, by name."""
    return {name: {"pair": str(job.pairs[name]), **asdict(method)} for name, method in job.methods.items()}


def code(job: Job) -> dict[str, int]:
    """Revisions of the run's methods, and of the views that join the records which they read."""
    return METHODS.revisions(sorted({pair.method for pair in job.pairs.values()})) | VIEWS.revisions(job.joining)


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Fit all methods and write them as JSON."""
    [artifact] = due
    passes = clean_passes(job, "val")
    job.make([p.name for p in passes], to_read=[p.name for p in passes])
    fitted = fit(job, dict(read_records(job, passes)))
    stored = {str(seed): {name: asdict(method) for name, method in methods.items()} for seed, methods in fitted.items()}
    job.run.store.write(artifact.name, files.to_json(stored), artifact.recipe)


def fit(job: Job, records: Mapping[tuple[int, str], Logits]) -> Fitted:
    """Fit each method on the validation records of its view, seed by seed."""
    fitted: dict[int, dict[str, Method]] = {}
    with job.progress.task("fitting", len(records) * len(job.methods)) as task:
        for name, method in job.methods.items():
            for (seed, view), record in records.items():
                task.advance(1)
                if job.pairs[name].view == view:
                    task.note(f"{name} of seed {seed}")
                    fitted.setdefault(seed, {})[name] = found = method.fit(record)
                    if getattr(found, "converged", None) is False:
                        job.progress.say(f"{name} of seed {seed} found no optimum on the validation data; distrust it")
        task.note(f"{len(job.methods)} methods")
    return fitted
