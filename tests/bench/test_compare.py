"""The table, and the processes that fill it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vbs_cli.bench import COLUMNS, CONTENDERS, BenchNetwork, bench, compare
from vbs_cli.bench.protocol import BenchRequest, Costs, Rate, Timing
from vbs_cli.bench.worker import Worker
from vbs_cli.errors import InvalidInput, VbsError

DRAWS, MEMBERS = 4, 3


def request_for(network: BenchNetwork, method: str, variant: str, *, batch: int = 2) -> BenchRequest:
    return BenchRequest(network, method, variant, batch=batch, draws=DRAWS, members=MEMBERS, device="cpu")


@pytest.fixture(scope="module")
def rows(network: BenchNetwork) -> dict[tuple[str, str], dict[str, Any]]:
    """A table measured in this process, which saves twelve starts of torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "Remote", Worker)
        found = bench(network, batch=3, draws=DRAWS, members=MEMBERS, repeats=2)
    return {(row["method"], row["variant"]): row for row in found}


Rows = dict[tuple[str, str], dict[str, Any]]


def test_every_row_has_the_columns(rows: Rows) -> None:
    assert all(tuple(row) == COLUMNS for row in rows.values())
    assert list(rows) == [(contender.method, contender.variant) for contender in CONTENDERS]


def test_the_ratios_refer_to_the_plain_conventional_prediction(rows: Rows) -> None:
    base = rows["conventional", "paper"]
    for value, ratio in [
        ("memory_bytes", "memory_ratio"),
        ("allocated_bytes", "allocated_ratio"),
        ("flops", "flops_ratio"),
        ("parameters", "parameters_ratio"),
    ]:
        assert base[ratio] == 1
        assert all(row[ratio] == row[value] / base[value] for row in rows.values())
        assert all(row[value] > 0 for row in rows.values())
    assert base["latency_ratio"] == base["throughput_ratio"] == 1


def test_times_hang_together(rows: Rows) -> None:
    for row in rows.values():
        assert 0 < row["after_ms"] < row["latency_ms"] <= row["latency_p95_ms"]
        assert row["example_ms"] == row["latency_ms"] / 3
        assert row["throughput"] == pytest.approx(1e3 / row["example_ms"])
        assert row["throughput_ratio"] == 1 / row["latency_ratio"]
        assert row["repeats"] == 2
        assert row["gemm_flops"] > 1e8
        assert row["gemm_share"] > 0


def test_flops_are_c_and_a_little_for_one_pass_and_n_times_c_for_n(rows: Rows) -> None:
    flops = {name: row["flops_ratio"] for name, row in rows.items()}
    assert flops["conventional", "paper"] < flops["temperature", "paper"] < flops["vbs", "paper"] < 1.1
    for method in ("conventional", "temperature", "vbs", "naive", "ensemble"):
        assert flops[method, "vbs"] == flops[method, "paper"]
    assert flops["ensemble", "paper"] == pytest.approx(MEMBERS, rel=0.01)
    assert flops["mc-dropout", "paper"] == pytest.approx(DRAWS, rel=0.01)


def test_what_comes_before_the_first_dropout_is_computed_once_for_all_draws(rows: Rows) -> None:
    saved = rows["mc-dropout", "paper"]["flops"] - rows["mc-dropout", "vbs"]["flops"]
    assert saved == 3 * (DRAWS - 1) * 2 * 79 * 2 * 10 * 8  # examples, draws, the first convolution


def test_flops_of_the_network_are_those_of_its_convolutions(rows: Rows) -> None:
    # Length after each convolution, channels in, kernel; two operations for each multiply-add.
    convolutions = [(79, 2, 10), (19, 8, 8), (20, 8, 4), (21, 8, 4), (20, 8, 4)]
    inner = sum(2 * length * channels * kernel * 8 for length, channels, kernel in convolutions)
    last = 2 * 20 * 8 * 5
    pooling_and_softmax = 5 * 20 + (5 * 5 - 2)
    assert rows["conventional", "paper"]["flops"] == 3 * (inner + last + pooling_and_softmax)


def test_parameters_are_those_of_all_networks_that_a_prediction_needs(network: BenchNetwork, rows: Rows) -> None:
    one = sum(value.numel() for value in network.build(dropout=False).parameters())
    assert rows["vbs", "paper"]["parameters"] == rows["mc-dropout", "paper"]["parameters"] == one
    assert rows["ensemble", "paper"]["parameters"] == MEMBERS * one


def answering(monkeypatch: pytest.MonkeyPatch, own: Sequence[float], plain: Sequence[float]) -> None:
    """Workers that are no processes and take the times that they are told to, the first for warmth."""

    class Told:
        def __init__(self, request: BenchRequest) -> None:
            self.times = {"own": iter([99.0, *own]), "plain": iter([99.0, *plain])}

        def __enter__(self) -> Told:
            return self

        def __exit__(self, *error: object) -> None:
            return None

        def costs(self) -> Costs:
            return Costs(4, 0.0, 4, 4, flops=4, network_flops=4, parameters=4)

        def time(self) -> Timing:
            return Timing(next(self.times["own"]), 0.1)

        def beside(self) -> Timing:
            return Timing(next(self.times["plain"]), 0.1)

        def gemm(self) -> Rate:
            return Rate(1e9)

    monkeypatch.setattr(compare, "Remote", Told)


def test_each_time_is_compared_with_that_of_the_plain_prediction_beside_it(
    network: BenchNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weather changes: all that is timed second or third takes ten times as long."""
    answering(monkeypatch, own=[2.0, 20.0, 20.0], plain=[1.0, 10.0, 10.0])
    first, *others = bench(network, batch=1, repeats=3)
    assert (first["latency_ms"], first["latency_ratio"]) == (20.0, 1.0)
    assert {row["latency_ratio"] for row in others} == {2.0}


def test_slow_contenders_are_timed_less_often(network: BenchNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PATIENCE", 0.0)
    answering(monkeypatch, own=[1.0] * 9, plain=[1.0] * 9)
    assert {row["repeats"] for row in bench(network, batch=1, repeats=9)} == {compare.FEWEST}


def test_progress_is_told_after_every_row(network: BenchNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, own=[1.0], plain=[1.0])
    steps: list[int] = []
    bench(network, batch=1, repeats=1, advance=steps.append)
    assert steps == [1] * len(CONTENDERS)


def test_a_worker_in_another_process_answers_as_one_in_this_does(network: BenchNetwork) -> None:
    request = request_for(network, "ensemble", "vbs")
    with compare.Remote(request) as there, Worker(request) as here:
        told, known = there.costs(), here.costs()
        assert (told.flops, told.parameters, told.traced_bytes) == (known.flops, known.parameters, known.traced_bytes)
        assert there.time().after > 0
        assert there.beside().whole > 0
        assert there.gemm().flops > 0
    assert there.process.returncode is not None
    assert not Path(here.folder.name).exists()


def test_all_draws_at_once_take_more_memory_than_draws_in_turn(network: BenchNetwork) -> None:
    larger = replace(network, shape=(2, 1580), width=16)
    with compare.Remote(request_for(larger, "mc-dropout", "paper", batch=128)) as worker:
        at_once = worker.costs()
    with Worker(request_for(larger, "mc-dropout", "vbs", batch=128)) as here:
        in_turn = here.costs()
    assert at_once.memory_bytes > 2 * in_turn.memory_bytes
    assert at_once.traced_bytes > 2 * in_turn.traced_bytes


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
        ("pass", "gave no result"),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            "killed by signal 9",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="no signals"),
        ),
    ],
)
def test_a_failing_worker_is_one_line(
    network: BenchNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, message: str
) -> None:
    worker_that(does, monkeypatch, tmp_path)
    with (
        compare.Remote(request_for(network, "vbs", "paper")) as worker,
        pytest.raises(VbsError, match=message) as caught,
    ):
        worker.costs()
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


def test_a_request_survives_the_journey(network: BenchNetwork) -> None:
    request = request_for(network, "vbs", "paper")
    assert BenchRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch": 0}, "--batch"),
        ({"draws": 1}, "1 draws; an average"),
        ({"members": 1}, "1 members; an average"),
        ({"repeats": 0}, "at least 1"),
    ],
)
def test_bad_counts_are_refused(network: BenchNetwork, wrong: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        bench(network, **{"batch": 2, **wrong})  # type: ignore[arg-type]


def test_mc_dropout_without_dropout_is_refused(network: BenchNetwork) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        bench(replace(network, dropout=0.0), batch=2)


def test_a_device_that_is_not_there_is_refused(network: BenchNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(VbsError, match="--device cpu"):
        bench(network, batch=2, device="cuda")
