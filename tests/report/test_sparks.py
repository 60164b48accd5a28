"""Small curves say what the numbers say."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from vbs_cli.console import SIGNS, in_encoding
from vbs_cli.report.sparks import (
    BARS,
    CALIBRATED,
    LEVEL_COLUMNS,
    MOST,
    level_lines,
    reliability_lines,
    spark,
    thinned,
)


def curve(cell: str) -> str:
    """The bars of a cell of `level_lines`."""
    return cell.split(" ")[0]


def test_rising_values_give_rising_bars_from_the_lowest_to_the_highest() -> None:
    bars = spark([i / 40 for i in range(41)], 0, 1)
    assert bars == "".join(sorted(bars))
    assert set(bars) == set(BARS)
    assert spark([0, 1 / 7, 2 / 7, 3 / 7, 4 / 7, 5 / 7, 6 / 7, 1], 0, 1) == BARS


def test_a_curve_does_not_depend_on_the_unit() -> None:
    values = [0.3, 0.1, 0.9, 0.5]
    assert spark(values, 0, 1) == spark([100 * value - 7 for value in values], -7, 93)


def test_what_is_not_there_is_a_space() -> None:
    assert spark([0, math.nan, 1], 0, 1) == f"{BARS[0]} {BARS[-1]}"


@pytest.mark.parametrize("low_high", [(2.0, 2.0), (3.0, 1.0), (math.nan, math.nan), (-math.inf, math.inf)])
def test_without_a_range_all_bars_are_the_lowest(low_high: tuple[float, float]) -> None:
    assert spark([2.0, 2.0, 2.0], *low_high) == 3 * BARS[0]


def test_one_value_is_one_bar_and_none_is_nothing() -> None:
    assert spark([0.5], 0, 1) == BARS[4]
    assert spark([], 0, 1) == ""


def test_values_outside_the_range_stay_at_its_ends() -> None:
    assert spark([-5, -math.inf, 5, math.inf], 0, 1) == 2 * BARS[0] + 2 * BARS[-1]


@pytest.mark.parametrize("count", [0, 1, 2, MOST - 1, MOST, MOST + 1, 20, 60, 1000])
def test_thinning_keeps_the_ends_and_the_order(count: int) -> None:
    values = [float(i) for i in range(count)]
    kept = thinned(values)
    assert len(kept) == min(count, MOST)
    assert kept == sorted(set(kept))
    assert kept[:1] + kept[-1:] == values[:1] + values[-1:]


def test_a_sweep_has_a_line_per_noise_and_method_with_first_and_last_value(make_tables: MakeTables) -> None:
    metrics = make_tables(n_levels=20).metrics
    lines = level_lines(metrics)
    assert [line[:2] for line in lines[:2]] == [["gaussian", "conventional"], ["gaussian", "temperature"]]
    assert len(lines) == 2 * 4
    assert all(len(line) == len(LEVEL_COLUMNS) for line in lines)
    own = metrics[(metrics["noise"] == "gaussian") & (metrics["method"] == "vbs") & (metrics["metric"] == "entropy")]
    ends = [own[own["level"] == level]["value"].mean() for level in (0, 1)]
    cell = next(line for line in lines if line[:2] == ["gaussian", "vbs"])[-1]
    assert cell.endswith(f" {ends[0]:.2f} → {ends[1]:.2f}")
    assert len(curve(cell)) == MOST


def test_methods_of_a_noise_share_a_scale_and_noises_do_not() -> None:
    values = {("a", "one"): (0, 4), ("a", "two"): (4, 8), ("b", "one"): (0, 1), ("b", "two"): (0, 1)}
    rows = [
        {"seed": seed, "method": method, "noise": noise, "level": level, "metric": "ece", "value": ends[level] + wobble}
        for (noise, method), ends in values.items()
        for level in (0, 1)
        for seed, wobble in ((0, -0.1), (1, 0.1))
    ]
    cells = {(noise, method): cell for noise, method, _, cell, _ in level_lines(pd.DataFrame(rows))}
    assert cells["a", "one"] == f"{BARS[0]}{BARS[4]} 0.00 → 4.00"
    assert cells["a", "two"] == f"{BARS[4]}{BARS[7]} 4.00 → 8.00"
    assert curve(cells["b", "one"]) == curve(cells["b", "two"]) == BARS[0] + BARS[7]


def test_levels_stand_in_order_however_the_rows_do(make_tables: MakeTables) -> None:
    metrics = make_tables(n_levels=6, noises=("gaussian",), methods=("vbs",)).metrics
    assert level_lines(metrics.iloc[::-1]) == level_lines(metrics)


def test_scores_that_were_not_measured_are_a_dash_and_clean_data_are_no_curve(make_tables: MakeTables) -> None:
    metrics = make_tables(noises=("gaussian",), methods=("vbs",)).metrics
    assert level_lines(metrics[metrics["metric"] != "entropy"])[0][-1] == "-"
    assert level_lines(metrics[metrics["noise"] == "clean"]) == []


def test_reliability_is_weighted_by_examples_and_blank_where_there_are_none() -> None:
    rows = [
        *((0, "vbs", 0, 0.0, 0.5, 0, math.nan), (1, "vbs", 0, 0.0, 0.5, 0, math.nan)),
        *((0, "vbs", 1, 0.5, 1.0, 1, 0.0), (1, "vbs", 1, 0.5, 1.0, 99, 1.0)),
    ]
    columns = ["seed", "method", "bin", "lower", "upper", "count", "accuracy"]
    calibrated, (method, accuracy, examples) = reliability_lines(pd.DataFrame(rows, columns=columns))
    assert calibrated == [CALIBRATED, BARS[2] + BARS[6], ""]
    assert (method, accuracy, examples) == ("vbs", f" {BARS[7]}", f" {BARS[7]}")


def test_every_method_has_a_bar_per_bin(make_tables: MakeTables) -> None:
    lines = reliability_lines(make_tables().reliability)
    assert [line[0] for line in lines] == [CALIBRATED, "conventional", "temperature", "vbs", "mc-dropout"]
    assert all(len(line[1]) == 10 for line in lines)
    assert all(line[1][:2] == "  " and line[2][:2] == "  " for line in lines[1:])
    assert reliability_lines(make_tables().reliability.iloc[:0]) == []


def test_an_encoding_that_lacks_one_bar_gets_other_signs_for_all() -> None:
    assert "".join(signs for signs, _ in SIGNS).endswith(BARS)
    assert in_encoding(f"{BARS} ± →", "utf-8") == f"{BARS} ± →"
    assert in_encoding(f"{BARS} ± →", "ascii") == ".:-=+*#@ +- ->"
    assert in_encoding(f"{BARS} ± →", "latin-1") == ".:-=+*#@ ± ->"
    assert [in_encoding("Δ vs vbs", name) for name in ("utf-8", "latin-1")] == ["Δ vs vbs", "diff vs vbs"]
    assert in_encoding(f"{BARS} ±", "cp437") == ".:-=+*#@ ±"  # it has some of the bars
