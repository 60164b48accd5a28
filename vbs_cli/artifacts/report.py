"""The report of a run: everything about it in one HTML file."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version

from vbs_cli import __version__
from vbs_cli.artifacts import figures
from vbs_cli.artifacts.job import Job
from vbs_cli.plots import FIGURES, READS
from vbs_cli.report.page import ReportData, render
from vbs_cli.run import Artifact, Recipe, layout

STAGE = "report"
REVISION = 2  # raised when the same tables give another page
LIBRARIES = ("torch", "numpy", "scipy", "pandas", "matplotlib")


def artifacts(job: Job) -> list[Artifact]:
    """Artifact of the report, made from the tables that exist and the figures of all methods."""
    drawn = [layout.figure(figure, "svg") for figure in FIGURES]
    there = [layout.METHODS, *figures.tables_of(job, [*figures.MADE_BY, figures.TRAINING_CURVES]), *drawn]
    inputs = tuple(name for name in there if job.run.store.has(name))
    settings = {"settings": json.loads(json.dumps(asdict(job.run.settings))), "vbs": __version__}
    return [Artifact(layout.REPORT, Recipe(STAGE, settings, inputs, {"report": REVISION}), make)]


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the report; its figures must have been drawn before."""
    [artifact] = due
    job.run.store.write(artifact.name, render(gathered(job)).encode(), artifact.recipe)


def gathered(job: Job) -> ReportData:
    """Read everything that a report shows of a run."""
    tables = figures.current_tables(job)
    store = job.run.store
    missing = figures.table_errors(job)
    left_out = {figure: str(missing[field]) for figure, reads in READS.items() for field in reads if field in missing}
    drawn = {figure: layout.figure(figure, "svg") for figure in FIGURES if figure not in left_out}
    return ReportData(
        title=f"{job.data.name}: what the confidence means",
        dataset=job.data.name,
        source=job.data.source,
        tables=tables,
        figures={figure: store.read(svg).decode() for figure, svg in drawn.items() if store.has(svg)},
        settings=asdict(job.run.settings),
        methods=json.loads(store.read(layout.METHODS)),
        versions={"vbs": __version__, "python": platform.python_version(), **{n: version(n) for n in LIBRARIES}},
        artifacts=[
            {"name": name, "sha256": entry.sha256, "size": entry.size}
            for name, entry in sorted(store.entries.items())
            if not name.startswith("logits/") and name != layout.REPORT
        ],
        commands=commands(job),
        left_out=left_out,
    )


def commands(job: Job) -> list[str]:
    """Commands that make this run again."""
    if job.given:
        return [job.data.command]
    download = job.data.command or f"vbs download --dataset {job.data.name}"
    return [download, f"vbs run --config {job.run.path / layout.SETTINGS} --run again"]
