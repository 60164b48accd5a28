"""Peaks of work whose need is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vbs_cli.bench import memory
from vbs_cli.bench.memory import FEWEST, PAGE, REPEATS, peak_memory, repeated, traced_memory

MEGABYTE = 2**20
needs_proc = pytest.mark.skipif(not memory.CLEAR_REFS.exists(), reason="only Linux resets the mark")


def hold(megabytes: int) -> None:
    torch.ones(megabytes * MEGABYTE, dtype=torch.uint8)


def hold_one_after_the_other() -> None:
    for _ in range(4):
        hold(50)


def hold_together() -> None:
    kept = [torch.ones(50 * MEGABYTE, dtype=torch.uint8) for _ in range(4)]
    assert len(kept) == 4


@needs_proc
def test_the_peak_is_what_is_held_at_one_time() -> None:
    assert peak_memory(hold_one_after_the_other, device="cpu").median == pytest.approx(50 * MEGABYTE, rel=0.2)
    assert peak_memory(hold_together, device="cpu").median == pytest.approx(200 * MEGABYTE, rel=0.1)


@needs_proc
def test_memory_that_was_used_before_does_not_hide_the_need() -> None:
    hold(300)
    assert peak_memory(lambda: hold(50), device="cpu").median == pytest.approx(50 * MEGABYTE, rel=0.2)


def test_idle_work_takes_a_page_at_least_so_that_ratios_exist() -> None:
    assert PAGE <= peak_memory(lambda: None, device="cpu").median < MEGABYTE


def test_without_proc_the_mark_of_the_whole_life_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "CLEAR_REFS", tmp_path / "none")
    marks = iter([70 * MEGABYTE, 100 * MEGABYTE])
    monkeypatch.setattr(memory, "lifetime_peak", lambda: next(marks))
    assert peak_memory(lambda: None, device="cpu") == memory.Peak(30 * MEGABYTE, 0.0)


@needs_proc
def test_the_deviation_is_that_of_the_repeats() -> None:
    sizes = iter([500, *([40, 60] * REPEATS)])  # the first does not count
    peak = peak_memory(lambda: hold(next(sizes)), device="cpu")
    assert 39 * MEGABYTE <= peak.median <= 61 * MEGABYTE
    assert peak.deviation == pytest.approx(11 * MEGABYTE, rel=0.2)


def test_slow_work_is_measured_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(repeated(lambda: 1)) == REPEATS - 1
    monkeypatch.setattr(memory, "PATIENCE", 0.0)
    assert len(repeated(lambda: 1)) == FEWEST - 1


def test_the_trace_tells_what_is_held_at_one_time_and_all_that_was_asked_for() -> None:
    one_by_one, together = traced_memory(hold_one_after_the_other), traced_memory(hold_together)
    assert one_by_one.peak == pytest.approx(50 * MEGABYTE, rel=0.01)
    assert together.peak == pytest.approx(200 * MEGABYTE, rel=0.01)
    assert one_by_one.total == together.total == pytest.approx(200 * MEGABYTE, rel=0.01)


@needs_proc
def test_both_ways_to_measure_agree_where_torch_alone_takes_memory() -> None:
    resident = peak_memory(hold_together, device="cpu").median
    assert traced_memory(hold_together).peak == pytest.approx(resident, rel=0.1)


def test_another_c_library_is_left_alone() -> None:
    memory.glibc("no_such_function_in_any_library", 1)
