"""Worker that measures one contender: a request on stdin, then commands; answers on stdout.

It runs as `python -m vbs_cli.bench.worker`, in a process for each contender: what one leaves behind (caches, a grown
heap) would hide what the next needs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TextIO

import torch
from torch.utils.flop_counter import FlopCounterMode

from vbs_cli.bench.contenders import CONTENDERS, Case, Contender, find_contender
from vbs_cli.bench.flops import Head
from vbs_cli.bench.memory import peak_memory, traced_memory
from vbs_cli.bench.protocol import COMMANDS, BenchRequest, Costs, Rate, Timing

SIDE = 2048  # size of the square matrices that are multiplied


class Worker:
    """Contender with its networks and inputs in memory."""

    def __init__(self, request: BenchRequest) -> None:
        self.folder = TemporaryDirectory(prefix="vbs-bench-")
        self.request = request
        self.contender = find_contender(request.method, request.variant)
        network = request.network
        self.case = self.contender.case(
            network, Path(self.folder.name), draws=request.draws, members=request.members, device=request.device
        )
        self.x = network.inputs(request.batch).to(request.device)

    @cached_property
    def plain(self) -> Case:
        """Case of the prediction that all are compared with; made only after memory has been measured."""
        r = self.request
        return CONTENDERS[0].case(r.network, Path(self.folder.name), draws=r.draws, members=r.members, device=r.device)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.folder.cleanup()

    def mode(self) -> AbstractContextManager[None]:
        """Context without gradients: that of usual scripts for "paper", that of vbs for "vbs"."""
        return torch.no_grad() if self.request.variant == "paper" else torch.inference_mode()

    def predict(self) -> None:
        with self.mode():
            self.contender.predict(self.case, self.x)

    def costs(self) -> Costs:
        """Measure memory and count FLOPs, before any time is measured, which leaves a grown heap behind."""
        # Counting is also the warm-up: one example through all of the code, so that lazy set-up is not measured.
        network, after = self.flops()
        peak, weights = peak_memory(self.predict, device=self.request.device), self.case.weights
        trace = traced_memory(self.predict)
        return Costs(
            memory_bytes=weights + peak.median,
            memory_deviation=peak.deviation,
            traced_bytes=weights + trace.peak,
            allocated_bytes=weights + trace.total,
            flops=self.request.batch * (network + after),
            network_flops=self.request.batch * network,
            parameters=self.contender.networks(self.request.members)
            * sum(value.numel() for value in self.case.nets[0].parameters()),
        )

    def flops(self) -> tuple[int, int]:
        """FLOPs of one example: convolutions and matrix products of the networks, and all operations after them."""
        request, x = self.request, self.x[:1]
        with self.mode():
            patches = self.case.nets[0](x)
            with FlopCounterMode(display=False) as counter:
                self.contender.forward(self.case, x)
        passes = {"draws": request.draws, "members": request.members}.get(self.contender.view, 1)
        head = Head(patches.shape[1], tuple(patches.shape[2:]), kernel=self.case.kernel, passes=passes)
        return int(counter.get_total_flops()), self.contender.flops(head)

    def time(self) -> Timing:
        """Time one prediction."""
        with self.mode():
            return timed(self.contender, self.case, self.x)

    def beside(self) -> Timing:
        """Time one plain conventional prediction in this process: between two, the same work can differ by 5 %."""
        with torch.no_grad():
            return timed(CONTENDERS[0], self.plain, self.x)

    def gemm(self) -> Rate:
        """Speed of matrix products: the better of torch's own and a 1x1 convolution, the same by another library."""
        device = self.request.device
        a = torch.randn(SIDE, SIDE, device=device)
        pixels = torch.randn(1, SIDE, 32, SIDE // 32, device=device).contiguous(memory_format=torch.channels_last)
        layer = torch.nn.Conv2d(SIDE, SIDE, 1, bias=False, device=device).to(memory_format=torch.channels_last)
        with torch.inference_mode():
            seconds = [quickest(lambda: a @ a, device), quickest(lambda: layer(pixels), device)]
        return Rate(2 * SIDE**3 / min(seconds))


def timed(contender: Contender, case: Case, x: torch.Tensor) -> Timing:
    """Time one prediction. Its probabilities end on the CPU, so with a GPU too it is over when it returns."""
    started = time.perf_counter()
    parts = contender.forward(case, x)
    between = time.perf_counter()
    contender.finish(case, parts)
    ended = time.perf_counter()
    return Timing(whole=1e3 * (ended - started), after=1e3 * (ended - between))


def quickest(run: Callable[[], object], device: str, repeats: int = 5) -> float:
    """Seconds of the fastest of some runs: what the machine can do when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times)


def serve(lines: Iterable[str], out: TextIO) -> None:
    """Set up a worker for the request in the first line, and answer the commands in the lines after it."""
    spoken = iter(lines)
    with Worker(BenchRequest.from_json(next(spoken))) as worker:
        for line in spoken:
            command = line.strip()
            assert command in COMMANDS
            answer = getattr(worker, command)()
            out.write(json.dumps(asdict(answer)) + "\n")
            out.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
