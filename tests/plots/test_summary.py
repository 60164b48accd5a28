"""The summary against arithmetic by hand."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pandas as pd
import pytest

from vbs_cli.plots import Tables
from vbs_cli.plots.summary import (
    SCORES,
    SWEEP_COLUMNS,
    plus_minus,
    proxy_lines,
    some_levels,
    study_differences,
    study_lines,
    summary,
    sweep_lines,
)

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


def test_some_levels_reach_from_the_first_to_the_last() -> None:
    rows = pd.DataFrame({"level": [i / 59 for i in range(60)] * 2})
    levels = some_levels(rows)
    assert len(levels) == 6
    assert (levels[0], levels[-1]) == (0, 1)
    assert some_levels(rows[rows["level"] < 0.02]) == [0, 1 / 59]


def test_a_sweep_s_table_has_means_over_seeds_at_some_levels(make_tables: MakeTables) -> None:
    metrics = make_tables(n_seeds=3, n_levels=11).metrics
    metrics = metrics[metrics["metric"].isin(SWEEP_COLUMNS)]
    lines = sweep_lines(metrics)
    assert all(len(line) == len(SWEEP_COLUMNS) for line in lines)
    noise, level, method, accuracy, *_ = lines[-1]
    chosen = metrics[(metrics["noise"] == noise) & (metrics["method"] == method) & (metrics["metric"] == "accuracy")]
    expected = statistics.fmean(chosen[chosen["level"].round(2) == float(level)]["value"])
    assert accuracy == f"{expected:.3f}"
    assert "clean" not in {line[0] for line in lines}


def test_the_spread_s_table_stars_a_difference_whose_interval_excludes_zero() -> None:
    quantities = ("sigma_clean", "sigma_most", "error_clean", "error_most", "rank_correlation", "auroc_sigma")
    names = (*quantities, "auroc_confidence", "patch_accuracy")
    rows = [{"quantity": name, "value": 0.5, "low": 0.4, "high": 0.6} for name in names]
    rows.append({"quantity": "rank_correlation", "value": math.nan, "low": math.nan, "high": math.nan})
    gains = {"gaussian": (-0.2, -0.3, -0.1), "speckle": (-0.2, -0.5, 0.1)}
    table = pd.DataFrame(
        [
            {"noise": noise, "model": "conventional", **row}
            for noise, gain in gains.items()
            for row in [*rows, {"quantity": "auroc_gain", **dict(zip(("value", "low", "high"), gain, strict=True))}]
        ]
    )
    starred, plain = proxy_lines(table)
    assert starred[:4] == ["gaussian", "patches", "0.50 to 0.50", "0.50 to 0.50"]
    assert starred[4] == "-"  # no correlation
    assert starred[5:] == ["0.50 ± 0.10", "0.50 ± 0.10", "-0.20 *", "0.50"]
    assert plain[7] == "-0.20"


def test_a_study_s_tables_have_both_methods_at_some_levels() -> None:
    rows = [
        {
            "level": level,
            "method": method,
            "baseline": baseline,
            "metric": "ece",
            "value": v,
            "low": v - 1,
            "high": v + 1,
        }
        for level in (0.0, 0.35, 0.7)
        for method, baseline, v in (("a", "", 3.0), ("b", "", 1.0), ("b", "a", -2.0), ("a", "b", 2.0))
    ]
    table = pd.DataFrame(rows)
    assert study_lines(table, ["ece"])[:2] == [["0.00", "a", "3.000 ± 1.000"], ["0.00", "b", "1.000 ± 1.000"]]
    assert study_differences(table, "a", ["ece"])[-1] == ["0.70", "-2.000 [-3.000, -1.000] *"]
