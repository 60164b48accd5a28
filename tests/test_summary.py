"""The summary against arithmetic by hand."""

from __future__ import annotations

import math
import statistics

import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from vbs_cli.conditions import MEAN, Condition, conditions, some_levels
from vbs_cli.summary import (
    INTERVAL_COLUMNS,
    SWEEP_COLUMNS,
    best_methods,
    format_difference,
    interval_lines,
    plus_minus,
    proxy_lines,
    study_differences,
    study_lines,
    suite_lines,
    suite_tables,
    suite_title,
    sweep_lines,
    with_means,
)


def test_clean_comes_first_and_each_noise_where_accuracy_has_lost_half_of_the_way_to_chance(
    make_tables: MakeTables,
) -> None:
    metrics = make_tables(n_levels=20, noises=("speckle", "gaussian")).metrics.iloc[::-1]
    shown = conditions(metrics)
    assert [each.noise for each in shown] == ["clean", "gaussian", "speckle"]
    rows = metrics[(metrics["metric"] == "accuracy") & (metrics["method"] == metrics["method"].iloc[0])]
    accuracy = rows.groupby(["noise", "level"])["value"].mean()
    half = (accuracy["clean", 0.0] + 1 / 20) / 2
    for each in shown[1:]:
        distance = (accuracy[each.noise] - half).abs()
        assert distance[each.level] == distance[distance.index > 0].min()


def test_without_accuracies_the_level_next_to_a_half_is_shown() -> None:
    table = pd.DataFrame({"noise": "gaussian", "level": [0.0, 0.2, 0.6, 1.0], "metric": "ece", "method": "a"})
    assert conditions(table.assign(value=0.1)) == [Condition("gaussian", 0.6)]


def test_a_second_set_is_named_with_its_level_only_where_it_has_several() -> None:
    assert Condition("phone", 1.0).name == "phone"
    table = pd.DataFrame({"noise": ["cifar10-c-fog"] * 2, "level": [0.8, 1.0], "metric": "ece", "method": "a"})
    assert [each.name for each in conditions(table.assign(value=0.1))] == ["cifar10-c-fog 0.80"]
    assert Condition("cifar10-c-fog", 1.0, one_of_several=True).name == "cifar10-c-fog 1.00"


def test_the_mean_over_levels_stands_behind_the_level_that_matters(make_tables: MakeTables) -> None:
    tables = make_tables(n_levels=4)
    shown = conditions(with_means(tables.intervals, tables.shifts))
    assert [each.noise for each in shown] == ["clean", "gaussian", "gaussian", "speckle", "speckle"]
    assert [each.level == MEAN for each in shown] == [False, False, True, False, True]
    assert shown[2].name == "gaussian, mean over levels"
    rows = shown[2].of(tables.metrics)
    assert sorted(rows["level"].unique()) == pytest.approx([1 / 3, 2 / 3, 1])


def test_scores_stand_with_half_their_interval_and_chance_without(make_tables: MakeTables) -> None:
    tables = make_tables(n_levels=3)
    at = Condition("gaussian", 0.5)
    metrics, intervals = at.of(tables.metrics), at.of(tables.intervals)
    lines = interval_lines(metrics, intervals)
    assert [line[0] for line in lines] == ["conventional", "temperature", "vbs", "mc-dropout"]
    row = dict(zip(INTERVAL_COLUMNS, lines[2], strict=True))
    of_vbs = metrics[metrics["method"] == "vbs"]
    ece = statistics.fmean(of_vbs[of_vbs["metric"] == "ece"]["value"])
    chance = statistics.fmean(of_vbs[of_vbs["metric"] == "ece_chance"]["value"])
    assert row["ece"] == f"{ece:.3f} ± 0.010"
    assert row["by chance"] == f"{chance:.3f}"


def differences(*rows: tuple[str, str, float, float, float], metric: str = "ece") -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["method", "baseline", "value", "low", "high"])
    return table.assign(metric=metric)


def test_the_best_is_marked_only_where_every_interval_supports_it() -> None:
    ahead = differences(("a", "b", -0.2, -0.3, -0.1), ("b", "a", 0.2, 0.1, 0.3))
    assert best_methods(ahead, "ece") == {"a"}
    doubtful = differences(("a", "b", -0.2, -0.5, 0.1), ("b", "a", 0.2, -0.1, 0.5))
    assert best_methods(doubtful, "ece") == set()
    one_of_two = pd.concat([ahead, differences(("a", "c", -0.1, -0.3, 0.1), ("c", "a", 0.1, -0.1, 0.3))])
    assert best_methods(one_of_two, "ece") == set()


def test_more_is_better_for_accuracy_and_nothing_for_entropy() -> None:
    rows = (("a", "b", -0.2, -0.3, -0.1), ("b", "a", 0.2, 0.1, 0.3))
    assert best_methods(differences(*rows, metric="accuracy"), "accuracy") == {"b"}
    assert best_methods(differences(*rows, metric="entropy"), "entropy") == set()


def test_methods_that_are_the_same_are_best_together_but_not_alone() -> None:
    same = [("a", "b", 0.0, 0.0, 0.0), ("b", "a", 0.0, 0.0, 0.0)]
    assert best_methods(differences(*same), "ece") == set()
    third = [(m, "c", -0.2, -0.3, -0.1) for m in "ab"] + [("c", m, 0.2, 0.1, 0.3) for m in "ab"]
    assert best_methods(differences(*same, *third), "ece") == {"a", "b"}


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
            {"noise": noise, "view": "patches", **row}
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


def test_tables_on_a_suite_have_mean_and_worst_scores_differences_families_and_severities(
    make_tables: MakeTables,
) -> None:
    shifts = make_tables(noises=("gaussian", "fog"), methods=("conventional", "vbs")).shifts
    (
        (scores, means),
        (mean_columns, mean_lines),
        (worst_columns, _),
        (families, by_family),
        (severities, by_severity),
    ) = suite_tables(shifts, "", "conventional")
    assert scores == ["method", "accuracy", "nll", "brier", "ece", "worst nll", "worst brier", "worst ece"]
    assert all(len(line) == len(scores) for line in means)
    assert mean_columns == ["Δ vs conventional", "mean nll", "mean brier", "mean ece"]
    assert worst_columns == ["Δ vs conventional", "worst nll", "worst brier", "worst ece"]
    assert [line[0] for line in mean_lines] == ["vbs"]
    assert families == ["mean ece by family", "noise", "photometric"]
    assert severities == ["mean ece by severity", "1", "2", "3", "4", "5"]
    own = shifts.query("severity == 3 and over == 'all' and statistic == 'mean' and metric == 'ece' and baseline == ''")
    assert by_severity[1][3] == f"{own.set_index('method')['value']['vbs']:.3f} ± 0.010"
    assert [line[0] for line in by_family] == ["conventional", "vbs"]
    assert suite_title(shifts, "") == "all that was swept: 10 shifts of 2 noises"


def test_what_was_tuned_under_a_family_is_summed_up_without_it(make_tables: MakeTables) -> None:
    shifts = make_tables(noises=("gaussian", "fog"), methods=("conventional", "vbs")).shifts
    photometric = shifts[(shifts["over"] == "family") & (shifts["name"] == "photometric")]
    tuned = pd.concat([shifts, photometric.assign(over="unseen", name="noise")])
    tables = {columns[0]: lines for columns, lines in suite_tables(tuned, "", "conventional")}
    assert tables["without family noise"][0][4] == tables["mean ece by family"][0][2]
    assert "without family noise" not in {columns[0] for columns, _ in suite_tables(shifts, "", "conventional")}


def test_the_worst_shift_has_a_lower_accuracy_and_higher_errors_than_the_mean(make_tables: MakeTables) -> None:
    shifts = make_tables(noises=("gaussian", "fog"), methods=("conventional",)).shifts
    [[_, *means]], [[_, *worst]] = (suite_lines(shifts, "", statistic) for statistic in ("mean", "worst"))
    accuracy, *errors = [(float(a.split()[0]), float(b.split()[0])) for a, b in zip(means, worst, strict=True)]
    assert accuracy[1] < accuracy[0]
    assert all(most > mean for mean, most in errors)


def test_a_difference_that_does_not_show_in_three_digits_has_no_star() -> None:
    def text(*numbers: float) -> str:
        return format_difference(pd.Series(dict(zip(("value", "low", "high"), numbers, strict=True))))

    assert text(2e-5, 1e-5, 3e-5) == "+0.000 [+0.000, +0.000]"
    assert text(4e-4, 1e-4, 6e-4) == "+0.000 [+0.000, +0.001] *"
    assert text(-0.008, -0.012, -0.004) == "-0.008 [-0.012, -0.004] *"
    assert text(-0.008, -0.012, 0.004) == "-0.008 [-0.012, +0.004]"
