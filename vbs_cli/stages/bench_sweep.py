"""`vbs bench sweep`: a noise sweep compared with the same work done by a forward pass for every method and metric.

Rows have the columns of `bench_kernels`. The run is not changed: its networks are measured in a temporary folder.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from vbs_cli.artifacts import passes, training
from vbs_cli.artifacts.cells import score_record
from vbs_cli.artifacts.fits import Fitted
from vbs_cli.artifacts.job import Job
from vbs_cli.data.noise import KeptDraws
from vbs_cli.errors import InvalidInput
from vbs_cli.metrics import SCORES, values_of
from vbs_cli.progress import Task
from vbs_cli.run import Store
from vbs_cli.seeding import threads
from vbs_cli.stages.calibrate import calibrate
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.sweep import sweep

NOISE = "gaussian"
LEVELS = 20
METHOD = "vbs"  # method that is scored again with another alpha


@dataclass
class Stopwatch:
    """Seconds that some work took, in all and inside networks."""

    whole: float = 0.0
    networks: float = 0.0
    _depth: int = 0
    _begun: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the block, and by hooks the calls of networks in it; calls of layers are nested in those."""
        hooks = register_module_forward_pre_hook(self._begin), register_module_forward_hook(self._end)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.whole += time.perf_counter() - start
            for hook in hooks:
                hook.remove()

    def _begin(self, module: nn.Module, inputs: Any) -> None:
        if self._depth == 0:
            self._begun = time.perf_counter()
        self._depth += 1

    def _end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.networks += time.perf_counter() - self._begun


def bench_sweep(job: Job, *, levels: int = LEVELS) -> list[dict[str, Any]]:
    """Measure one level of one seed both ways, the sweep's time outside networks, and a second scoring of the sweep."""
    if METHOD not in job.run.settings.methods:
        raise InvalidInput(f"{METHOD} is not among the run's methods", hint=f"--methods with {METHOD}")
    with TemporaryDirectory(prefix="vbs-bench-") as folder:
        here = trained_copy(job, Path(folder))
        evaluate(here)
        grid = replace(here.run.settings, levels=levels, max_level=1.0).level_values()
        sweeping, again = Stopwatch(), Stopwatch()
        with sweeping.running():
            table = sweep(here, [NOISE], grid)
        other = with_other_alpha(here)
        with again.running():
            sweep(other, [NOISE], grid)
        level = grid[len(grid) // 2]
        scores, seconds = pass_per_score(here, calibrate(here), NOISE, level)
    cells = table[(table["level"] == level) & (table["seed"] == 0)].set_index(["method", "metric"])["value"]
    max_diff = max(abs(float(cells.loc[key]) - value) for key, value in scores.items())
    seeds, steps, methods = len(here.seeds), len(grid) - 1, len(here.run.settings.methods)
    size = f"{seeds} seeds, {steps} levels, {methods} methods"
    rest = sweeping.whole - sweeping.networks
    return [
        row("a level of a seed", f"{methods} methods, all metrics", f"a pass per method for {len(SCORES)} metrics",
            sweeping.whole / seeds / steps, seconds, max_diff),
        row("noise, caching, metrics", size, "the whole sweep", rest, sweeping.whole),
        row("another alpha", size, "the whole sweep", again.whole, sweeping.whole),
    ]  # fmt: skip


def row(
    kernel: str, size: str, rival: str, ours: float, theirs: float, max_diff: float | None = None
) -> dict[str, Any]:
    times = {"ours_ms": 1e3 * ours, "rival_ms": 1e3 * theirs, "ratio": theirs / ours, "max_diff": max_diff}
    return {"kernel": kernel, "size": size, "rival": rival, **times}


def trained_copy(job: Job, folder: Path) -> Job:
    """Job on a copy of the run's networks, without other artifacts, in another folder and in this process."""
    here = replace(job, run=replace(job.run, path=folder, store=Store(folder)), crew=None, force=False)
    for seed, network in training.every_network(job):
        training.check_trained(job, seed, network)
        recipe = training.recipe(job, seed, network)
        for name in training.artifact_names(job, seed, network):
            here.run.store.write(name, job.run.store.read(name), recipe)
    return here


def with_other_alpha(job: Job) -> Job:
    s = job.run.settings
    alpha = 2 * float(job.methods[METHOD].alpha)  # type: ignore[attr-defined]
    options = {**s.options, METHOD: {**s.options.get(METHOD, {}), "alpha": alpha}}
    return replace(job, run=replace(job.run, settings=replace(s, options=options)))


def pass_per_score(job: Job, fitted: Fitted, noise: str, level: float) -> tuple[dict[tuple[str, str], float], float]:
    """Scores of each method of seed 0 at one level, running the network again for each; return the seconds too."""
    stopwatch = Stopwatch()
    found: dict[tuple[str, str], float] = {}
    split = job.data.split("test")
    with threads(job.run.settings.threads), stopwatch.running():
        for name, method in fitted[0].items():
            p = passes.Pass(0, job.pairs[name].view, "test", noise, level)
            model = training.trained(job, 0, p.network)
            for metric in SCORES:
                [record] = passes.run_walk(job, model, split, [p], KeptDraws(bound=0), Task())
                found[name, metric] = values_of(score_record(method, record), [metric])[metric]
    return found, stopwatch.whole
