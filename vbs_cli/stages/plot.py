"""`vbs plot`: the run's tables as figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from vbs_cli import __version__
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, FORMATS, READS, Tables, save
from vbs_cli.registry import unknown
from vbs_cli.run import Recipe, layout
from vbs_cli.run.store import DAMAGED
from vbs_cli.stages import bench, evaluate, examples, study
from vbs_cli.stages.base import Job, Target

USUAL = ("svg", "png")
CURVES = "training"  # the figure that a training ends with
SWEEP, STUDY = "vbs noise-sweep", "vbs noise-sweep --study ensemble"

# Where a field of `Tables` lies in the run, and the command that makes it.
MADE_BY: Mapping[str, tuple[str, str]] = {
    "metrics": (layout.METRICS, "vbs evaluate"),
    "reliability": (layout.RELIABILITY, "vbs evaluate"),
    "intervals": (layout.INTERVALS, "vbs evaluate"),
    "coverage": (layout.COVERAGE, "vbs evaluate"),
    "proxy": (layout.PROXY, "vbs evaluate"),
    "examples": (layout.EXAMPLES, SWEEP),
    "study": (layout.STUDY_METRICS, STUDY),
    "study_intervals": (layout.STUDY_INTERVALS, STUDY),
    "distributions": (layout.STUDY_DISTRIBUTIONS, STUDY),
    "bench": (layout.BENCH, "vbs bench"),
}


def artifacts(job: Job, fields: Iterable[str]) -> tuple[str, ...]:
    """What these tables lie in; that of training is one for each network."""
    names = [sorted(job.run.training_tables()) if field == CURVES else [MADE_BY[field][0]] for field in fields]
    return tuple(name for some in names for name in some)


def target(job: Job, figure: str, format: str, methods: Sequence[str] = ()) -> Target:
    settings = {"figure": figure, "vbs": __version__, "methods": list(methods)}
    return layout.figure(figure, format, methods), Recipe("plot", settings, artifacts(job, READS[figure]))


def targets(job: Job) -> list[Target]:
    """The figures that have been drawn; which can be drawn depends on what the tables hold."""
    found = {
        name: (str(entry.settings["figure"]), tuple(entry.settings.get("methods", ())))
        for name, entry in job.run.store.entries.items()
        if entry.stage == "plot"
    }
    return [
        target(job, figure, name.rsplit(".", 1)[1], methods)
        for name, (figure, methods) in found.items()
        if figure in FIGURES
    ]


def problems(job: Job) -> dict[str, MissingArtifact]:
    """The tables that are not those of the run's present state, and what to do about each."""
    made = dict([*evaluate.targets(job), *study.targets(job), *examples.targets(job)])
    found = {}
    for field, (name, command) in MADE_BY.items():
        path = job.run.path / name
        if not job.run.store.has(name):
            found[field] = MissingArtifact(f"there is no {path}", hint=f"{command} makes it")
        elif name == layout.BENCH and not bench.is_current(job.run.store.entries[name]):
            found[field] = MissingArtifact(f"{path} is of an earlier version", hint=f"{command} makes it again")
        elif name in made:
            state = job.run.store.state(name, made[name])
            # A damaged table is refused by whoever reads it, in words of its own.
            if not state.current and state.kind != DAMAGED:
                found[field] = MissingArtifact(f"{path} is {state}", hint=f"{command} makes it again")
    if not job.run.training_tables():
        found[CURVES] = MissingArtifact(f"{job.run.path} has no trained network", hint="vbs train makes them")
    return found


def tables(job: Job, fields: Iterable[str]) -> Tables:
    """Some tables of the run, each checked by its hash."""

    def read(field: str) -> pd.DataFrame:
        return job.run.training if field == CURVES else job.run.table(MADE_BY[field][0])

    return Tables(**{field: read(field) for field in fields})


def evaluated(job: Job) -> Tables:
    """All tables that the run has, among them those of `vbs evaluate`, which must be of its present state."""
    missing = problems(job)
    for field in ("metrics", "reliability", "intervals", "coverage", "proxy"):
        if field in missing:
            raise missing[field]
    return tables(job, [field for field in (*MADE_BY, CURVES) if field not in missing])


def plot(
    job: Job, names: Sequence[str] = (), formats: Sequence[str] = USUAL, methods: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Draw the named figures, or all that the tables allow, of all methods or some. Returns a row per file.

    What cannot be drawn is an error where it was asked for by name, else a row that says which command would help.
    """
    check(job, names, formats, methods)
    missing = problems(job)
    rows = []
    for figure in names or FIGURES:
        todo = [target(job, figure, format, methods) for format in formats]
        try:
            for field in READS[figure]:
                if field in missing:
                    raise missing[field]
            wanted = [each for each in todo if job.needs(each)]
            if wanted:
                draw(job, figure, wanted, methods)
        except MissingArtifact as error:
            if names:
                raise
            rows.append({"artifact": todo[0][0], "state": "left out", "why": str(error)})
            continue
        for each in todo:
            rows.append({"artifact": each[0], "state": "drawn" if each in wanted else "up to date", "why": ""})
    return rows


def draw(job: Job, figure: str, wanted: Sequence[Target], methods: Sequence[str]) -> None:
    read = tables(job, READS[figure])
    drawn = FIGURES[figure](read.of_methods(methods) if methods else read)
    for name, recipe in wanted:
        job.run.store.write(name, save(drawn, name.rsplit(".", 1)[1]), recipe)


def check(job: Job, names: Sequence[str], formats: Sequence[str], methods: Sequence[str]) -> None:
    """Refuse what nobody knows before anything is drawn."""
    for kind, given, known in (
        ("figure", names, FIGURES),
        ("figure format", formats, FORMATS),
        ("method", methods, job.run.settings.methods),
    ):
        for name in given:
            if name not in known:
                raise unknown(kind, name, known)
