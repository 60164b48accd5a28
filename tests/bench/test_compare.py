"""The table, and the processes that fill it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vbs_cli.bench import COLUMNS, Network, bench, compare
from vbs_cli.bench.protocol import Answer, Request
from vbs_cli.bench.worker import measure
from vbs_cli.errors import InvalidInput, VbsError

DRAWS = 4


def request_for(network: Network, method: str, variant: str, *, batch: int = 2) -> Request:
    return Request(network, method, variant, batch=batch, draws=DRAWS, repeats=1, device="cpu")


@pytest.fixture(scope="module")
def rows(network: Network) -> list[dict[str, Any]]:
    """A table measured in this process, which saves five starts of torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "ask", measure)
        return bench(network, batch=3, draws=DRAWS, repeats=2)


def test_every_row_has_the_columns(rows: list[dict[str, Any]]) -> None:
    assert all(tuple(row) == COLUMNS for row in rows)
    assert [(row["method"], row["variant"]) for row in rows] == [
        ("conventional", "paper"),
        ("temperature", "paper"),
        ("vbs", "paper"),
        ("mc-dropout", "paper"),
        ("mc-dropout", "vbs"),
    ]


def test_the_ratios_refer_to_conventional(rows: list[dict[str, Any]]) -> None:
    for value, ratio in [
        ("memory_bytes", "memory_ratio"),
        ("latency_ms", "latency_ratio"),
        ("flops", "flops_ratio"),
    ]:
        assert rows[0][ratio] == 1
        assert all(row[ratio] == row[value] / rows[0][value] for row in rows)
        assert all(row[value] > 0 for row in rows)


def test_flops_are_c_and_a_little_for_one_pass_and_n_times_c_for_n_draws(rows: list[dict[str, Any]]) -> None:
    conventional, temperature, vbs, at_once, in_turn = (row["flops_ratio"] for row in rows)
    assert conventional < temperature < vbs < 1.1
    assert at_once == in_turn == pytest.approx(DRAWS, rel=0.01)


def test_flops_of_the_network_are_those_of_its_convolutions(network: Network, rows: list[dict[str, Any]]) -> None:
    # Length after each convolution, channels in, kernel; two operations for each multiply-add.
    convolutions = [(79, 2, 10), (19, 8, 8), (20, 8, 4), (21, 8, 4), (20, 8, 4)]
    inner = sum(2 * length * channels * kernel * 8 for length, channels, kernel in convolutions)
    last = 2 * 20 * 8 * 5
    pooling_and_softmax = 5 * 20 + (5 * 5 - 2)
    assert rows[0]["flops"] == 3 * (inner + last + pooling_and_softmax)


def test_progress_is_told_after_every_row(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "ask", lambda request: Answer(memory_bytes=1, latency_ms=1.0, flops=1))
    steps: list[int] = []
    bench(network, batch=1, advance=steps.append)
    assert steps == [1] * 5


def test_all_draws_at_once_take_more_memory_than_draws_in_turn(network: Network) -> None:
    """Four draws should take about four times the memory; the worker's own process is the real one."""
    larger = replace(network, shape=(2, 1580), width=16)
    at_once = compare.ask(request_for(larger, "mc-dropout", "paper", batch=128))
    in_turn = measure(request_for(larger, "mc-dropout", "vbs", batch=128))
    assert at_once.memory_bytes > 2 * in_turn.memory_bytes
    assert at_once.flops == in_turn.flops


def worker_that(does: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stand_in.py").write_text(f"import os, sys\n{does}\n")
    monkeypatch.setattr(compare, "SOURCE", tmp_path)
    monkeypatch.setattr(compare, "WORKER", "stand_in")


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("raise MemoryError('no room\\nfor it')", "for it"),
        ("sys.exit(3)", "exit code 3"),
        ("print('not JSON')", "gave no result"),
        ("print('{}')", "gave no result"),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            "killed by signal 9",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="no signals"),
        ),
    ],
)
def test_a_failing_worker_is_one_line(
    network: Network, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, message: str
) -> None:
    worker_that(does, monkeypatch, tmp_path)
    with pytest.raises(VbsError, match=message) as caught:
        compare.ask(request_for(network, "vbs", "paper"))
    assert "\n" not in str(caught.value)
    assert "vbs (paper)" in str(caught.value)


def test_a_worker_finds_the_package_and_keeps_the_settings_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "theirs")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    found = compare.environment()
    assert found["PYTHONPATH"].split(os.pathsep) == [str(compare.SOURCE), "theirs"]
    assert (compare.SOURCE / "vbs_cli" / "bench" / "worker.py").exists()
    assert found["OMP_WAIT_POLICY"] == "ACTIVE"


def test_a_request_survives_the_journey(network: Network) -> None:
    request = request_for(network, "vbs", "paper")
    assert Request.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"batch": 0}, "--batch"), ({"draws": 1}, "at least 2"), ({"repeats": 0}, "at least 1")],
)
def test_bad_counts_are_refused(network: Network, wrong: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        bench(network, **{"batch": 2, **wrong})  # type: ignore[arg-type]


def test_mc_dropout_without_dropout_is_refused(network: Network) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        bench(replace(network, dropout=0.0), batch=2)


def test_a_device_that_is_not_there_is_refused(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(VbsError, match="--device cpu"):
        bench(network, batch=2, device="cuda")
