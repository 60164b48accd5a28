"""The verdict says what the numbers say, whichever way they go."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from vbs_cli.report.verdict import Verdict, verdict

COLUMNS = ["noise", "level", "method", "baseline", "metric", "value", "low", "high"]


def pair(
    before: float, after: float, room: float, *, noise: str = "gaussian", level: float = 0.5, metric: str = "ece"
) -> pd.DataFrame:
    """Intervals of both methods and of their difference, `room` to either side of it."""
    apart = after - before
    rows = [
        (noise, level, "conventional", "", metric, before, before - 0.1, before + 0.1),
        (noise, level, "vbs", "", metric, after, after - 0.1, after + 0.1),
        (noise, level, "vbs", "conventional", metric, apart, apart - room, apart + room),
        (noise, level, "conventional", "vbs", metric, -apart, -apart - room, -apart + room),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def rival(method: str, value: float, to_vbs: tuple[float, float], noise: str = "gaussian") -> pd.DataFrame:
    """A third method with the interval of its difference from the smoothed one."""
    rows = [
        (noise, 0.5, method, "", "ece", value, value - 0.1, value + 0.1),
        (noise, 0.5, method, "vbs", "ece", sum(to_vbs) / 2, *to_vbs),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def sigmas(values: Sequence[float], noise: str = "gaussian", n_seeds: int = 2) -> pd.DataFrame:
    """`sigma_bar` of the smoothed model at evenly spaced levels, the same in every seed."""
    rows = [
        (seed, "vbs", noise, i / max(len(values) - 1, 1), "sigma_bar", value)
        for seed, (i, value) in itertools.product(range(n_seeds), enumerate(values))
    ]
    return pd.DataFrame(rows, columns=["seed", "method", "noise", "level", "metric", "value"])


def judged(*intervals: pd.DataFrame, sigma: Sequence[float] = ()) -> Verdict:
    return verdict(sigmas(sigma), pd.concat(intervals))


def test_an_interval_below_zero_is_better() -> None:
    found = judged(pair(0.31, 0.12, 0.05))
    assert found.findings[0].tone == "better"
    assert found.findings[0].text == (
        "Under gaussian noise at 0.50 variance-based smoothing lowers ECE "
        "from 0.310 to 0.120 (paired difference -0.190 [-0.240, -0.140])."
    )
    assert found.lead == (
        "Variance-based smoothing lowers ECE under gaussian noise at 0.50 "
        "from 0.310 to 0.120 (paired difference -0.190 [-0.240, -0.140])."
    )


def test_an_interval_above_zero_is_worse() -> None:
    found = judged(pair(0.1, 0.3, 0.05))
    assert found.findings[0].tone == "worse"
    assert "raises ECE from 0.100 to 0.300" in found.findings[0].text
    assert found.lead.startswith("Variance-based smoothing raises ECE under gaussian noise at 0.50 from 0.100 to 0.300")


def test_an_interval_around_zero_tells_no_difference_however_far_the_means_are_apart() -> None:
    found = judged(pair(0.3, 0.1, 0.25))
    assert found.findings[0].tone == "same"
    assert "ECE is 0.300 without and 0.100 with" in found.findings[0].text
    assert "no difference can be told (paired difference -0.200 [-0.450, +0.050])" in found.findings[0].text
    assert found.lead == "Variance-based smoothing makes no difference to ECE under gaussian noise at 0.50."


def test_a_difference_that_three_digits_cannot_show_is_none() -> None:
    assert judged(pair(0.25, 0.2497, 0.0001)).findings[0].tone == "same"


def test_the_lead_names_each_outcome_once_and_clean_data_come_first() -> None:
    found = judged(
        pair(0.4, 0.2, 0.01), pair(0.4, 0.5, 0.01, noise="speckle"), pair(0.1, 0.1, 0.01, noise="clean", level=0.0)
    )
    assert [each.condition for each in found.findings] == ["clean", "gaussian 0.50", "speckle 0.50"]
    assert found.lead == (
        "Variance-based smoothing lowers ECE under gaussian noise at 0.50 from 0.400 to 0.200 "
        "(paired difference -0.200 [-0.210, -0.190]); "
        "raises ECE under speckle noise at 0.50 from 0.400 to 0.500 (paired difference +0.100 [+0.090, +0.110]); "
        "on clean data no difference can be told."
    )


def test_nll_stands_beside_ece() -> None:
    found = judged(pair(0.3, 0.1, 0.01), pair(1.5, 1.2, 0.1, metric="nll"))
    assert "NLL goes from 1.500 to 1.200 (paired difference -0.300 [-0.400, -0.200])." in found.findings[0].details
    found = judged(pair(0.3, 0.1, 0.01), pair(1.5, 1.2, 0.5, metric="nll"))
    assert "NLL is 1.500 and 1.200: no difference can be told" in found.findings[0].details


def test_a_better_rival_is_named_and_a_doubtful_one_so_called() -> None:
    both = pair(0.3, 0.2, 0.01)
    assert (
        "Lowest ECE here: MC-dropout, 0.100."
        in judged(both, rival("mc-dropout", 0.1, (-0.2, -0.05))).findings[0].details
    )
    doubtful = judged(both, rival("mc-dropout", 0.19, (-0.05, 0.03))).findings[0].details
    assert "Lowest ECE here: MC-dropout, 0.190, not told from the smoothed one." in doubtful
    assert (
        "No other method has a lower ECE here."
        in judged(both, rival("mc-dropout", 0.4, (0.1, 0.3))).findings[0].details
    )


@pytest.mark.parametrize(
    ("sigma", "words", "warned"),
    [
        ([1.5, 2.0, 2.4, 3.0], "sigma_bar rises with the noise, from 1.50 to 3.00 at level 1.00", False),
        ([1.53, 1.0, 0.6, 0.47], "sigma_bar falls with the noise, from 1.53 to 0.47 at level 1.00", True),
        ([2.0, 0.6, 1.1, 1.7], "sigma_bar falls with the noise", True),
        ([2.0, 0.6, 1.7, 2.6], "sigma_bar neither rises nor falls clearly", False),
    ],
)
def test_sigma_bar_is_judged_against_its_clean_value(sigma: list[float], words: str, warned: bool) -> None:
    found = judged(pair(0.3, 0.1, 0.01), sigma=sigma)
    assert words in found.findings[0].details
    assert ("sigma_bar falls under gaussian noise" in found.lead) == warned


def test_one_level_of_one_seed_does_not_hide_a_fall() -> None:
    falling, other = sigmas([2.0, *[1.0] * 10], n_seeds=2), sigmas([2.0, 2.1, *[1.0] * 9], n_seeds=1).assign(seed=2)
    found = verdict(pd.concat([falling, other]), pair(0.3, 0.1, 0.01))
    assert "sigma_bar falls under gaussian noise" in found.lead


def test_without_both_methods_there_is_no_verdict(make_tables: MakeTables) -> None:
    tables = make_tables(methods=("conventional", "mc-dropout"))
    found = verdict(tables.metrics, tables.intervals)
    assert found.lead.startswith("No verdict")
    assert not found.findings


SIX = ("gaussian", "speckle", "fog", "contrast", "jpeg", "elastic")


def test_many_noises_are_judged_together_and_apart_only_where_smoothing_makes_a_difference(
    make_tables: MakeTables,
) -> None:
    tables = make_tables(noises=SIX)
    untold = tables.shifts["name"].isin(["fog", "jpeg"]) & (tables.shifts["over"] == "noise")
    shifts = tables.shifts.copy()
    shifts.loc[untold, ["low", "high"]] = [-1.0, 1.0]
    found = verdict(tables.metrics, tables.intervals, shifts)
    own = shifts.query("over == 'all' and severity == 0 and metric == 'ece' and baseline == ''")
    values = own.set_index(["statistic", "method"])["value"]
    assert (
        f"over 30 shifts of 6 noises from {values['mean', 'conventional']:.3f} to {values['mean', 'vbs']:.3f}"
        in found.lead
    )
    assert not any(f"under {noise} noise on average" in found.lead for noise in SIX)
    texts = [each.text for each in found.findings]
    assert texts[0].startswith("On clean data")
    assert texts[1].startswith("Over 30 shifts of 6 noises variance-based smoothing lowers ECE")
    at_worst = f"from {values['worst', 'conventional']:.3f} to {values['worst', 'vbs']:.3f}"
    assert f"At worst ECE goes {at_worst}" in found.findings[1].details
    assert [text.split(" noise ")[0] for text in texts[2:-1]] == [
        f"Under {noise}" for noise in ("gaussian", "speckle", "contrast", "elastic")
    ]
    assert texts[-1] == "Under fog and jpeg noise no difference in ECE can be told, on average over the levels."


def test_a_suite_is_named_where_the_verdict_is_on_it(make_tables: MakeTables) -> None:
    tables = make_tables(noises=SIX)
    shifts = pd.concat([tables.shifts, tables.shifts.assign(suite="weather")])
    assert "over 30 shifts of 6 noises (suite weather)" in verdict(tables.metrics, tables.intervals, shifts).lead


def test_few_noises_are_judged_one_by_one_on_average_over_their_levels(make_tables: MakeTables) -> None:
    tables = make_tables()
    lead = verdict(tables.metrics, tables.intervals, tables.shifts).lead
    assert "under gaussian noise on average over its levels" in lead
    assert "shifts" not in lead
