"""Parts that all commands share: their options, the run that they work on, and the output of results."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vbs_cli.console import Console, More, table
from vbs_cli.errors import InvalidInput, MissingArtifact, VbsError
from vbs_cli.settings import PAPER_METHODS, Settings, assignments, given_settings

if TYPE_CHECKING:
    from vbs_cli.artifacts.job import Job
    from vbs_cli.data import Prepared
    from vbs_cli.executors import Crew
    from vbs_cli.run import Graph, Run

SHARED = "Shared by all commands"
RunName = Annotated[
    str | None,
    typer.Option("--run", help="Run to work on (default: the latest).", show_default=False, rich_help_panel=SHARED),
]
Config = Annotated[
    Path | None, typer.Option(help="Settings from a TOML file.", show_default=False, rich_help_panel=SHARED)
]
DataDir = Annotated[
    Path, typer.Option("--data", envvar="VBS_DATA", help="Folder of the datasets.", rich_help_panel=SHARED)
]
RunsDir = Annotated[Path, typer.Option("--runs", envvar="VBS_RUNS", help="Folder of the runs.", rich_help_panel=SHARED)]
Device = Annotated[str, typer.Option(envvar="VBS_DEVICE", help="auto, cpu, cuda or mps.", rich_help_panel=SHARED)]
Assigned = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: NAME=VALUE; repeat for several.", rich_help_panel=SHARED),
]
Force = Annotated[bool, typer.Option("--force", help="Make it again even if it is up to date.", rich_help_panel=SHARED)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be made.", rich_help_panel=SHARED)]
Jobs = Annotated[
    int | None,
    typer.Option(
        envvar="VBS_JOBS",
        min=1,
        help="Networks at once (default: one per GPU, or as many as there are cores for).",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(envvar="VBS_CLUSTER", help="Address of a dask scheduler to hand the networks to.", show_default=False),
]
KeepPatches = Annotated[
    bool, typer.Option("--keep-patches", help="Keep all patch logits of noisy inputs too; takes much disk.")
]
ShiftFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--shift-from",
        help="A second test set of your own: PATH, NAME=PATH, or cifar10-c; repeat for several.",
        show_default=False,
    ),
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Write the curves for TensorBoard too.")]
Json = Annotated[bool, typer.Option("--json", help="Rows as JSON on stdout.", rich_help_panel=SHARED)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=SHARED)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.", rich_help_panel=SHARED)]
Debug = Annotated[bool, typer.Option("--debug", help="Tracebacks of errors.", rich_help_panel=SHARED)]


@dataclass(frozen=True)
class Shell:
    """One call of a command, with the options that commands share."""

    command: str
    console: Console
    flags: Mapping[str, Any]  # settings that were given on the command line
    run_name: str | None
    config: Path | None
    data_dir: Path
    runs_dir: Path
    device: str
    force: bool
    dry_run: bool
    assigned: Sequence[str] | None = None  # --set NAME=VALUE
    jobs: int | None = None  # networks at once; None is as many as fit
    cluster: str | None = None
    tensorboard: bool = False
    keep_patches: bool = False
    shift_from: Sequence[str] | None = None  # second test sets

    @contextmanager
    def job(self, *, create: bool = False, data: Prepared | None = None, **more: Any) -> Iterator[Job]:
        """Job on the run with its settings (`more` are flags too) resolved, locked for the block unless --dry-run.

        `data` is the dataset, for a run whose dataset cannot be found by its name.
        """
        from vbs_cli.run import locked

        job = self._job(self._run({**self.flags, **more}, create=create), data)
        if self.shift_from:
            from vbs_cli.stages.second_test import with_second_tests

            job = with_second_tests(job, self.shift_from, only_tell=self.dry_run)
        if self.dry_run:
            yield job
            return
        with locked(job.run) as run, run.settings_saved():
            yield replace(job, run=run, crew=self._crew(job))
            if run.store.written:
                with suppress(VbsError):  # the command is done, and a plan that cannot be saved is no failure
                    self.remembered_plan(replace(job, run=run))
        if not run.store.written:
            self.console.progress.say(f"{run.path}: all is up to date")

    def recalled_plan(self) -> Graph | None:
        """Plan of the run that an earlier command saved, or None if it does not hold for this call."""
        from vbs_cli.run.layout import find_run
        from vbs_cli.run.remembered import recalled

        path = find_run(self.runs_dir, self.run_name)
        if path is None or self.config is not None or self.assigned:
            return None
        return recalled(path, self.data_dir)

    def remembered_plan(self, job: Job) -> Graph:
        """Plan everything that a run has and its settings call for, and save the plan for the next call."""
        from vbs_cli.artifacts.plan import with_everything
        from vbs_cli.run.remembered import remember

        graph = with_everything(replace(job, force=False, keep_patches=False)).graph
        if not self.config and not self.assigned:
            remember(graph, self.data_dir)
        return graph

    def work(self) -> Job:
        """Job on the run as it was saved, for a process that works on a part of it while another holds its lock."""
        from vbs_cli.run import find_run, open_run

        return self._job(open_run(find_run(self.runs_dir, self.run_name) or self.runs_dir))

    def _job(self, run: Run, data: Prepared | None = None) -> Job:
        from vbs_cli.artifacts.job import Job, choose_device

        device = choose_device(self.device, self.console.progress)
        return Job(
            run,
            data or self._data(run),
            device=device,
            force=self.force,
            progress=self.console.progress,
            device_name=self.device,
            tensorboard=self.tensorboard,
            keep_patches=self.keep_patches,
        )

    def _crew(self, job: Job) -> Crew | None:
        """Executor for the networks: a cluster, several processes on this machine, or None for this process."""
        from vbs_cli.executors import Local, cores

        if self.cluster is not None:
            from vbs_cli.executors.cluster import Cluster

            return Cluster(self.cluster)
        gpus = visible_gpus() if self.device in ("auto", "cuda") and job.device.type == "cuda" else ()
        fitting = cores() // job.run.settings.threads if job.device.type == "cpu" else len(gpus)
        jobs = max(1, fitting if self.jobs is None else self.jobs)
        return Local(jobs, gpus) if jobs > 1 else None

    def has_run(self) -> bool:
        """Whether there is a run to work on, or one was named."""
        from vbs_cli.run import find_run

        return find_run(self.runs_dir, self.run_name) is not None

    def reading(self) -> Shell:
        """Copy of this shell that locks no run, for commands that change nothing."""
        return replace(self, dry_run=True)

    def settings(self) -> Settings:
        """Settings that `job` would work with."""
        return self._run(self.flags, create=True).settings

    def given(self, flags: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that this call asks for, by flag, --set, variable or file."""
        return given_settings({**flags, **assignments(self.assigned or (), flags)}, self.config)

    def _run(self, flags: Mapping[str, Any], *, create: bool) -> Run:
        from vbs_cli.pairs import pair_names
        from vbs_cli.protocols import from_toml, resolve
        from vbs_cli.run import Run, Store, find_run, layout

        path = find_run(self.runs_dir, self.run_name)
        saved = from_toml(path / layout.SETTINGS) if path is not None and (path / layout.SETTINGS).is_file() else None
        given = self.given(flags)
        dataset = given.get("dataset")
        if saved is not None and dataset is not None and dataset != saved.dataset:
            if self.run_name is not None:
                raise InvalidInput(f"{path} is a run of {saved.dataset}", hint=f"--run another for {dataset}")
            path, saved = None, None
        if saved is None and not create:
            where = path if path is not None else self.runs_dir
            raise MissingArtifact(f"no run in {where}", hint="vbs run, or vbs train --dataset radio")
        settings = resolve(given, saved)
        settings = replace(settings, methods=pair_names(settings.methods, first=PAPER_METHODS))
        path = path or self.runs_dir / settings.dataset
        return Run(path, settings, Store(path))

    def _data(self, run: Run) -> Prepared:
        """Prepared dataset, or the run's description of it, which is enough for all that needs no inputs."""
        from vbs_cli.data import described, open_dataset
        from vbs_cli.run import layout

        try:
            if not run.settings.given:
                return open_dataset(self.data_dir, run.settings.dataset)
        except MissingArtifact:
            if layout.DATASET not in run.store.entries:
                raise
        return described(json.loads(run.store.read(layout.DATASET)), self.data_dir / run.settings.dataset)

    def plan(self, job: Job, names: Collection[str]) -> None:
        """Answer --dry-run: show what a command that makes these artifacts would do."""
        from vbs_cli.artifacts.plan import with_plan
        from vbs_cli.stages.status import dry_run

        rows = dry_run(with_plan(job), names)
        self.show(rows, table(["artifact", "state", "why"], [list(row.values()) for row in rows]))

    def plan_stage(self, job: Job, stage: str) -> None:
        """Answer --dry-run of a command that makes all artifacts of one stage: show what it would do."""
        from vbs_cli.artifacts.plan import with_plan

        job = with_plan(job)
        self.plan(job, job.graph.stage(stage))

    def plan_all(self, job: Job) -> None:
        """Answer --dry-run of a command that makes everything: show what it would do."""
        from vbs_cli.artifacts.plan import with_everything

        job = with_everything(job)
        self.plan(job, [artifact.name for artifact in job.graph])

    def show(
        self,
        rows: Sequence[Mapping[str, Any]],
        *renderables: Any,
        more: Mapping[str, More] | None = None,
    ) -> None:
        self.console.show(self.command, rows, *renderables, more=more)


COMMON: dict[str, tuple[Any, Any]] = {
    "run_name": (RunName, None),
    "config": (Config, None),
    "assigned": (Assigned, None),
    "device": (Device, "auto"),
    "force": (Force, False),
    "dry_run": (DryRun, False),
    "data_dir": (DataDir, Path("data")),
    "runs_dir": (RunsDir, Path("runs")),
    "json": (Json, False),
    "quiet": (Quiet, False),
    "verbose": (Verbose, False),
    "debug": (Debug, False),
}


# Options of the commands that train or run networks.
NETWORKS: dict[str, tuple[Any, Any]] = {"jobs": (Jobs, None), "cluster": (Cluster, None)}
BOARD: dict[str, tuple[Any, Any]] = {"tensorboard": (TensorBoard, False)}
PATCHES: dict[str, tuple[Any, Any]] = {"keep_patches": (KeepPatches, False)}
SECOND: dict[str, tuple[Any, Any]] = {"shift_from": (ShiftFrom, None)}

NOTHING: Mapping[str, Any] = {}


def command(
    app: typer.Typer,
    name: str,
    *examples: str,
    settings: Mapping[str, Any] = NOTHING,
    options: Mapping[str, tuple[Any, Any]] = NOTHING,
    without: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that registers a function of a Shell and its own options as a command.

    The command also has the common options except those named in `without`, those of `options`, and a flag for each of
    `settings` (name -> annotation). The function gets their values in the Shell.
    """

    def enter(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        common = {key: option for key, option in {**options, **COMMON}.items() if key not in without}
        injected = {key: (annotation, None) for key, annotation in settings.items()} | common

        @functools.wraps(function)
        def call(**values: Any) -> None:
            flags = {key: values.pop(key) for key in settings}
            shared = {key: values.pop(key, default) for key, (_, default) in {**options, **COMMON}.items()}
            speech = {key: shared.pop(key) for key in ("json", "quiet", "verbose")}
            speech["verbose"] |= shared.pop("debug")
            function(Shell(name, Console(**speech), flags, **shared), **values)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [p.replace(kind=keyword) for p in own] + [
            inspect.Parameter(key, keyword, default=default, annotation=annotation)
            for key, (annotation, default) in injected.items()
        ]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        shown = "".join(f"\n\n    {example}" for example in examples)
        app.command(name, help=f"{inspect.getdoc(function)}\n\nExamples:{shown}")(call)
        return function

    return enter


def visible_gpus() -> tuple[str, ...]:
    """Names of the GPUs that this process may use, as in CUDA_VISIBLE_DEVICES."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return tuple(named.split(",")) if named else tuple(map(str, range(torch.cuda.device_count())))
