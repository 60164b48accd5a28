"""`vbs noise-sweep --study ensemble`: a deep ensemble against a variance-smoothed one, on the run's seeds as members.

Both predict from the same cached logits, so the study costs one forward pass per member and level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.errors import InvalidInput
from vbs_cli.methods import Method
from vbs_cli.metrics import METRICS, Scored, bootstrap, values_of
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.seeding import threads
from vbs_cli.stages import passes as caches
from vbs_cli.stages import work as networks
from vbs_cli.stages.base import Job, Target
from vbs_cli.stages.cells import cells_of, scored_cells
from vbs_cli.stages.evaluate import interval_rows, labelled
from vbs_cli.stages.passes import Pass
from vbs_cli.stages.sweep import check_noises

# The paper's study; alpha 1 and beta q75 are the defaults of the method.
BASELINE, SMOOTHED = "ensemble", "vbs-ensemble"
MEMBER = "conventional"
NOISE, LEVELS, MAX_LEVEL = "gaussian", 60, 0.7
COMPARED = ("accuracy", "kl_uniform", "ece", "brier", "entropy")
RANKS = (0.0, 0.25, 0.5, 0.75, 1.0)  # quantiles of entropy whose predicted distributions are kept
TABLES = (layout.STUDY_METRICS, layout.STUDY_INTERVALS, layout.STUDY_DISTRIBUTIONS)


@dataclass(frozen=True)
class Plan:
    """What the members are exposed to."""

    noise: str
    levels: tuple[float, ...]

    def passes(self, job: Job) -> list[Pass]:
        """Every member at every level; level zero is the clean pass."""
        return [
            Pass(seed, MEMBER, "test", self.noise, level) if level > 0 else Pass(seed, MEMBER, "test")
            for level in self.levels
            for seed in job.seeds
        ]


def validation(job: Job) -> list[Pass]:
    return [Pass(seed, MEMBER, "val") for seed in job.seeds]


def with_ensembles(job: Job) -> Job:
    """The job with both ensembles among its methods, and nothing else changed: its caches serve both."""
    methods = tuple(dict.fromkeys([*job.run.settings.methods, BASELINE, SMOOTHED]))
    return replace(job, run=replace(job.run, settings=replace(job.run.settings, methods=methods)))


def target(job: Job, plan: Plan) -> list[Target]:
    """The study's tables and fitted methods."""
    of_study = with_ensembles(job).methods
    settings = {
        **job.labels(),
        **{"noise": plan.noise, "levels": list(plan.levels), "metrics": list(METRICS)},
        "methods": {name: asdict(of_study[name]) for name in (BASELINE, SMOOTHED)},
    }
    made_from = [*validation(job), *plan.passes(job)]
    recipe = Recipe("study", settings, tuple(dict.fromkeys(p.name for p in made_from)))
    return [(name, recipe) for name in (layout.STUDY_METHODS, *TABLES)]


def targets(job: Job) -> list[Target]:
    """Of the study that the run has, if it has one."""
    entry = job.run.store.entries.get(layout.STUDY_METRICS)
    if entry is None:
        return []
    return target(job, Plan(entry.settings["noise"], tuple(entry.settings["levels"])))


def study(job: Job, plan: Plan) -> pd.DataFrame:
    """Run what is not cached, compare the two ensembles at every level, and write the tables. Returns the metrics."""
    check_noises(job, [plan.noise])
    if len(job.seeds) < 2:
        raise InvalidInput("an ensemble of one seed is none", hint="vbs train --seeds 10 trains more members")
    if MEMBER not in job.roles:
        raise InvalidInput("the run trains no conventional networks", hint="--methods with one of them, e.g. vbs")
    networks.ensure(job, plan.passes(job), before=validation(job))
    todo = target(job, plan)
    here = replace(with_ensembles(job), force=False)
    if any(job.needs(each) for each in todo):
        fitted = fit(here)
        made: dict[str, bytes] = {
            layout.STUDY_METHODS: files.to_json({name: asdict(method) for name, method in fitted.items()}),
            **{name: table_of(job, rows) for name, rows in compared(here, plan, fitted).items()},
        }
        for name, recipe in todo:
            job.run.store.write(name, made[name], recipe)
    return job.run.study_metrics


def table_of(job: Job, rows: list[dict[str, Any]]) -> bytes:
    return formats.table_bytes(labelled(job, sorted(rows, key=lambda row: float(row["level"]))))


def fit(job: Job) -> dict[str, Method]:
    """Both on the validation logits of all members."""
    networks.ensure(job, validation(job), to_read=True)
    record = dict(caches.records(job, validation(job), together=True))[layout.TOGETHER, layout.ENSEMBLE]
    return {name: job.methods[name].fit(record) for name in (BASELINE, SMOOTHED)}


def compared(job: Job, plan: Plan, fitted: dict[str, Method]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    chosen: Tensor | None = None
    passes = plan.passes(job)
    with threads(1), job.progress.task("ensemble study", len(plan.levels)) as task:
        # From the strongest noise down, since the examples to show are chosen there.
        for level in sorted(plan.levels, reverse=True):
            predictions = predictions_at(job, fitted, [p for p in passes if p.level == level])
            if chosen is None:
                chosen = at_ranks(predictions[BASELINE].entropy)
            keys = {"noise": plan.noise, "level": level}
            rows[layout.STUDY_METRICS] += [{"seed": layout.TOGETHER, **row} for row in scores(predictions, keys)]
            found = bootstrap({name: [scored] for name, scored in predictions.items()}, metrics=COMPARED)
            both = list(predictions)
            rows[layout.STUDY_INTERVALS] += [{**keys, **row} for row in interval_rows(found, both, COMPARED)]
            rows[layout.STUDY_DISTRIBUTIONS] += distributions(predictions, chosen, keys)
            task.advance(1)
    return rows


def predictions_at(job: Job, fitted: dict[str, Method], passes: Sequence[Pass]) -> dict[str, Scored]:
    """Of both ensembles at one level."""
    cells = [cell for cell in cells_of(job, {layout.TOGETHER: fitted}, passes) if cell.method in fitted]
    return {cell.method: scored for cell, scored in scored_cells(job, {layout.TOGETHER: fitted}, cells)}


def scores(predictions: dict[str, Scored], keys: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for method, scored in predictions.items():
        for metric, value in values_of(scored, tuple(METRICS)).items():
            yield {"method": method, **keys, "metric": metric, "value": value}


def at_ranks(entropy: Tensor) -> Tensor:
    """The examples whose entropies are the RANKS quantiles: (N,) -> (5,)."""
    places = (torch.tensor(RANKS) * (len(entropy) - 1)).round().long()
    return entropy.argsort(stable=True)[places]


def distributions(predictions: dict[str, Scored], chosen: Tensor, keys: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The whole predicted distribution of each chosen example."""
    for method, scored in predictions.items():
        for rank, example in zip(RANKS, chosen.tolist(), strict=True):
            of_example = {"rank": rank, "example": example, "label": int(scored.labels[example])}
            for index, probability in enumerate(scored.probs[example].tolist()):
                yield {"method": method, **keys, **of_example, "class": index, "probability": probability}
