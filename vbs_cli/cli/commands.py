"""Commands that compute, one per stage: each parses its options, calls the stage and shows the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vbs_cli.cli.auto import Auto, AutoNoise, calibrate_by_data
from vbs_cli.cli.own import given_job, with_foreign
from vbs_cli.cli.shell import BOARD, NETWORKS, PATCHES, SECOND, Shell, command
from vbs_cli.cli.tables import cell, number, show_metrics
from vbs_cli.conditions import CLEAN, EVERYTHING, FEW_NOISES, conditions
from vbs_cli.console import table
from vbs_cli.errors import InvalidInput
from vbs_cli.executors import is_child
from vbs_cli.registry import unknown

if TYPE_CHECKING:
    from vbs_cli.artifacts.job import Job

app = typer.Typer(
    name="vbs",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DATASETS = "radio, librispeech, cifar10 or folder (your own)."

# Flags for settings, keyed by setting; a flag that is not given leaves the setting as it is.
TRAINING = {
    "dataset": Annotated[str | None, typer.Option(help=DATASETS, show_default=False)],
    "profile": Annotated[str | None, typer.Option(help="quick or paper (default: quick).", show_default=False)],
    "seeds": Annotated[int | None, typer.Option(min=1, help="Train seeds 0 to N - 1.", show_default=False)],
    "epochs": Annotated[int | None, typer.Option(min=1, help="Passes over the training data.", show_default=False)],
    "batch": Annotated[int | None, typer.Option(min=1, help="Training batch.", show_default=False)],
    "width": Annotated[int | None, typer.Option(min=1, help="Channels of the network.", show_default=False)],
    "model": Annotated[
        str | None,
        typer.Option(help="auto, nin, conv1d-radio, conv1d-speech or resnet18, ...", show_default=False),
    ],
    "patience": Annotated[
        int | None, typer.Option(min=0, help="Stop after N epochs without a better one.", show_default=False)
    ],
    "select": Annotated[str | None, typer.Option(help="Weights to evaluate: last or best.", show_default=False)],
    "compile": Annotated[bool | None, typer.Option(help="Use torch.compile.", show_default=False)],
    "lr": Annotated[float | None, typer.Option(help="Learning rate.", show_default=False)],
}
METHODS = {
    "methods": Annotated[str | None, typer.Option(help="Methods to compare, by commas, or all.", show_default=False)],
    "kernel": Annotated[int | None, typer.Option(min=1, help="Patches per window of the spread.", show_default=False)],
}
Alpha = Annotated[float | None, typer.Option(help="Strength of the smoothing, 1 to 5.", show_default=False)]
Beta = Annotated[str | None, typer.Option(help="mean+0.5, mean, qNN, nll or a number.", show_default=False)]
Options = Annotated[
    list[str] | None, typer.Option("--option", help="METHOD.NAME=VALUE, e.g. vbs.spread=softmax; repeat for several.")
]
Against = Annotated[str | None, typer.Option(help="Method to show differences from.", show_default=False)]
Markdown = Annotated[bool, typer.Option("--markdown", help="Tables in Markdown.")]


@command(
    app,
    "download",
    "vbs download --list",
    "vbs download --dataset cifar10",
    "vbs download --dataset folder --from my-images --size 64",
    without=("run_name", "config", "assigned", "device", "runs_dir", "dry_run"),
)
def download(
    shell: Shell,
    dataset: Annotated[str | None, typer.Option(help=DATASETS, show_default=False)] = None,
    origin: Annotated[
        Path | None, typer.Option("--from", help="A folder, archive or file of your own.", show_default=False)
    ] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Make the data instead of fetching them.")] = False,
    profile: Annotated[str, typer.Option(help="Size of simulated data: quick or paper.")] = "quick",
    seed: Annotated[int, typer.Option(min=0, help="Seed of simulations and of splits that are drawn.")] = 0,
    size: Annotated[
        int | None, typer.Option(min=1, help="Pixels of the shorter side to resize images to.", show_default=False)
    ] = None,
    crop: Annotated[
        float | None, typer.Option(help="Pixels of an image's middle; seconds of a recording.", show_default=False)
    ] = None,
    resample: Annotated[bool, typer.Option("--resample", help="Convert recordings of other rates.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out and count what cannot be read.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Show what there is and what is prepared.")] = False,
) -> None:
    """Bring or make a dataset and prepare it."""
    from vbs_cli.data import Request
    from vbs_cli.stages import download as stage

    if list_all:
        rows = stage.list_datasets(shell.data_dir)
        columns = ["dataset", "what", "prepared", "examples", "on disk", "to download"]
        keys = ["dataset", "what", "prepared", "examples", "bytes", "download_bytes"]
        return shell.show(rows, table(columns, [[cell(key, row[key]) for key in keys] for row in rows]))
    if dataset is None:
        raise InvalidInput("no --dataset is given", hint="vbs download --list shows what there is")
    request = Request(origin, simulate, profile, seed, size, crop, resample, skip_bad)
    data = stage.download(shell.data_dir, dataset, request, force=shell.force, progress=shell.console.progress)
    row = stage.describe(data)
    shell.show([row], table(list(row), [[cell(key, value) for key, value in row.items()]]))


@command(
    app,
    "train",
    "vbs train --dataset radio --seeds 10",
    "vbs train --dataset radio --profile paper --device cuda",
    settings={**TRAINING, "methods": METHODS["methods"]},
    options={**NETWORKS, **BOARD},
)
def train(shell: Shell) -> None:
    """Train the networks of every seed that the run's methods need: the conventional and the MC-dropout one."""
    from vbs_cli.artifacts.plan import with_plan
    from vbs_cli.artifacts.work import NetworksFailed
    from vbs_cli.stages import plot as plot_stage
    from vbs_cli.stages import train as stage

    with shell.job(create=True) as job:
        if shell.dry_run:
            return shell.plan_stage(job, "train")
        job = with_plan(job)
        failures = stage.train(job)
        rows = [{**row, "state": "done"} for row in stage.summary(job)]
        curves = plot_stage.plot(job, [plot_stage.TRAINING_CURVES]) if rows else []
        rows += [{"seed": w.seed, "network": w.network, "state": f"failed: {why}"} for w, why in failures.items()]
    columns = ["seed", "network", "epoch", "loss", "accuracy", "val_loss", "val_accuracy", "speed", "seconds", "waited"]
    columns += ["state"] if failures else []
    shown = table(columns, [[number(row.get(column, "-")) for column in columns] for row in rows])
    shell.show(rows, shown, *(f"curves: {job.run.path / figure['artifact']}" for figure in curves[-1:]))
    if failures:
        raise NetworksFailed(failures)


@command(
    app,
    "work",
    "vbs work 3/dropout",
    "vbs work 0/conventional train val test --run runs/radio",
    options={**BOARD, **PATCHES},
    without=("config", "assigned", "dry_run"),
)
def work(
    shell: Shell,
    network: Annotated[str, typer.Argument(help="Seed and network, e.g. 3/dropout.")],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="train, val, test, noises, gaussian@0.5, val:gaussian@0.5, VIEW/test (default: all of the run's)."
        ),
    ] = None,
) -> None:
    """Train one network of a run and pass data through it: the piece that --jobs and --cluster hand out."""
    from vbs_cli.artifacts.plan import planned
    from vbs_cli.artifacts.work import do, parse_work

    job = shell.work()
    piece = parse_work(job, network, what or ())
    job = planned(job, listed=piece.passes(job))
    do(job, piece)
    if not is_child():
        rows = [{"artifact": artifact.name, "state": "done"} for artifact in piece.artifacts(job)]
        shell.show(rows, table(["artifact", "state"], [list(row.values()) for row in rows]))


@command(
    app,
    "calibrate",
    "vbs calibrate",
    "vbs calibrate --methods conventional,vbs --beta q75",
    "vbs calibrate --auto --auto-noise speckle",
    "vbs calibrate --model torchvision:resnet50 --weights my.safetensors --data my-images",
    settings={**METHODS, "dataset": TRAINING["dataset"]},
    options=NETWORKS,
)
def calibrate(
    shell: Shell,
    model: Annotated[
        str | None,
        typer.Option(help="A network trained elsewhere: torchvision:NAME or MODULE:FUNCTION.", show_default=False),
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="File of its weights.", show_default=False)] = None,
    alpha: Alpha = None,
    beta: Beta = None,
    option: Options = None,
    auto: Auto = False,
    auto_noise: AutoNoise = None,
) -> None:
    """Fit the methods of every seed on its validation logits, or those of a network that was trained elsewhere."""
    from vbs_cli.stages import calibrate as stage

    chosen = method_options(alpha, beta, option or ())
    if model is not None or weights is not None:
        shell = with_foreign(shell, model, weights, chosen)
        if shell.dry_run:
            return
    if auto:
        if any(value is not None for value in (alpha, beta, shell.flags["kernel"])):
            raise InvalidInput("--auto chooses kernel, alpha and beta", hint="leave them out, or --auto")
        return calibrate_by_data(shell, auto_noise, chosen)
    if auto_noise is not None:
        raise InvalidInput("--auto-noise is for --auto", hint="add --auto")
    with shell.job(options=chosen, tuned_on=None if chosen is None else "") as job:
        if shell.dry_run:
            return shell.plan_stage(job, "calibrate")
        rows = stage.rows(stage.calibrate(job))
    shell.show(rows, table(["seed", "method", "parameter", "value"], [[number(v) for v in r.values()] for r in rows]))


@command(
    app,
    "evaluate",
    "vbs evaluate",
    "vbs evaluate --methods all --against temperature",
    "vbs evaluate --shift-from phone=recordings-of-a-phone",
    "vbs evaluate --val val.npz --test test.npz --condition phone=phone.npz",
    settings=METHODS,
    options={**NETWORKS, **SECOND},
)
def evaluate(
    shell: Shell,
    val: Annotated[Path | None, typer.Option(help="Your own logits to fit on.", show_default=False)] = None,
    test: Annotated[Path | None, typer.Option(help="Your own logits to score.", show_default=False)] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(help="Your own logits of other test data: NAME[@LEVEL]=FILE; repeat.", show_default=False),
    ] = None,
    against: Against = None,
    markdown: Markdown = False,
) -> None:
    """Score every method on the test split and on every sweep that is cached, or on logits of your own.

    Files of your own (.npz, .safetensors, .parquet) hold labels and logits (N, K), patches (N, K, T) or (N, K, H, W),
    or members (M, N, K).
    """
    from vbs_cli.stages import evaluate as stage
    from vbs_cli.summary import with_means

    own = any(given is not None for given in (val, test, condition))
    with given_job(shell, val, test, condition or ()) if own else shell.job() as job:
        if shell.dry_run:
            return shell.plan_stage(job, "evaluate")
        check_against(job, against)
        metrics = stage.evaluate(job)
        intervals, bins = job.run.intervals, job.run.reliability
        shifts, noises, suites = job.run.shifts, [CLEAN, *dict.fromkeys(name for name, _ in job.further)], []
        if len(noises) > 1 + FEW_NOISES:
            suites = list(job.file_suites) or [EVERYTHING]
    scores = with_means(intervals, shifts)
    metrics, intervals = (table[table["noise"].isin(noises)] for table in (metrics, scores))
    shown = [each for each in conditions(intervals) if not suites or each.noise == CLEAN]
    show_metrics(
        shell, metrics, intervals, shown, shifts=shifts if suites else None, suites=suites,
        reliability=bins, against=against, markdown=markdown,
    )  # fmt: skip


def method_options(alpha: float | None, beta: str | None, given: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """Options of each method from the flags, or None; values that can be read as numbers become numbers."""
    found: dict[str, dict[str, Any]] = {}
    texts = [f"vbs.{name}={value}" for name, value in (("alpha", alpha), ("beta", beta)) if value is not None]
    for text in (*given, *texts):
        name, equals, value = text.partition("=")
        method, dot, option = name.partition(".")
        if not (equals and dot):
            raise InvalidInput(f"invalid --option {text}", hint="write METHOD.NAME=VALUE, such as vbs.spread=softmax")
        found.setdefault(method.strip(), {})[option.strip()] = number_or_text(value.strip())
    return found or None


def number_or_text(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def check_against(job: Job, against: str | None) -> None:
    """Refuse a method that the run does not compare, before anything is computed."""
    methods = job.run.settings.methods
    if against is not None and against not in methods:
        raise unknown("method", against, methods)
