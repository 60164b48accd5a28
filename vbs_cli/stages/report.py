"""`vbs report`: everything about a run in one HTML file."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from vbs_cli import __version__, files
from vbs_cli.plots import FIGURES, READS
from vbs_cli.report.comparison import render_comparison
from vbs_cli.report.costs import COST_COLUMNS, cost_lines
from vbs_cli.report.page import ReportData, render
from vbs_cli.report.tables import (
    BASELINE,
    DIFFERENCES,
    INTERVAL_COLUMNS,
    PROXY_COLUMNS,
    SWEEP_COLUMNS,
    conditions,
    difference_lines,
    interval_lines,
    markdown,
    proxy_lines,
    study_lines,
    sweep_lines,
)
from vbs_cli.run import Recipe, layout
from vbs_cli.stages import plot, study
from vbs_cli.stages.base import Job, Target

LIBRARIES = ("torch", "numpy", "scipy", "pandas", "matplotlib")


def target(job: Job) -> Target:
    """The report reads the tables that are there, and the figures of all methods."""
    drawn = [layout.figure(figure, "svg") for figure in FIGURES]
    there = [layout.METHODS, *plot.artifacts(job, [*plot.MADE_BY, plot.CURVES]), *drawn]
    inputs = tuple(name for name in there if job.run.store.has(name))
    settings = {"settings": asdict(job.run.settings), "vbs": __version__}
    return layout.REPORT, Recipe("report", json.loads(json.dumps(settings)), inputs)


def report(job: Job) -> Path:
    """The report's path, written anew if anything in it has changed; figures are drawn before."""
    name, recipe = target(job)
    if job.needs((name, recipe)):
        job.run.store.write(name, render(gathered(job)).encode(), recipe)
    return job.run.path / name


def gathered(job: Job) -> ReportData:
    """Everything that a report shows of a run."""
    tables = plot.evaluated(job)
    store = job.run.store
    missing = plot.problems(job)
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


def compare(runs: Mapping[str, ReportData], path: Path) -> Path:
    """Several runs side by side in one file."""
    files.write_bytes(path, render_comparison(runs).encode())
    return path


def publish(job: Job, folder: Path) -> list[str]:
    """Copy what a page about the run would show into a folder: the figures, the tables, the results in Markdown."""
    figures = [name for figure in FIGURES if job.run.store.has(name := layout.figure(figure, "png"))]
    tables = (layout.METRICS, layout.INTERVALS, layout.RELIABILITY, layout.COVERAGE, layout.PROXY)
    copied = {Path(name).name: job.run.store.read(name) for name in (*figures, *tables)}
    metrics, intervals = plot.evaluated(job).metrics, job.run.intervals
    origin = f"data: {job.data.name}, {job.data.source}"
    drawn = f"a paired bootstrap over {job.data.counts['test']:,} examples and {len(job.seeds)} seeds; {origin}."
    shown = [(each.name, each.of(metrics), each.of(intervals)) for each in conditions(intervals)]
    results = [[name, *line] for name, m, i in shown for line in interval_lines(m, i)]
    note = f"± half the 95 % interval of {drawn}"
    copied["results.md"] = markdown(["condition", *INTERVAL_COLUMNS], results, note).encode()
    if BASELINE in job.run.settings.methods:
        differences = [[name, *line] for name, _, i in shown for line in difference_lines(i, BASELINE)]
        note = f"Difference from {BASELINE} and its 95 % interval by {drawn} * where the interval excludes zero."
        copied["differences.md"] = markdown(["condition", "method", *DIFFERENCES], differences, note).encode()
    if (metrics["noise"] != layout.CLEAN).any():
        copied |= published_sweep(job, metrics, f"{len(job.seeds)} seeds; {origin}")
    if job.run.store.has(layout.STUDY_INTERVALS):
        copied |= published_study(job, origin)
    if layout.BENCH in job.run.store.entries:
        costs = job.run.table(layout.BENCH)
        note = f"Batches of {costs['batch'].iloc[0]} through the network of width {job.run.settings.width}; {origin}."
        copied["costs.md"] = markdown(COST_COLUMNS, cost_lines(costs.to_dict("records")), note).encode()
    for name, data in copied.items():
        files.write_bytes(folder / name, data)
    return list(copied)


def published_sweep(job: Job, metrics: pd.DataFrame, origin: str) -> dict[str, bytes]:
    """All methods at some levels, and what the spread tells about errors."""
    about = (
        "sigma_bar and error rate without noise and at its most; correlation: Spearman's, between both over the levels;"
        " AUROC of high sigma_bar, and by low confidence, for the errors among the inputs of all levels together;"
        " parts right: accuracy of single patches, draws or members without noise."
        " ± half the 95 % interval over examples and seeds, * where that of the difference excludes zero"
    )
    return {
        "sweep.md": markdown(SWEEP_COLUMNS, sweep_lines(metrics), f"Means over {origin}.").encode(),
        "spread.md": markdown(PROXY_COLUMNS, proxy_lines(job.run.proxy), f"{about}; {origin}.").encode(),
    }


def published_study(job: Job, origin: str) -> dict[str, bytes]:
    """Both ensembles at some levels."""
    lines = study_lines(job.run.study_intervals, study.COMPARED)
    note = f"{len(job.seeds)} members; ± half the 95 % interval over examples; {origin}."
    return {"ensemble-study.md": markdown(["level", "method", *study.COMPARED], lines, note).encode()}


def commands(job: Job) -> list[str]:
    """The commands that make this run again."""
    if job.given:
        return [job.data.command]
    download = job.data.command or f"vbs download --dataset {job.data.name}"
    return [download, f"vbs run --config {job.run.path / layout.SETTINGS} --run again"]
