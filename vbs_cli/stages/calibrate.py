"""`vbs calibrate`: fit the methods of every seed on its validation logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from vbs_cli import files
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.methods import Method
from vbs_cli.run import Recipe, layout
from vbs_cli.stages import passes as caches
from vbs_cli.stages import work as networks
from vbs_cli.stages.base import Job, Target


def target(job: Job) -> Target:
    settings = {"methods": {name: asdict(method) for name, method in job.methods.items()}}
    inputs = tuple(p.name for p in caches.clean_passes(job, "val"))
    return layout.METHODS, Recipe("calibrate", settings, inputs)


def calibrate(job: Job) -> dict[int, dict[str, Method]]:
    """The fitted methods by seed; those of the ensemble of all seeds under `layout.TOGETHER`."""
    if job.has_ensemble and len(job.seeds) < 2:
        raise InvalidInput("an ensemble of one seed is none", hint="--seeds 2 or more, or leave ensembles out")
    passes = caches.clean_passes(job, "val")
    networks.ensure(job, passes)
    name, made_from = target(job)
    if not job.needs((name, made_from)):
        return job.run.methods
    networks.ensure(replace(job, force=False), passes, to_read=True)
    fitted = fit(job, dict(caches.records(job, passes, together=job.has_ensemble)))
    stored = {str(seed): {name: asdict(method) for name, method in methods.items()} for seed, methods in fitted.items()}
    job.run.store.write(name, files.to_json(stored), made_from)
    return fitted


def fit(job: Job, records: Mapping[tuple[int, str], Logits]) -> dict[int, dict[str, Method]]:
    """Each method on the validation record that it reads, seed by seed."""
    methods = job.methods
    with job.progress.task("fitting", len(records) * len(methods)) as task:
        fitted: dict[int, dict[str, Method]] = {}
        for name, method in methods.items():
            for (seed, role), record in records.items():
                task.advance(1)
                if method.model == role:
                    task.note(f"{name} of seed {seed}")
                    fitted.setdefault(seed, {})[name] = done = method.fit(record)
                    if getattr(done, "converged", None) is False:
                        job.progress.say(f"{name} of seed {seed} found no optimum on the validation data; distrust it")
        task.note(f"{len(methods)} methods")
    return fitted


def rows(fitted: dict[int, dict[str, Method]]) -> list[dict[str, Any]]:
    """One row per seed, method and fitted number."""
    return [
        {"seed": seed, "method": name, "parameter": parameter, "value": value}
        for seed, methods in fitted.items()
        for name, method in methods.items()
        for parameter, value in asdict(method).items()
    ]
