"""The commands that show, measure and tidy up what others computed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from vbs_cli.cli.commands import Markdown, app
from vbs_cli.cli.shell import Shell, command
from vbs_cli.cli.tables import cell
from vbs_cli.console import table
from vbs_cli.errors import InvalidInput
from vbs_cli.registry import unknown


@command(app, "plot", "vbs plot", "vbs plot reliability --methods vbs,temperature --format pdf")
def plot(
    shell: Shell,
    figures: Annotated[list[str] | None, typer.Argument(help="Figures to draw (default: all).")] = None,
    format: Annotated[list[str] | None, typer.Option(help="svg, png, pdf; repeat for several.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods to draw, by commas (default: the run's).", show_default=False)
    ] = None,
) -> None:
    """Draw the figures that the run's tables allow, and tell what would allow the others."""
    from vbs_cli.stages import plot as stage

    chosen = [name.strip() for name in methods.split(",")] if methods else []
    with shell.job() as job:
        if shell.dry_run:
            return shell.plan(job, stage.targets(job))
        rows = stage.plot(job, figures or (), format or stage.USUAL, chosen)
        drawn = [[str(job.run.path / row["artifact"]), row["state"]] for row in rows if not row["why"]]
    left_out = [[Path(row["artifact"]).stem, row["why"]] for row in rows if row["why"]]
    shell.show(
        rows,
        *([table(["figure", "state"], drawn)] if drawn else []),
        *(["", table(["left out", "why"], left_out)] if left_out else []),
    )


@command(
    app,
    "report",
    "vbs report",
    "vbs report --run radio --run radio-wide",
    "vbs report --run radio --publish runs/published/radio",
    without=("run_name",),
)
def report(
    shell: Shell,
    runs: Annotated[
        list[str] | None,
        typer.Option("--run", help="Run to report on (default: the latest); several are compared.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File of a comparison (default: runs/comparison.html).", show_default=False)
    ] = None,
    publish: Annotated[Path | None, typer.Option(help="Copy figures and tables there too.", show_default=False)] = None,
) -> None:
    """Write everything about a run into one HTML file, or several runs side by side."""
    from vbs_cli.stages import report as stage
    from vbs_cli.stages.plot import plot as draw
    from vbs_cli.stages.status import status as states

    names: list[str | None] = [*dict.fromkeys(runs or ())] or [None]
    if output is not None and len(names) == 1:
        raise InvalidInput("--output is for several runs", hint="give --run twice or more; one run has its own file")
    if publish is not None and len(names) > 1:
        raise InvalidInput("--publish takes one run", hint="publish them one by one")
    rows, found = [], {}
    for name in names:
        with replace(shell, run_name=name).job() as job:
            if shell.dry_run:
                rows += states(job, [stage.target(job)])
                continue
            draw(job)
            paths = [stage.report(job)]
            if publish is not None:
                paths += [publish / file for file in stage.publish(job, publish)]
            rows += [{"artifact": path.name, "path": str(path)} for path in paths]
            if len(names) > 1:
                found[str(name)] = stage.gathered(job)
    if found:
        path = stage.compare(found, output or shell.runs_dir / "comparison.html")
        rows.append({"artifact": path.name, "path": str(path)})
    if shell.dry_run:
        return shell.show(rows, table(["artifact", "state", "why"], [list(row.values()) for row in rows]))
    shell.show(rows, *(row["path"] for row in rows))


@command(app, "bench", "vbs bench --batch 128", "vbs bench methods --markdown", without=("force", "dry_run"))
def bench(
    shell: Shell,
    what: Annotated[
        str, typer.Argument(help="network (a prediction of each method), methods, noise, training or sweep.")
    ] = "network",
    batch: Annotated[int, typer.Option(min=1, help="Examples per prediction.")] = 128,
    draws: Annotated[int, typer.Option(min=2, help="Draws of MC-dropout.")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each measurement.")] = 30,
    markdown: Markdown = False,
) -> None:
    """Measure what a prediction of each method costs, or how fast vbs is beside what people use instead."""
    from vbs_cli.plots.summary import COST_COLUMNS, KERNEL_COLUMNS, cost_lines, kernel_lines, markdown_table
    from vbs_cli.stages.bench import Plan, bench_kernels_of, bench_protocol, bench_run
    from vbs_cli.stages.bench_sweep import bench_sweep

    plan = Plan(batch=batch, draws=draws, repeats=repeats)
    known = ("network", "methods", "noise", "training", "sweep")
    if what not in known:
        raise unknown("bench", what, known)
    if what == "sweep":
        with shell.job() as job:
            rows = bench_sweep(job)
    elif what != "network":
        rows = bench_kernels_of(what, shell.console.progress)
    elif shell.has_run():
        with shell.job() as job:
            rows = bench_run(job, plan)
    else:
        rows = bench_protocol(shell.settings(), plan, device=shell.device, progress=shell.console.progress)
    columns, lines = (COST_COLUMNS, cost_lines(rows)) if what == "network" else (KERNEL_COLUMNS, kernel_lines(rows))
    shell.show(rows, escape(markdown_table(columns, lines)) if markdown else table(columns, lines))


@command(app, "status", "vbs status", "vbs status --run runs/radio --json", without=("force", "dry_run"))
def status(shell: Shell) -> None:
    """Show what is there, what is missing, and what is stale and why."""
    from vbs_cli.stages.status import status as stage

    shell = shell.reading()
    with shell.job() as job:
        rows = stage(job)
        path = job.run.path
    counts = Counter(row["state"] for row in rows)
    total = ", ".join(f"{count} {state}" for state, count in counts.items())
    lines = [list(row.values()) for row in rows if row["state"] != "up to date"]
    shell.show(rows, f"{path}: {total}", *([table(["artifact", "state", "why"], lines)] if lines else []))


@command(app, "clean", "vbs clean --caches", "vbs clean --caches --run runs/radio --dry-run")
def clean(
    shell: Shell, caches: Annotated[bool, typer.Option("--caches", help="The cached logits of all passes.")] = False
) -> None:
    """Give disk space back; tables and figures stay, and what needs logits again makes them again."""
    from vbs_cli.stages.clean import clean_caches

    if not caches:
        raise InvalidInput("nothing to clean is named", hint="vbs clean --caches")
    with shell.job() as job:
        rows = clean_caches(job, only_tell=shell.dry_run)
    total = sum(row["bytes"] for row in rows)
    said = "would be given back" if shell.dry_run else "given back"
    shell.show(rows, f"{job.run.path}: {cell('bytes', total)} in {len(rows)} files {said}")
