"""What is varied, and the powers that are found."""

from __future__ import annotations

from typing import Any

import pytest

from vbs_cli.bench import BenchNetwork, scaling
from vbs_cli.bench.scaling import COLUMNS, MEASURED, bench_scaling, exponents, plans
from vbs_cli.bench.worker import Worker


def test_one_thing_at_a_time_is_varied(network: BenchNetwork) -> None:
    seen = {
        against: [(value, request) for what, value, request in plans(network, 16) if what == against]
        for against in ("batch", "classes", "patches", "draws")
    }
    assert all(len(each) == 4 for each in seen.values())
    assert [value for value, _ in seen["classes"]] == [10, 100, 300, 1_000]
    for value, request in seen["batch"]:
        assert (request.batch, request.network) == (value, network)
    for value, request in seen["classes"]:
        assert (request.batch, request.network.classes, request.network.shape) == (16, value, network.shape)
    for value, request in seen["patches"]:
        assert request.network.build(dropout=False)(request.network.inputs(1)).shape[2:].numel() == value
    assert [(request.method, request.draws) for _, request in seen["draws"]] == [
        ("mc-dropout", value) for value, _ in seen["draws"]
    ]


@pytest.fixture(scope="module")
def rows(network: BenchNetwork) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "Remote", Worker)
        patch.setattr(scaling, "BATCHES", (2, 4, 8))
        patch.setattr(scaling, "CLASSES", (10, 20))
        return bench_scaling(network, batch=4, repeats=1)


def test_every_row_has_the_columns(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 3 + 2 + 4 + 4
    assert all(tuple(row) == COLUMNS and min(row[cost] for cost in MEASURED) > 0 for row in rows)


def test_flops_grow_with_the_batch_and_slower_with_the_draws(rows: list[dict[str, Any]]) -> None:
    """What comes before the first dropout is computed once for all draws."""
    found = {row["against"]: row["flops"] for row in exponents(rows)}
    assert found["batch"] == pytest.approx(1)
    assert 0.5 < found["draws"] < 1
    assert 0 < found["classes"] < 1
    assert found["patches"] == pytest.approx(1, abs=0.1)


def test_the_power_is_that_of_a_power_law() -> None:
    costs = {"latency_ms": 2, "after_ms": 1, "memory_bytes": 0, "flops": 0.5}
    rows = [
        {"against": "batch", "value": value, "method": "vbs", **{name: 7 * value**k for name, k in costs.items()}}
        for value in (1, 3, 10)
    ]
    [found] = exponents(rows)
    assert {name: pytest.approx(found[name], abs=1e-9) for name in costs} == costs
    assert (found["against"], found["method"]) == ("batch", "vbs")
