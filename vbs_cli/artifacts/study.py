"""The ensemble study: a deep ensemble against a variance-smoothed one, on the run's seeds as members.

Both predict from the same cached logits, so the study costs one forward pass per member and level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.artifacts import fits
from vbs_cli.artifacts.cells import cells_of, scored_cells, with_labels
from vbs_cli.artifacts.intervals import interval_table
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass, read_records
from vbs_cli.methods import Method
from vbs_cli.metrics import METRICS, Scored, bootstrap, values_of
from vbs_cli.run import Artifact, Recipe, formats, layout
from vbs_cli.seeding import threads

STAGE = "study"
REVISION = 1  # of the study's tables; metrics and methods have their own
# The paper's study; alpha 1 and beta q75 are the defaults of smoothing on members.
BASELINE, SMOOTHED = "ensemble", "vbs-ensemble"
MEMBER = "patches"  # view whose records, one per seed, are the members of the ensembles
NOISE, LEVELS, MAX_LEVEL = "gaussian", 60, 0.7
COMPARED = ("accuracy", "kl_uniform", "ece", "brier", "entropy")
RANKS = (0.0, 0.25, 0.5, 0.75, 1.0)  # entropy quantiles of the examples whose distributions are kept
TABLES = (layout.STUDY_METRICS, layout.STUDY_INTERVALS, layout.STUDY_DISTRIBUTIONS)


@dataclass(frozen=True)
class Exposure:
    """Noise and levels that the members are exposed to."""

    noise: str
    levels: tuple[float, ...]

    def passes(self, job: Job) -> list[Pass]:
        """Passes of every member at every level; level zero is the clean pass."""
        return [
            Pass(seed, MEMBER, "test", self.noise, level) if level > 0 else Pass(seed, MEMBER, "test")
            for level in self.levels
            for seed in job.seeds
        ]


def validation(job: Job) -> list[Pass]:
    """Clean validation passes of all members."""
    return [Pass(seed, MEMBER, "val") for seed in job.seeds]


def with_ensembles(job: Job, others: Sequence[str]) -> Job:
    """Copy of the job whose methods are `others` and then both ensembles."""
    methods = tuple(dict.fromkeys([*others, BASELINE, SMOOTHED]))
    return replace(job, run=replace(job.run, settings=replace(job.run.settings, methods=methods)))


def artifacts(job: Job, exposure: Exposure) -> list[Artifact]:
    """Artifacts of the study: its fitted methods and its tables."""
    of_study = with_ensembles(job, [])
    settings = {
        **{**job.labels(), **of_study.joins, "methods": fits.options(of_study)},
        **{"noise": exposure.noise, "levels": list(exposure.levels), "metrics": list(METRICS)},
    }
    made_from = [*validation(job), *exposure.passes(job)]
    revisions = {"study": REVISION, **METRICS.revisions(METRICS), **fits.code(of_study)}
    recipe = Recipe(STAGE, settings, tuple(dict.fromkeys(p.name for p in made_from)), revisions)
    return [Artifact(name, recipe, make) for name in (layout.STUDY_METHODS, *TABLES)]


def known_exposure(job: Job) -> Exposure | None:
    """Noise and levels of the study that the run has already, or None."""
    entry = job.run.store.entries.get(layout.STUDY_METRICS)
    if entry is None or MEMBER not in job.passing:
        return None
    return Exposure(entry.settings["noise"], tuple(entry.settings["levels"]))


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Compare the two ensembles at every level, and write all tables of the study."""
    made_from = due[0].recipe
    exposure = Exposure(made_from.settings["noise"], tuple(made_from.settings["levels"]))
    here = with_ensembles(job, job.run.settings.methods)  # whose records serve all of them
    fitted = fit(here)
    made: dict[str, bytes] = {
        layout.STUDY_METHODS: files.to_json({name: asdict(method) for name, method in fitted.items()}),
        **{name: table_of(job, rows) for name, rows in compared(here, exposure, fitted).items()},
    }
    for name, data in made.items():
        job.run.store.write(name, data, made_from)


def table_of(job: Job, rows: list[dict[str, Any]]) -> bytes:
    """Bytes of a table of these rows, from the lowest level up."""
    return formats.table_bytes(with_labels(job, sorted(rows, key=lambda row: float(row["level"]))))


def fit(job: Job) -> dict[str, Method]:
    """Fit both methods on the validation records of all members."""
    names = [p.name for p in validation(job)]
    job.make(names, to_read=names)
    records = dict(read_records(job, validation(job)))
    both = (BASELINE, SMOOTHED)
    return {name: job.methods[name].fit(records[layout.TOGETHER, job.pairs[name].view]) for name in both}


def compared(job: Job, exposure: Exposure, fitted: dict[str, Method]) -> dict[str, list[dict[str, Any]]]:
    """Rows of each table of the study, keyed by the table's name."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    chosen: Tensor | None = None
    passes = exposure.passes(job)
    with threads(1), job.progress.task("ensemble study", len(exposure.levels)) as task:
        # From the strongest noise down, since the examples to show are chosen there.
        for level in sorted(exposure.levels, reverse=True):
            predictions = predictions_at(job, fitted, [p for p in passes if p.level == level])
            if chosen is None:
                chosen = at_ranks(predictions[BASELINE].entropy)
            keys = {"noise": exposure.noise, "level": level}
            rows[layout.STUDY_METRICS] += [{"seed": layout.TOGETHER, **row} for row in scores(predictions, keys)]
            drawn = bootstrap({name: [scored] for name, scored in predictions.items()}, metrics=COMPARED).columns
            columns = torch.stack([torch.stack([drawn[name, metric] for metric in COMPARED]) for name in predictions])
            found = interval_table(columns, list(predictions), COMPARED).to_dict("records")
            rows[layout.STUDY_INTERVALS] += [{**keys, **{str(k): value for k, value in row.items()}} for row in found]
            rows[layout.STUDY_DISTRIBUTIONS] += distributions(predictions, chosen, keys)
            task.advance(1)
    return rows


def predictions_at(job: Job, fitted: dict[str, Method], passes: Sequence[Pass]) -> dict[str, Scored]:
    """Predictions of both ensembles at one level, keyed by method."""
    cells = [cell for cell in cells_of(job, {layout.TOGETHER: fitted}, passes) if cell.method in fitted]
    return {cell.method: scored for cell, scored in scored_cells(job, {layout.TOGETHER: fitted}, cells)}


def scores(predictions: dict[str, Scored], keys: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric of both ensembles."""
    for method, scored in predictions.items():
        for metric, value in values_of(scored, tuple(METRICS)).items():
            yield {"method": method, **keys, "metric": metric, "value": value}


def at_ranks(entropy: Tensor) -> Tensor:
    """Indices of the examples whose entropies are the RANKS quantiles: (N,) -> (5,)."""
    places = (torch.tensor(RANKS) * (len(entropy) - 1)).round().long()
    return entropy.argsort(stable=True)[places]


def distributions(predictions: dict[str, Scored], chosen: Tensor, keys: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield rows with the whole predicted distribution of each chosen example."""
    for method, scored in predictions.items():
        for rank, example in zip(RANKS, chosen.tolist(), strict=True):
            of_example = {"rank": rank, "example": example, "label": int(scored.labels[example])}
            for index, probability in enumerate(scored.probs[example].tolist()):
                yield {"method": method, **keys, **of_example, "class": index, "probability": probability}
