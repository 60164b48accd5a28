"""The summary against arithmetic by hand."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pandas as pd
import pytest

from vbs_cli.plots import Tables
from vbs_cli.plots.summary import SCORES, plus_minus, summary

MakeTables = Callable[..., Tables]


def test_summary_agrees_with_plain_python(make_tables: MakeTables) -> None:
    metrics = make_tables(n_seeds=4, n_levels=6).metrics
    records = metrics.to_dict("records")
    for row in summary(metrics).to_dict("records"):
        noise, _, _ = row["condition"].partition(" ")
        for score in SCORES:
            values = [
                each["value"]
                for each in records
                if (each["noise"], each["method"], each["metric"]) == (noise, row["method"], score)
                and each["level"] == (0.0 if noise == "clean" else 0.4)
            ]
            assert len(values) == 4
            assert row[f"{score}_mean"] == pytest.approx(statistics.fmean(values))
            assert row[f"{score}_std"] == pytest.approx(statistics.stdev(values))


def test_clean_comes_first_and_methods_keep_their_order(make_tables: MakeTables) -> None:
    metrics = make_tables(methods=("vbs", "conventional"), n_levels=3).metrics
    table = summary(metrics.iloc[::-1].sort_values("method", ascending=False, kind="stable"))
    assert list(table["condition"].unique()) == ["clean", "speckle 0.50", "gaussian 0.50"]
    assert list(table["method"]) == ["vbs", "conventional"] * 3


def test_the_level_is_the_nearest_one_measured(make_tables: MakeTables) -> None:
    metrics = make_tables(n_levels=20, noises=("gaussian",)).metrics
    assert list(summary(metrics, level=0.9)["condition"].unique()) == ["clean", "gaussian 0.89"]


def test_one_seed_has_no_spread(make_tables: MakeTables) -> None:
    table = summary(make_tables(n_seeds=1).metrics)
    assert table["ece_std"].isna().all()
    assert table["ece_mean"].notna().all()


def test_scores_that_were_not_measured_are_nan(make_tables: MakeTables) -> None:
    metrics = make_tables().metrics
    assert summary(metrics[metrics["metric"] != "nll"])["nll_mean"].isna().all()


def test_an_empty_table_gives_an_empty_summary_with_all_columns(make_tables: MakeTables) -> None:
    empty: pd.DataFrame = make_tables(n_seeds=1).metrics.iloc[:0]
    assert list(summary(empty).columns) == list(summary(make_tables().metrics).columns)
    assert len(summary(empty)) == 0


@pytest.mark.parametrize(
    ("mean", "std", "digits", "text"),
    [
        (0.12345, 0.00444, 3, "0.123 ± 0.004"),
        (0.12345, math.nan, 3, "0.123"),
        (12.0, 0.5, 1, "12.0 ± 0.5"),
        (math.nan, math.nan, 3, "-"),
    ],
)
def test_plus_minus(mean: float, std: float, digits: int, text: str) -> None:
    assert plus_minus(mean, std, digits) == text
