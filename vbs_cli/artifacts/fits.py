"""The methods of every seed, fitted on its validation records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from vbs_cli import files
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import clean_passes, load_records
from vbs_cli.logits import Logits
from vbs_cli.methods import METHODS, Method
from vbs_cli.run import Artifact, Recipe, layout

STAGE = "calibrate"
Fitted = Mapping[int, Mapping[str, Method]]  # by seed and name; those that read all seeds under layout.TOGETHER


def artifacts(job: Job) -> list[Artifact]:
    """The file with all fitted methods."""
    methods = {name: {"pair": str(job.pairs[name]), **asdict(method)} for name, method in job.methods.items()}
    revisions = METHODS.revisions(sorted({pair.method for pair in job.pairs.values()}))
    inputs = tuple(p.name for p in clean_passes(job, "val"))
    return [Artifact(layout.METHODS, Recipe(STAGE, {"methods": methods}, inputs, revisions), make)]


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Fit all methods and write them as JSON."""
    [artifact] = due
    passes = clean_passes(job, "val")
    job.make([p.name for p in passes], to_read=[p.name for p in passes])
    fitted = fit(job, dict(load_records(job, passes)))
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
