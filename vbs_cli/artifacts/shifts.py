"""Table of scores over shifts together: mean and worst by noise, by family and over all, for every suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
import torch
from torch import Tensor

from vbs_cli.artifacts.cells import with_labels
from vbs_cli.artifacts.intervals import interval_table, read_replicates
from vbs_cli.artifacts.job import Job, Levels
from vbs_cli.artifacts.passes import Pass
from vbs_cli.conditions import CLEAN, EVERYTHING, Condition
from vbs_cli.data.noise import suites_for
from vbs_cli.metrics import SCORES
from vbs_cli.metrics.shifts import MEAN, WORST, Shift, ShiftGroup, mean_over, ranked, shift_groups, worst_over
from vbs_cli.run import Artifact, formats

REVISION = 1  # of the table; raised when its content changes
COLUMNS = (
    *("suite", "over", "name", "severity", "statistic"),
    *("method", "baseline", "metric", "value", "low", "high", "conditions"),
)


def settings(job: Job, passes: Iterable[Pass]) -> dict[str, object]:
    """Settings of the table's recipe: the levels of every suite, the family of every noise, what was fitted on one."""
    found = suites_of(job, levels_of((p.noise, p.level) for p in passes))
    noises = sorted(found.get(EVERYTHING, ()))
    return {
        "suites": {name: {noise: list(levels) for noise, levels in suite.items()} for name, suite in found.items()},
        "families": {noise: job.family_of(noise) for noise in noises},
        "tuned_on": job.run.settings.tuned_on,
    }


def levels_of(conditions: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    """Levels above zero of each noise, ascending."""
    found: dict[str, set[float]] = {}
    for noise, level in conditions:
        if noise != CLEAN and level > 0:
            found.setdefault(noise, set()).add(level)
    return {noise: sorted(levels) for noise, levels in found.items()}


def suites_of(job: Job, levels: Levels) -> dict[str, Levels]:
    """All that was swept, and each suite for the job's inputs whose every noise and level is among it."""
    if not levels:
        return {}
    known: dict[str, Levels] = {**suites_for(job.data.shape), **job.file_suites}
    complete = {
        name: suite
        for name, suite in known.items()
        if all(set(some) <= set(levels.get(noise, ())) for noise, some in suite.items())
    }
    return {EVERYTHING: levels, **complete}


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the table; without any shift it is empty."""
    [artifact] = due
    columns = scores_by_shift(job)
    seen = job.family_of(tuned) if (tuned := job.run.settings.tuned_on) else ""
    tables = [pd.DataFrame(columns=list(COLUMNS))]
    for name, levels in suites_of(job, levels_of((at.noise, at.level) for at in columns)).items():
        shifts = ranked(levels, {noise: job.family_of(noise) for noise in levels})
        there = [columns[Condition(shift.noise, shift.level)] for shift in shifts]
        methods = [method for method in there[0] if all(method in each for each in there)]
        by_shift = {
            shift: torch.stack([each[method] for method in methods])
            for shift, each in zip(shifts, there, strict=True)
            if methods
        }
        for group in shift_groups(shifts, seen=seen) if methods else ():
            tables.append(group_table(group, by_shift, methods).assign(suite=name))
    table = pd.concat([each for each in tables if len(each)] or tables, ignore_index=True)[list(COLUMNS)]
    job.run.store.write(artifact.name, formats.table_bytes(with_labels(job, table)), artifact.recipe)


def scores_by_shift(job: Job) -> dict[Condition, dict[str, Tensor]]:
    """Replicates of SCORES, (scores, 1 + R), keyed by condition and method."""
    return {
        at: {
            method: torch.stack([tensor[metrics.index(score)] for score in SCORES])
            for method, (metrics, tensor) in by_method.items()
        }
        for at, by_method in read_replicates(job).items()
    }


def group_table(group: ShiftGroup, columns: Mapping[Shift, Tensor], methods: Sequence[str]) -> pd.DataFrame:
    """Rows of one group of shifts, given the replicates of all methods under each shift: (M, scores, 1 + R)."""
    found = {MEAN: mean_over(group, columns), WORST: worst_over(group, columns, SCORES)}
    tables = [
        interval_table(values, methods, SCORES).assign(statistic=statistic).dropna(subset="value")
        for statistic, values in found.items()
    ]
    return pd.concat(tables, ignore_index=True).assign(
        over=group.over, name=group.name, severity=group.severity, conditions=len(group.shifts)
    )
