"""`vbs plot`: the run's tables as figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from vbs_cli import __version__
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, Tables, save
from vbs_cli.run import Recipe, layout
from vbs_cli.stages import evaluate
from vbs_cli.stages.base import Job, Target

FORMATS = ("svg", "png")
CURVES = "training"  # the figure that needs no evaluation
STUDY = "ensemble-study"  # the figure of the study alone
STUDIED = (layout.STUDY_METRICS, layout.STUDY_DISTRIBUTIONS)


def table_names(job: Job) -> tuple[str, ...]:
    return (layout.METRICS, layout.RELIABILITY, *sorted(job.run.training_tables()))


def target(job: Job, figure: str, format: str) -> Target:
    own = {CURVES: tuple(sorted(job.run.training_tables())), STUDY: STUDIED}
    inputs = own.get(figure) or table_names(job)
    return layout.figure(figure, format), Recipe("plot", {"figure": figure, "vbs": __version__}, inputs)


def targets(job: Job) -> list[Target]:
    """The figures that have been drawn; which can be drawn depends on what the tables hold."""
    every = [target(job, figure, format) for figure in FIGURES for format in FORMATS]
    return [(name, recipe) for name, recipe in every if name in job.run.store.entries]


def tables(job: Job) -> Tables:
    """The tables of the run, which must be those of its present state."""
    for name, recipe in evaluate.targets(job):
        state = job.run.store.state(name, recipe)
        if not state.current:
            raise MissingArtifact(f"{job.run.path / name} is {state}", hint="vbs evaluate makes it")
    return replace(drawn_alone(job), metrics=job.run.metrics, reliability=job.run.reliability)


def drawn_alone(job: Job) -> Tables:
    """Those that are drawn whether or not the run has been evaluated."""
    found = {name: job.run.table(name) if job.run.store.has(name) else pd.DataFrame() for name in STUDIED}
    return Tables(
        metrics=pd.DataFrame(),
        reliability=pd.DataFrame(),
        training=job.run.training,
        study=found[layout.STUDY_METRICS],
        distributions=found[layout.STUDY_DISTRIBUTIONS],
    )


def plot(job: Job, names: Sequence[str] = (), formats: Sequence[str] = FORMATS) -> list[dict[str, str]]:
    """Draw the named figures, or all that the tables allow. Returns a row per file."""
    for name in names:
        FIGURES[name]
    read = drawn_alone(job) if names and set(names) <= {CURVES, STUDY} else tables(job)
    rows = []
    for figure in names or FIGURES:
        todo = [target(job, figure, format) for format in formats]
        wanted = [each for each in todo if job.needs(each)]
        if wanted:
            try:
                drawn = FIGURES[figure](read)
            except MissingArtifact as error:
                if names:
                    raise
                tell = job.progress.detail if figure == STUDY else job.progress.say  # few runs have one
                tell(f"plot: left out {figure}: {error}")
                continue
            for name, recipe in wanted:
                job.run.store.write(name, save(drawn, name.rsplit(".", 1)[1]), recipe)
        rows += [{"artifact": name, "state": "drawn" if (name, r) in wanted else "up to date"} for name, r in todo]
    return rows
