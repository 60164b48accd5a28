"""The tables of the bench in words and signs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vbs_cli.plots import Tables
from vbs_cli.report.costs import (
    COST_COLUMNS,
    DETAIL_COLUMNS,
    EXPONENT_COLUMNS,
    SCALING_COLUMNS,
    cost_lines,
    cost_notes,
    detail_lines,
    exponent_lines,
    scaling_lines,
)
from vbs_cli.summary import latex_table


@pytest.fixture
def costs(make_tables: Callable[..., Tables]) -> list[dict[Any, Any]]:
    return make_tables().bench.to_dict("records")


def test_lines_stand_under_their_columns(costs: list[dict[Any, Any]]) -> None:
    for columns, lines in ((COST_COLUMNS, cost_lines(costs)), (DETAIL_COLUMNS, detail_lines(costs))):
        assert len(lines) == len(costs)
        assert all(len(line) == len(columns) for line in lines)
    first = cost_lines(costs)[0]
    assert first == ["conventional", "paper", "10.0 MB", "1.000", "1.00", "12.0 ms", "1.000", "0.500 G", "1.0000"]


def test_growth_stands_under_its_columns() -> None:
    measured = {"latency_ms": 12.0, "after_ms": 0.2, "memory_bytes": 1e7, "flops": 5e8}
    [line] = scaling_lines([{"against": "classes", "value": 1000, "method": "vbs", **measured}])
    assert dict(zip(SCALING_COLUMNS, line, strict=True))["value"] == "1,000"
    [line] = exponent_lines([{"against": "classes", "method": "vbs", **dict.fromkeys(measured, 0.994)}])
    assert dict(zip(EXPONENT_COLUMNS, line, strict=True))["FLOPs"] == "0.99"


def test_the_machine_is_compared_with_itself(costs: list[dict[Any, Any]]) -> None:
    assert any(
        "200 GFLOP/s here; the conventional network at 40 % of that (paper) and 80 %" in n for n in cost_notes(costs)
    )
    alone = [row for row in costs if row["variant"] == "paper"]
    assert not any("GFLOP/s" in note for note in cost_notes(alone))


def test_where_two_ways_to_measure_memory_disagree_it_is_said(costs: list[dict[Any, Any]]) -> None:
    assert cost_notes(costs)[-1].endswith("agree within 10 %")
    costs[2]["traced_bytes"] = 0.8 * costs[2]["memory_bytes"]
    assert cost_notes(costs)[-1].endswith("differ by more than 10 %: vbs (paper) 10.0 and 8.0 MB")


def test_a_latex_table_escapes_its_signs_and_sets_numbers_to_the_right() -> None:
    table = latex_table(["Δ vs vbs", "a_b"], [["50 % & more", "1 ± 2"], ["x\\y", "-3"]])
    assert table.splitlines()[0] == r"\begin{tabular}{lr}"
    assert r"$\Delta$ vs vbs & a\_b \\" in table
    assert r"50 \% \& more & 1 $\pm$ 2 \\" in table
    assert r"x\textbackslash{}y & -3 \\" in table


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_takes_the_table(costs: list[dict[Any, Any]], tmp_path: Path) -> None:
    text = latex_table(COST_COLUMNS, cost_lines(costs))
    (tmp_path / "t.tex").write_text(rf"\documentclass{{article}}\begin{{document}}{text}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
