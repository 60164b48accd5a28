"""`vbs calibrate`: fit the methods of every seed on its validation logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from vbs_cli import files
from vbs_cli.methods import METHODS, Method
from vbs_cli.registry import unknown
from vbs_cli.run import Recipe, layout
from vbs_cli.stages import caches
from vbs_cli.stages.base import Job, Target


def chosen_methods(job: Job) -> dict[str, Method]:
    """The run's methods with their options, not yet fitted."""
    s = job.run.settings
    return {name: with_options(name, s.options.get(name, {})) for name in s.methods}


def with_options(name: str, options: Mapping[str, Any]) -> Method:
    known = [field.name for field in fields(METHODS[name])]
    for option in options:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    return METHODS[name](**options)


def target(job: Job) -> Target:
    settings = {"methods": {name: asdict(method) for name, method in chosen_methods(job).items()}}
    inputs = tuple(p.name for p in caches.clean_passes(job, "val"))
    return layout.METHODS, Recipe("calibrate", settings, inputs)


def calibrate(job: Job) -> dict[int, dict[str, Method]]:
    """The fitted methods by seed."""
    passes = caches.clean_passes(job, "val")
    caches.ensure(job, passes, "validation logits")
    name, made_from = target(job)
    if not job.needs((name, made_from)):
        return job.run.methods
    fitted = {seed: fit_seed(job, seed) for seed in job.seeds}
    stored = {str(seed): {name: asdict(method) for name, method in methods.items()} for seed, methods in fitted.items()}
    job.run.store.write(name, files.to_json(stored), made_from)
    return fitted


def fit_seed(job: Job, seed: int) -> dict[str, Method]:
    records = {role: caches.load(job, caches.Pass(seed, role, "val")) for role in job.roles}
    return {name: method.fit(records[method.model]) for name, method in chosen_methods(job).items()}


def rows(fitted: dict[int, dict[str, Method]]) -> list[dict[str, Any]]:
    """One row per seed, method and fitted number."""
    return [
        {"seed": seed, "method": name, "parameter": parameter, "value": value}
        for seed, methods in fitted.items()
        for name, method in methods.items()
        for parameter, value in asdict(method).items()
    ]
