"""Measure every contender in a process of its own and put the costs side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import Any, Self, TypeVar

import numpy as np
import torch

from vbs_cli.bench.contenders import CONTENDERS
from vbs_cli.bench.estimate import check_memory
from vbs_cli.bench.network import BenchNetwork
from vbs_cli.bench.protocol import BenchRequest, Costs, Rate, Timing
from vbs_cli.errors import InvalidInput, VbsError

COLUMNS = (
    "method",
    "variant",
    "memory_bytes",
    "memory_deviation",
    "memory_ratio",
    "traced_bytes",
    "allocated_bytes",
    "allocated_ratio",
    "latency_ms",
    "latency_p95_ms",
    "latency_ratio",
    "after_ms",
    "example_ms",
    "throughput",
    "throughput_ratio",
    "flops",
    "flops_ratio",
    "parameters",
    "parameters_ratio",
    "gemm_flops",
    "gemm_share",
    "repeats",
)
WORKER = "vbs_cli.bench.worker"
SOURCE = Path(__file__).parents[2]  # the folder that holds the package
PATIENCE = 10.0  # seconds that one contender is timed for, at least FEWEST times
FEWEST = 3
T = TypeVar("T", Costs, Timing, Rate)


class Remote:
    """Worker in another process, with the methods of one in this process."""

    def __init__(self, request: BenchRequest) -> None:
        self.request = request
        self.errors = TemporaryFile("w+")  # noqa: SIM115 closed with the worker
        self.process = subprocess.Popen(
            # -P keeps the working directory off the path: a torch.py that lies there is not ours.
            [sys.executable, "-P", "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment(),
        )
        self._say(request.to_json())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def costs(self) -> Costs:
        return self._ask("costs", Costs)

    def time(self) -> Timing:
        return self._ask("time", Timing)

    def beside(self) -> Timing:
        return self._ask("beside", Timing)

    def gemm(self) -> Rate:
        return self._ask("gemm", Rate)

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # `_ask` says why it ended
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def _ask(self, command: str, answer: type[T]) -> T:
        self._say(command)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        what = f"measuring {self.request.method} ({self.request.variant})"
        if not line and self.process.wait() != 0:
            raise VbsError(f"{what} failed: {self._reason()}", hint="a smaller --batch may help")
        try:
            return answer(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise VbsError(f"{what} gave no result: {error}") from error

    def _reason(self) -> str:
        """Reason why a worker failed, in one line."""
        code = self.process.returncode
        if code < 0:
            return f"killed by signal {-code}"
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {code}"


def bench(
    network: BenchNetwork,
    *,
    batch: int,
    draws: int = 10,
    members: int = 10,
    repeats: int = 30,
    device: str = "cpu",
    advance: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Measure what it costs to predict one batch without gradients: rows of COLUMNS, one for each contender.

    Memory is that of the weights and the peak of a prediction beyond program and input; latency is a median over at
    most `repeats`. Each is timed in turn with the plain conventional prediction, which the ratios refer to, in the same
    process, so that both meet the same conditions. `advance(1)` is called after each row.
    """
    check_arguments(network, batch=batch, draws=draws, members=members, repeats=repeats, device=device)
    check_memory(network, batch=batch, draws=draws, members=members, device=device)
    rows: list[dict[str, Any]] = []
    base: Costs | None = None
    for contender in CONTENDERS:
        request = BenchRequest(network, contender.method, contender.variant, batch, draws, members, device)
        with Remote(request) as worker:
            costs = worker.costs()
            pairs = in_turn(worker, repeats, alone=base is None)
            base = base or costs
            rows.append(row(request, costs, base, pairs, worker.gemm()))
        advance(1)
    return rows


def in_turn(worker: Remote, repeats: int, *, alone: bool) -> list[tuple[Timing, Timing]]:
    """Timings of a contender, each with that of the plain prediction next to it, or with itself if `alone`."""
    asked = [worker.time] if alone else [worker.time, worker.beside]
    for ask in asked:
        ask()  # warm-up
    found: list[tuple[Timing, Timing]] = []
    started = time.monotonic()
    while len(found) < repeats and (len(found) < FEWEST or time.monotonic() - started < PATIENCE):
        timings = {ask.__name__: ask() for ask in asked}
        found.append((timings["time"], timings.get("beside", timings["time"])))
        asked.reverse()
    return found


def row(
    request: BenchRequest, costs: Costs, base: Costs, pairs: Sequence[tuple[Timing, Timing]], rate: Rate
) -> dict[str, Any]:
    """Row of the table for one contender, with ratios to `base`."""
    own = [timing.whole for timing, _ in pairs]
    latency = median(own)
    slower = median(timing.whole / beside.whole for timing, beside in pairs)
    values = {
        "method": request.method,
        "variant": request.variant,
        "memory_bytes": costs.memory_bytes,
        "memory_deviation": costs.memory_deviation,
        "memory_ratio": costs.memory_bytes / base.memory_bytes,
        "traced_bytes": costs.traced_bytes,
        "allocated_bytes": costs.allocated_bytes,
        "allocated_ratio": costs.allocated_bytes / base.allocated_bytes,
        "latency_ms": latency,
        "latency_p95_ms": float(np.percentile(own, 95)),
        "latency_ratio": slower,
        "after_ms": median(timing.after for timing, _ in pairs),
        "example_ms": latency / request.batch,
        "throughput": 1e3 * request.batch / latency,
        "throughput_ratio": 1 / slower,
        "flops": costs.flops,
        "flops_ratio": costs.flops / base.flops,
        "parameters": costs.parameters,
        "parameters_ratio": costs.parameters / base.parameters,
        "gemm_flops": rate.flops,
        "gemm_share": costs.network_flops / (1e-3 * latency) / rate.flops,
        "repeats": len(pairs),
    }
    return {column: values[column] for column in COLUMNS}


def check_arguments(network: BenchNetwork, *, batch: int, draws: int, members: int, repeats: int, device: str) -> None:
    """Refuse arguments that cannot be measured."""
    if batch < 1:
        raise InvalidInput(f"the batch is {batch}", hint="--batch must be at least 1")
    for count, what in ((draws, "draws"), (members, "members")):
        if count < 2:
            raise InvalidInput(f"there are {count} {what}", hint="an average needs at least 2")
    if repeats < 1:
        raise InvalidInput(f"there are {repeats} repeats", hint="a median needs at least 1")
    if not 0 < network.dropout < 1:
        raise InvalidInput(f"dropout is {network.dropout}", hint="MC-dropout needs one between 0 and 1")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise VbsError("there is no CUDA device", hint="use --device cpu")


def environment() -> dict[str, str]:
    """Environment variables of a worker: the user's, and a path to this package, which may not be installed."""
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(SOURCE), inherited] if inherited else [str(SOURCE)])
    return {**os.environ, "PYTHONPATH": path}
