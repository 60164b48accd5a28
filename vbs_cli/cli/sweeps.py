"""Commands that put noise on the test data: sweeps, the ensemble study, and the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vbs_cli.cli.commands import METHODS, TRAINING, Against, Markdown, app, check_against
from vbs_cli.cli.shell import NETWORKS, PATCHES, SECOND, Shell, command
from vbs_cli.cli.tables import show_metrics, show_study, show_sweep
from vbs_cli.conditions import CLEAN, FEW_NOISES, MEAN, conditions
from vbs_cli.console import table
from vbs_cli.errors import InvalidInput
from vbs_cli.registry import unknown

if TYPE_CHECKING:
    from vbs_cli.artifacts.job import Job

FULL_SWEEP = 20  # levels, as in the paper

Levels = Annotated[
    int | None,
    typer.Option(min=2, help="Levels from 0 to --max-level (default: 20; study: 60).", show_default=False),
]
MaxLevel = Annotated[
    float | None, typer.Option(help="Strongest noise (default: the run's, 1; study: 0.7).", show_default=False)
]
Study = Annotated[str | None, typer.Option(help="ensemble: deep against smoothed ensemble.", show_default=False)]

Noises = Annotated[
    list[str] | None,
    typer.Option("--noise", help="gaussian, speckle, fog, snr, ...; repeat or 'all'.", show_default=False),
]
Families = Annotated[
    list[str] | None,
    typer.Option("--family", help="All noises of a family, e.g. blur; repeat for several.", show_default=False),
]
SuiteName = Annotated[
    str | None,
    typer.Option("--suite", help="cifar10-c, images, speech or radio, at its own levels.", show_default=False),
]


@command(
    app,
    "noise-sweep",
    "vbs noise-sweep --list",
    "vbs noise-sweep --noise speckle",
    "vbs noise-sweep --suite cifar10-c",
    "vbs noise-sweep --family blur --levels 6",
    "vbs noise-sweep --study ensemble",
    options={**NETWORKS, **PATCHES, **SECOND},
)
def noise_sweep(
    shell: Shell,
    noise: Noises = None,
    family: Families = None,
    suite: SuiteName = None,
    levels: Levels = None,
    max_level: MaxLevel = None,
    study: Study = None,
    list_all: Annotated[bool, typer.Option("--list", help="Show all noises, their families and suites.")] = False,
    against: Against = None,
    markdown: Markdown = False,
) -> None:
    """Score every method under growing noise, one forward pass per network, noise and level."""
    from vbs_cli.artifacts.passes import noise_passes
    from vbs_cli.stages.sweep import chosen_noises, list_noises, suite_levels, sweep, with_sweep

    if list_all:
        rows = list_noises()
        return shell.show(rows, table(list(rows[0]), [list(row.values()) for row in rows]))
    asked = shell.given({"levels": levels, "max_level": max_level})
    if study is not None and (suite is not None or family is not None):
        raise InvalidInput("the ensemble study takes one noise", hint="give --noise instead of --suite or --family")
    if study is not None:
        return ensemble_study(shell, study, noise, asked, markdown=markdown)
    if suite is not None and any(value is not None for value in (noise, family, levels, max_level)):
        raise InvalidInput("a suite has its own noises and levels", hint="leave them out, or --suite")
    with shell.job() as job:
        if suite is not None:
            swept = suite_levels(job, suite)
        else:
            settings, noises = job.run.settings, chosen_noises(job, noise, family or ())
            grid = level_grid(job, asked, levels=max(FULL_SWEEP, settings.levels), max_level=settings.max_level)
            swept = {name: job.levels_of(name) or grid for name in noises}
        if shell.dry_run:
            names = [p.name for p in noise_passes(job, swept)]
            return shell.plan(with_sweep(job, swept), names)
        check_against(job, against)
        metrics = sweep(job, swept)
        intervals, shifts, proxies = job.run.intervals, job.run.shifts, job.run.proxy
    show_sweep(shell, metrics, intervals, shifts, proxies, suite=suite, against=against, markdown=markdown)


def ensemble_study(
    shell: Shell, name: str, noise: Sequence[str] | None, asked: Mapping[str, Any], *, markdown: bool
) -> None:
    from vbs_cli.artifacts import study
    from vbs_cli.stages.sweep import run_study, with_study

    if name != "ensemble":
        raise unknown("study", name, ["ensemble"])
    if noise is not None and len(noise) > 1:
        raise InvalidInput("the ensemble study takes one noise", hint="give --noise once")
    with shell.job() as job:
        grid = level_grid(job, asked, levels=study.LEVELS, max_level=study.MAX_LEVEL)
        exposure = study.Exposure(noise[0] if noise else study.NOISE, tuple(grid))
        if shell.dry_run:
            return shell.plan_stage(with_study(job, exposure), study.STAGE)
        metrics = run_study(job, exposure)
        intervals, distributions = job.run.study_intervals, job.run.study_distributions
    show_study(shell, metrics, intervals, distributions, markdown=markdown)


def level_grid(job: Job, asked: Mapping[str, Any], *, levels: int, max_level: float) -> list[float]:
    """Levels of a sweep: those that were asked for, else the defaults."""
    from vbs_cli.settings import override

    defaults = {"levels": levels, "max_level": max_level}
    return override(job.run.settings, {name: asked.get(name, value) for name, value in defaults.items()}).level_values()


@command(
    app,
    "run",
    "vbs run",
    "vbs run --profile paper --device cuda",
    settings={**TRAINING, "methods": METHODS["methods"]},
    options={**NETWORKS, **SECOND},
)
def run(shell: Shell) -> None:
    """Run all stages in a row, from the data (simulated if there are none) to the report."""
    from vbs_cli.stages.download import ensure_data
    from vbs_cli.stages.run import run_all
    from vbs_cli.summary import suites_in, with_means

    if not shell.dry_run:
        ensure_data(shell.data_dir, shell.settings(), progress=shell.console.progress)
    with shell.job(create=True) as job:
        if shell.dry_run:
            return shell.plan_all(job)
        path = run_all(job)
        metrics, intervals, shifts = job.run.metrics, job.run.intervals, job.run.shifts
    means = with_means(intervals, shifts)
    averaged = set(means[means["level"] == MEAN]["noise"])
    # One point of a sweep says little: what is shown is the mean over it, where there are several.
    shown = [each for each in conditions(means) if each.level == MEAN or each.noise not in averaged]
    suites = []
    if len(shown) > 1 + FEW_NOISES:
        shown, suites = [each for each in shown if each.noise == CLEAN], suites_in(shifts)
    show_metrics(shell, metrics, means, shown, f"report: {path}", shifts=shifts, suites=suites)
