"""Figures of a run, drawn from its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import pandas as pd

from vbs_cli.artifacts.job import Job
from vbs_cli.bench import COLUMNS as BENCH_COLUMNS
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, READS, Tables, save
from vbs_cli.run import Artifact, Recipe, layout
from vbs_cli.run.store import DAMAGED

STAGE = "plot"
REVISION = 1  # of the code that all figures share; each figure also has its own
TRAINING_CURVES = "training"  # figure that `vbs train` draws, and the field of `Tables` that it reads
SWEEP, STUDY = "vbs noise-sweep", "vbs noise-sweep --study ensemble"

# Artifact that each field of `Tables` is read from, and the command that makes it.
MADE_BY: Mapping[str, tuple[str, str]] = {
    "metrics": (layout.METRICS, "vbs evaluate"),
    "reliability": (layout.RELIABILITY, "vbs evaluate"),
    "intervals": (layout.INTERVALS, "vbs evaluate"),
    "shifts": (layout.SHIFTS, "vbs evaluate"),
    "coverage": (layout.COVERAGE, "vbs evaluate"),
    "proxy": (layout.PROXY, "vbs evaluate"),
    "examples": (layout.EXAMPLES, SWEEP),
    "study": (layout.STUDY_METRICS, STUDY),
    "study_intervals": (layout.STUDY_INTERVALS, STUDY),
    "distributions": (layout.STUDY_DISTRIBUTIONS, STUDY),
    "bench": (layout.BENCH, "vbs bench"),
}


def tables_of(job: Job, fields: Iterable[str]) -> tuple[str, ...]:
    """Names of the artifacts that fields of `Tables` are read from; `training` has one for each network."""
    names = [sorted(job.run.training_tables()) if field == TRAINING_CURVES else [MADE_BY[field][0]] for field in fields]
    return tuple(name for some in names for name in some)


def artifact(job: Job, figure: str, format: str, methods: Sequence[str] = ()) -> Artifact:
    """Artifact of a figure in one format, with all methods or only those named."""
    revisions = {"plotting": REVISION, **FIGURES.revisions([figure])}
    recipe = Recipe(STAGE, {"figure": figure, "methods": list(methods)}, tables_of(job, READS[figure]), revisions)
    return Artifact(layout.figure(figure, format, methods), recipe, make)


def known_artifacts(job: Job) -> list[Artifact]:
    """Artifacts of the figures that have been drawn; which others could be drawn depends on the tables."""
    found = {
        name: (str(entry.settings["figure"]), tuple(entry.settings.get("methods", ())))
        for name, entry in job.run.store.entries.items()
        if entry.stage == STAGE
    }
    return [
        artifact(job, figure, name.rsplit(".", 1)[1], methods)
        for name, (figure, methods) in found.items()
        if figure in FIGURES
    ]


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Draw figures, each once for all its formats."""
    for (figure, methods), group in groupby(due, key=lambda each: figure_and_methods(each.recipe)):
        read = tables(job, READS[figure])
        drawn = FIGURES[figure](read.of_methods(methods) if methods else read)
        for each in group:
            job.run.store.write(each.name, save(drawn, each.name.rsplit(".", 1)[1]), each.recipe)


def figure_and_methods(recipe: Recipe) -> tuple[str, tuple[str, ...]]:
    """Figure and methods of a recipe."""
    return recipe.settings["figure"], tuple(recipe.settings["methods"])


def table_errors(job: Job) -> dict[str, MissingArtifact]:
    """Error for each field of `Tables` whose table is missing or out of date, with the command that makes it."""
    found = {}
    for field, (name, command) in MADE_BY.items():
        path, entry = job.run.path / name, job.run.store.entries.get(name)
        if entry is None or not job.run.store.has(name):
            found[field] = MissingArtifact(f"there is no {path}", hint=f"{command} makes it")
        elif name == layout.BENCH and entry.settings.get("columns") != list(BENCH_COLUMNS):
            found[field] = MissingArtifact(f"{path} is of an earlier version", hint=f"{command} makes it again")
        elif name in job.graph:
            state = job.run.store.state(name, job.graph[name].recipe)
            # A damaged table raises its own error when it is read.
            if not state.current and state.kind != DAMAGED:
                found[field] = MissingArtifact(f"{path} is {state}", hint=f"{command} makes it again")
    if not job.run.training_tables():
        found[TRAINING_CURVES] = MissingArtifact(f"{job.run.path} has no trained network", hint="vbs train makes them")
    return found


def tables(job: Job, fields: Iterable[str]) -> Tables:
    """Read some tables of the run, each checked by its hash."""

    def read(field: str) -> pd.DataFrame:
        return job.run.training if field == TRAINING_CURVES else job.run.table(MADE_BY[field][0])

    return Tables(**{field: read(field) for field in fields})


def current_tables(job: Job) -> Tables:
    """Read all tables that are up to date; those of `vbs evaluate` must be among them."""
    missing = table_errors(job)
    for field in ("metrics", "reliability", "intervals", "shifts", "coverage", "proxy"):
        if field in missing:
            raise missing[field]
    return tables(job, [field for field in (*MADE_BY, TRAINING_CURVES) if field not in missing])
