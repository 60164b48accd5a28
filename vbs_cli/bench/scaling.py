"""Growth of costs with the batch, the classes, the patches and the draws, and its exponents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from vbs_cli.bench.compare import Remote, check_arguments
from vbs_cli.bench.estimate import check_memory
from vbs_cli.bench.network import BenchNetwork
from vbs_cli.bench.protocol import BenchRequest

COLUMNS = ("against", "value", "method", "latency_ms", "after_ms", "memory_bytes", "flops")
MEASURED = COLUMNS[3:]
VARIANT = "vbs"
BATCHES = (8, 32, 128, 512)
CLASSES = (10, 100, 300, 1_000)
SIZES = (1, 1.5, 2, 3)  # times the length, or the height and width, of an input
DRAWS = (2, 5, 10, 20)


def plans(network: BenchNetwork, batch: int) -> Iterator[tuple[str, int, BenchRequest]]:
    """Measurements to make: what is varied, its value, and the request; everything else stays as it is."""

    def request(
        method: str, changed: BenchNetwork = network, *, examples: int = batch, draws: int = DRAWS[0]
    ) -> BenchRequest:
        return BenchRequest(changed, method, VARIANT, examples, draws, members=2, device="cpu")

    for examples in BATCHES:
        yield "batch", examples, request("vbs", examples=examples)
    for classes in CLASSES:
        yield "classes", classes, request("vbs", replace(network, classes=classes))
    for times in SIZES:
        channels, *size = network.shape
        larger = replace(network, shape=(channels, *(round(times * length) for length in size)))
        yield "patches", math.prod(larger.grid()), request("vbs", larger)
    for draws in DRAWS:
        yield "draws", draws, request("mc-dropout", draws=draws)


def bench_scaling(
    network: BenchNetwork,
    *,
    batch: int,
    repeats: int = 10,
    device: str = "cpu",
    advance: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Rows of COLUMNS: costs of variance-based smoothing by batch, classes and patches, and of MC-dropout by draws."""
    every = [(against, value, replace(r, device=device)) for against, value, r in plans(network, batch)]
    for _, _, r in every:
        check_arguments(r.network, batch=r.batch, draws=r.draws, members=r.members, repeats=repeats, device=device)
        check_memory(r.network, batch=r.batch, draws=1, members=r.members, device=device)
    rows = []
    for against, value, request in every:
        with Remote(request) as worker:
            costs = worker.costs()
            worker.time()  # warm-up
            timings = [worker.time() for _ in range(repeats)]
        rows.append(
            {
                "against": against,
                "value": value,
                "method": request.method,
                "latency_ms": median(timing.whole for timing in timings),
                "after_ms": median(timing.after for timing in timings),
                "memory_bytes": costs.memory_bytes,
                "flops": costs.flops,
            }
        )
        advance(1)
    return rows


def exponents(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Exponents by which costs grow: the slope of the line through the logarithms of a cost and of what is varied."""
    found = []
    for against in dict.fromkeys(row["against"] for row in rows):
        of_one = [row for row in rows if row["against"] == against]
        x = np.log([row["value"] for row in of_one])
        slopes = {cost: float(np.polyfit(x, np.log([row[cost] for row in of_one]), 1)[0]) for cost in MEASURED}
        found.append({"against": against, "method": of_one[0]["method"], **slopes})
    return found
