"""`vbs report`: everything about a run in one HTML file, several runs side by side, or a folder to publish."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from vbs_cli import files
from vbs_cli.artifacts import study
from vbs_cli.artifacts.figures import current_tables
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.plan import with_plan
from vbs_cli.artifacts.report import artifacts, gathered
from vbs_cli.conditions import conditions
from vbs_cli.plots import FIGURES
from vbs_cli.report.comparison import render_comparison
from vbs_cli.report.costs import COST_COLUMNS, cost_lines
from vbs_cli.report.page import ReportData
from vbs_cli.run import layout
from vbs_cli.summary import (
    BASELINE,
    DIFFERENCES,
    INTERVAL_COLUMNS,
    PROXY_COLUMNS,
    SWEEP_COLUMNS,
    difference_lines,
    interval_lines,
    markdown,
    markdown_table,
    proxy_lines,
    study_lines,
    suite_tables,
    suite_title,
    suites_in,
    sweep_lines,
    with_means,
)

__all__ = ["compare", "gathered", "publish", "report"]


def report(job: Job) -> Path:
    """Write the report if anything in it has changed, and return its path; figures must have been drawn before."""
    job = with_plan(job)
    job.graph.add(artifacts(job))
    job.graph.make_alone(job, [layout.REPORT], forced=[layout.REPORT] if job.force else ())
    return job.run.path / layout.REPORT


def compare(runs: Mapping[str, ReportData], path: Path) -> Path:
    """Write a page with several runs side by side."""
    files.write_bytes(path, render_comparison(runs).encode())
    return path


def publish(job: Job, folder: Path) -> list[str]:
    """Copy figures, tables and results in Markdown into a folder, for a page about the run; return the file names."""
    job = with_plan(job)
    figures = [name for figure in FIGURES if job.run.store.has(name := layout.figure(figure, "png"))]
    tables = (layout.METRICS, layout.INTERVALS, layout.SHIFTS, layout.RELIABILITY, layout.COVERAGE, layout.PROXY)
    copied = {Path(name).name: job.run.store.read(name) for name in (*figures, *tables)}
    metrics, shifts = current_tables(job).metrics, job.run.shifts
    intervals = with_means(job.run.intervals, shifts)
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
    for suite in suites_in(shifts):
        copied |= published_suite(shifts, suite, f"{len(job.seeds)} seeds; {origin}")
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
    """Markdown files with the scores of all methods at some levels, and with how well the spread indicates errors."""
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


def published_suite(shifts: pd.DataFrame, suite: str, origin: str) -> dict[str, bytes]:
    """Markdown file with the scores of all methods over the shifts of a suite."""
    text = "\n\n".join(markdown_table(columns, lines) for columns, lines in suite_tables(shifts, suite, BASELINE))
    note = (
        "Means over noises of the mean over the levels of each, and the worst single noise and level; ± half the 95 % "
        f"interval over examples and seeds, * where that of a paired difference excludes zero; {origin}."
    )
    return {f"suite-{suite or 'all'}.md": f"{suite_title(shifts, suite)}\n\n{text}\n\n{note}\n".encode()}


def published_study(job: Job, origin: str) -> dict[str, bytes]:
    """Markdown file with both ensembles at some levels."""
    lines = study_lines(job.run.study_intervals, study.COMPARED)
    note = f"{len(job.seeds)} members; ± half the 95 % interval over examples; {origin}."
    return {"ensemble-study.md": markdown(["level", "method", *study.COMPARED], lines, note).encode()}
