"""Several runs stand side by side, each with its own numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.fixtures.tables import MakeTables
from tests.report.test_page import EVIL, Page
from vbs_cli.plots import FIGURES, Tables
from vbs_cli.report.comparison import best_place, render_comparison
from vbs_cli.report.page import ReportData


def data_of(tables: Tables, **more: object) -> ReportData:
    data = ReportData(
        title="radio",
        dataset="radio",
        source="simulated (vbs radio simulator, seed 0)",
        tables=tables,
        figures={name: f'<svg width="518pt" id="{name}"></svg>' for name in FIGURES},
        settings={"dataset": "radio", "width": 32, "epochs": 8},
        methods={"0": {"vbs": {"alpha": 1.0}}},
        versions={},
        artifacts=[],
        commands=["vbs run"],
        left_out={},
    )
    return replace(data, **more)  # type: ignore[arg-type]


@pytest.fixture
def runs(make_tables: MakeTables) -> dict[str, ReportData]:
    wide = data_of(make_tables(n_levels=6), settings={"dataset": "radio", "width": 64, "epochs": 8})
    return {"narrow": data_of(make_tables(n_levels=3, n_seeds=2)), "wide": wide}


def test_only_settings_that_differ_are_listed(runs: dict[str, ReportData]) -> None:
    html = render_comparison(runs)
    assert re.search(r"width</th><td>32</td><td>64</td>", html)
    assert ">epochs<" not in html


def test_every_run_has_its_verdict_and_its_column(runs: dict[str, ReportData]) -> None:
    page = Page(render_comparison(runs))
    assert page.open == []
    assert page.text.count("Variance-based smoothing lowers ECE") == 2
    for words in ("2 seeds", "3 seeds", "gaussian 0.50, 0.40", "Accuracy", "simulated data"):
        assert words in page.text


def test_figures_of_both_runs_stand_together(runs: dict[str, ReportData]) -> None:
    one = replace(runs["narrow"], figures={"shift": "<svg/>"})
    page = Page(render_comparison({"narrow": one, "wide": runs["wide"]}))
    assert [image["alt"] for image in page.of("img")] == ["Figure: Accuracy and entropy under growing noise"] * 2


def test_a_method_that_one_run_lacks_is_a_dash(runs: dict[str, ReportData], make_tables: MakeTables) -> None:
    few = data_of(make_tables(methods=("conventional", "vbs"), n_levels=3))
    html = render_comparison({"few": few, "wide": runs["wide"]})
    row = re.search(r'<th scope="row">MC-dropout</th><td>(.*?)</td><td>(.*?)</td>', html)
    assert row is not None
    assert row[1] == "-"
    assert "±" in row[2]


def test_the_better_run_is_marked_only_where_intervals_are_apart(make_tables: MakeTables) -> None:
    rows = make_tables().intervals.iloc[:2]
    low, high = (rows.iloc[i].copy() for i in (0, 1))
    low[["low", "high"]], high[["low", "high"]] = [0.1, 0.2], [0.3, 0.4]
    assert best_place([low, high], "ece") == 0
    assert best_place([low, high], "accuracy") == 1
    assert best_place([low, high], "entropy") is None
    assert best_place([low, None], "ece") is None
    high["low"] = 0.15
    assert best_place([low, high], "ece") is None


def test_names_of_runs_are_escaped(runs: dict[str, ReportData]) -> None:
    html = render_comparison({EVIL: runs["narrow"], "b": runs["wide"]})
    assert "<script" not in html
    assert "&lt;script&gt;" in html
