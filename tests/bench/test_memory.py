"""Peaks of work whose need is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vbs_cli.bench import memory
from vbs_cli.bench.memory import PAGE, peak_memory

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
    assert peak_memory(hold_one_after_the_other, device="cpu") == pytest.approx(50 * MEGABYTE, rel=0.2)
    assert peak_memory(hold_together, device="cpu") == pytest.approx(200 * MEGABYTE, rel=0.1)


@needs_proc
def test_memory_that_was_used_before_does_not_hide_the_need() -> None:
    hold(300)
    assert peak_memory(lambda: hold(50), device="cpu") == pytest.approx(50 * MEGABYTE, rel=0.2)


def test_idle_work_takes_a_page_at_least_so_that_ratios_exist() -> None:
    assert PAGE <= peak_memory(lambda: None, device="cpu") < MEGABYTE


def test_without_proc_the_mark_of_the_whole_life_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "CLEAR_REFS", tmp_path / "none")
    marks = iter([70 * MEGABYTE, 100 * MEGABYTE])
    monkeypatch.setattr(memory, "lifetime_peak", lambda: next(marks))
    assert peak_memory(lambda: None, device="cpu") == 30 * MEGABYTE


def test_another_c_library_is_left_alone() -> None:
    memory.glibc("no_such_function_in_any_library", 1)
