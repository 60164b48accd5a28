"""Commands that show, measure, export or clean up what other commands computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from vbs_cli.cli.commands import TRAINING, Markdown, app
from vbs_cli.cli.shell import NETWORKS, SECOND, Shell, command
from vbs_cli.cli.sweeps import Noises
from vbs_cli.cli.tables import cell, show_diagnosis, table_formatter
from vbs_cli.console import table
from vbs_cli.errors import InvalidInput
from vbs_cli.registry import unknown

if TYPE_CHECKING:
    from vbs_cli.stages.bench import Subject


@command(app, "plot", "vbs plot", "vbs plot reliability --methods vbs,temperature --format pdf")
def plot(
    shell: Shell,
    figures: Annotated[list[str] | None, typer.Argument(help="Figures to draw (default: all).")] = None,
    format: Annotated[list[str] | None, typer.Option(help="svg, png, pdf; repeat for several.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods to draw, by commas (default: the run's).", show_default=False)
    ] = None,
) -> None:
    """Draw the figures that the run's tables allow, and tell which commands the others need."""
    from vbs_cli.artifacts.plan import with_everything
    from vbs_cli.stages import plot as stage

    chosen = [name.strip() for name in methods.split(",")] if methods else []
    with shell.job() as job:
        if shell.dry_run:
            return shell.plan_stage(with_everything(job), "plot")
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
    from vbs_cli.artifacts.plan import with_everything, with_plan
    from vbs_cli.run import layout
    from vbs_cli.stages import report as stage
    from vbs_cli.stages.plot import plot as draw
    from vbs_cli.stages.status import dry_run

    names: list[str | None] = [*dict.fromkeys(runs or ())] or [None]
    if output is not None and len(names) == 1:
        raise InvalidInput("--output is for several runs", hint="give --run twice or more; one run has its own file")
    if publish is not None and len(names) > 1:
        raise InvalidInput("--publish takes one run", hint="publish them one by one")
    rows, found = [], {}
    for name in names:
        with replace(shell, run_name=name).job() as job:
            if shell.dry_run:
                rows += dry_run(with_everything(job), [layout.REPORT])
                continue
            job = with_plan(job)
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


@command(
    app,
    "diagnose",
    "vbs diagnose",
    "vbs diagnose --noise gaussian --noise salt-and-pepper --json",
    options={**NETWORKS, **SECOND},
)
def diagnose(shell: Shell, noise: Noises = None) -> None:
    """Tell whether variance-based smoothing fits the network and its data, and what speaks for and against it."""
    from vbs_cli.artifacts.plan import planned
    from vbs_cli.stages import diagnose as stage
    from vbs_cli.stages.sweep import chosen_noises

    with shell.job() as job:
        job, noises = stage.with_method(job), chosen_noises(job, noise)
        if shell.dry_run:
            wanted = stage.passes(job, noises)
            return shell.plan(planned(job, listed=wanted), [p.name for p in wanted])
        found = stage.diagnose(job, noises)
    show_diagnosis(shell, found)


@command(
    app,
    "bench",
    "vbs bench --batch 128",
    "vbs bench --dataset radio --latex",
    "vbs bench methods --markdown",
    settings={name: TRAINING[name] for name in ("dataset", "profile", "model", "width")},
    without=("force", "dry_run"),
)
def bench(
    shell: Shell,
    what: Annotated[
        str, typer.Argument(help="network (a prediction of each method), methods, noise, training or sweep.")
    ] = "network",
    batch: Annotated[int, typer.Option(min=1, help="Examples per prediction.")] = 128,
    draws: Annotated[int, typer.Option(min=2, help="Draws of MC-dropout.")] = 10,
    members: Annotated[int, typer.Option(min=2, help="Networks of an ensemble.")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each measurement, at most.")] = 30,
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Pixels or samples of the inputs (default: the dataset's).", show_default=False),
    ] = None,
    scaling: Annotated[bool, typer.Option("--scaling", help="Costs against batch, classes, patches, draws.")] = False,
    markdown: Markdown = False,
    latex: Annotated[bool, typer.Option("--latex", help="Tables in LaTeX.")] = False,
) -> None:
    """Measure what a prediction of each method costs, or how fast vbs is compared with other implementations.

    The network is that of the run, or the one that --dataset, --profile, --model, --width and --size describe; without
    either it is the paper's network for CIFAR-10.
    """
    from vbs_cli.report import costs as lines
    from vbs_cli.stages import bench as stage
    from vbs_cli.stages.bench_sweep import bench_sweep

    known = ("network", "methods", "noise", "training", "sweep")
    if what not in known:
        raise unknown("bench", what, known)
    shape = table_formatter(markdown=markdown, latex=latex)
    if what != "network":
        if what == "sweep":
            with shell.job() as job:
                rows = bench_sweep(job)
        else:
            rows = stage.bench_kernels_of(what, shell.console.progress)
        return shell.show(rows, shape(lines.KERNEL_COLUMNS, lines.kernel_lines(rows)))
    plan = stage.BenchSizes(batch=batch, draws=draws, members=members, repeats=repeats)
    with bench_subject(shell.reading() if scaling else shell, size) as subject:
        title = f"[bold]{escape(subject.title)}[/], batches of {batch}, {subject.device}"
        if scaling:
            rows, powers = stage.bench_growth(subject, plan)
            tables = [shape(lines.SCALING_COLUMNS, lines.scaling_lines(rows)), ""]
            tables.append(shape(lines.EXPONENT_COLUMNS, lines.exponent_lines(powers)))
            return shell.show(rows, title, *tables, lines.SCALING_NOTE, more={"exponents": powers})
        rows, path = stage.bench_network(subject, plan)
    shell.console.progress.say(f"saved: {path}")
    tables = [
        shape(lines.COST_COLUMNS, lines.cost_lines(rows)),
        "",
        shape(lines.DETAIL_COLUMNS, lines.detail_lines(rows)),
    ]
    shell.show(rows, title, *tables, *lines.cost_notes(rows))


@command(
    app,
    "export",
    "vbs export --to onnx",
    "vbs export --to pt2 --seed 1 --method temperature --output radio.pt2",
)
def export(
    shell: Shell,
    to: Annotated[str, typer.Option("--to", help="onnx, torchscript or pt2.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the network.")] = 0,
    method: Annotated[str, typer.Option(help="vbs, temperature or conventional.")] = "vbs",
    output: Annotated[
        Path | None, typer.Option(help="Copy file and cards there (default: the run's export/).", show_default=False)
    ] = None,
) -> None:
    """Write a network with its fitted method as one checked file that runs without vbs, and a model card."""
    from vbs_cli.stages import export as stage

    choice = stage.ExportChoice(to, seed, method)
    with shell.job() as job:
        if shell.dry_run:
            return shell.plan(*stage.aims(job, choice))
        row = stage.export(job, choice, output)
    apart = {name: f"{row[f'{name}_difference']:.1e}" for name in ("probabilities", "temperature", "sigma")}
    line = [row["artifact"], row["state"], cell("bytes", row["bytes"]), *apart.values()]
    inputs = f"{row['random_inputs']} random and {row['test_inputs']} test inputs"
    shell.show(
        [row],
        table(["file", "state", "size", *apart], [line]),
        f"largest differences from the Python model on {inputs}; of temperature and sigma, relative ones",
        f"card: {escape(row['card'])}",
    )


@contextmanager
def bench_subject(shell: Shell, size: int | None) -> Iterator[Subject]:
    """Network to measure: that of the run, unless flags describe another."""
    from vbs_cli.stages.bench import of_protocol, of_run

    described = any(value is not None for value in (size, *shell.flags.values()))
    if described and shell.run_name is not None:
        raise InvalidInput("--run measures the network of that run", hint="leave out --dataset, --model and the like")
    if shell.has_run() and not described:
        with replace(shell, flags={}).job() as job:
            yield of_run(job)
    else:
        given = shell.given(shell.flags)
        yield of_protocol(given, shell.runs_dir, size=size, device=shell.device, progress=shell.console.progress)


@command(app, "status", "vbs status", "vbs status --run runs/radio --json", without=("force", "dry_run"))
def status(shell: Shell) -> None:
    """Show what is there, what is missing, and what is stale and why."""
    from vbs_cli.stages.status import rows_of

    graph = shell.recalled_plan()
    if graph is None:
        with shell.reading().job() as job:
            graph = shell.remembered_plan(job)
    rows, path = rows_of(graph), graph.store.folder
    counts = Counter(row["state"] for row in rows)
    total = ", ".join(f"{count} {state}" for state, count in counts.items())
    lines = [list(row.values()) for row in rows if row["state"] != "up to date"]
    shell.show(rows, f"{path}: {total}", *([table(["artifact", "state", "why"], lines)] if lines else []))


@command(app, "clean", "vbs clean --caches", "vbs clean --caches --run runs/radio --dry-run")
def clean(
    shell: Shell, caches: Annotated[bool, typer.Option("--caches", help="The cached logits of all passes.")] = False
) -> None:
    """Free disk space; tables and figures stay, and commands that need deleted logits make them again."""
    from vbs_cli.stages.clean import clean_caches

    if not caches:
        raise InvalidInput("nothing to clean is named", hint="vbs clean --caches")
    with shell.job() as job:
        rows = clean_caches(job, only_tell=shell.dry_run)
    total = sum(row["bytes"] for row in rows)
    said = "would be given back" if shell.dry_run else "given back"
    shell.show(rows, f"{job.run.path}: {cell('bytes', total)} in {len(rows)} files {said}")
