"""`python -m vbs_cli.bench.worker`: measures one contender. Request on stdin, answer on stdout.

Each has a process of its own: what one leaves behind (caches, a grown heap) hides what the next needs.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from vbs_cli.bench.contenders import Case, Contender, find_contender
from vbs_cli.bench.flops import Head
from vbs_cli.bench.memory import peak_memory
from vbs_cli.bench.protocol import Answer, Request


@torch.inference_mode()
def measure(request: Request) -> Answer:
    """Memory first: the latency runs leave a grown heap behind."""
    contender = find_contender(request.method, request.variant)
    network = request.network
    model = network.build(dropout=contender.dropout).to(request.device)
    case = Case(model, kernel=network.kernel, draws=request.draws)
    x = network.inputs(request.batch).to(request.device)

    def predict() -> object:
        return contender.predict(case, x)

    # Counting is also the warm-up: one example through all of the code, so that lazy set-up is not measured.
    flops = request.batch * count_flops(contender, case, x[:1])
    memory = peak_memory(predict, device=request.device)
    return Answer(memory_bytes=memory, latency_ms=median_ms(predict, request.repeats), flops=flops)


def count_flops(contender: Contender, case: Case, x: torch.Tensor) -> int:
    """FLOPs of one example: the network's convolutions and matrix products, and all that follows it."""
    patches = case.model(x)
    head = Head(classes=patches.shape[1], grid=tuple(patches.shape[2:]), kernel=case.kernel, draws=case.draws)
    with FlopCounterMode(display=False) as counter:
        contender.predict(case, x)
    return int(counter.get_total_flops()) + contender.flops(head)


def median_ms(run: Callable[[], object], repeats: int) -> float:
    """Median time of a run in milliseconds, after one that does not count.

    Probabilities end on the CPU, so on a GPU too a run is over when it returns.
    """
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


if __name__ == "__main__":
    sys.stdout.write(measure(Request.from_json(sys.stdin.read())).to_json() + "\n")
