"""Means and worst values over shifts, against arithmetic by hand and intervals by numpy."""

import numpy as np
import pytest
import torch

from vbs_cli.artifacts.intervals import interval_table
from vbs_cli.metrics.bootstrap import Bootstrap, between
from vbs_cli.metrics.shifts import ALL, FAMILY, NOISE, UNSEEN, ShiftGroup, mean_over, ranked, shift_groups, worst_over

LEVELS = {"gaussian": [0.04, 0.08], "fog": [0.5, 1.0], "contrast": [1.0, 0.5]}
FAMILIES = {"gaussian": "noise", "fog": "photometric", "contrast": "photometric"}
SHIFTS = ranked(LEVELS, FAMILIES)


def groups(**options):
    return {(each.over, each.name, each.severity): each for each in shift_groups(SHIFTS, **options)}


def columns(replicates=5):
    """Accuracy, ECE and entropy under each shift: (3, 1 + R)."""
    rng = torch.Generator().manual_seed(0)
    return {shift: torch.rand(3, 1 + replicates, generator=rng, dtype=torch.float64) for shift in SHIFTS}


def test_levels_are_ranked_from_the_weakest_whatever_their_order():
    found = {(shift.noise, shift.level): shift.severity for shift in SHIFTS}
    assert found["contrast", 0.5] == found["fog", 0.5] == found["gaussian", 0.04] == 1
    assert found["contrast", 1.0] == found["gaussian", 0.08] == 2


def test_noises_families_and_all_are_groups_and_the_last_two_by_severity_too():
    found = groups()
    names = [(NOISE, noise) for noise in LEVELS]
    by_severity = [(FAMILY, "noise"), (FAMILY, "photometric"), (ALL, "")]
    assert list(found) == [(*name, 0) for name in names] + [(*name, k) for name in by_severity for k in (0, 1, 2)]
    assert {shift.noise for shift in found[FAMILY, "photometric", 1].shifts} == {"fog", "contrast"}
    assert {shift.level for shift in found[ALL, "", 2].shifts} == {0.08, 1.0}


def test_noises_with_different_numbers_of_levels_have_no_common_severities():
    uneven = ranked({**LEVELS, "fog": [0.2, 0.4, 0.6]}, FAMILIES)
    found = [(each.over, each.name, each.severity) for each in shift_groups(uneven)]
    assert (FAMILY, "noise", 2) in found
    assert (FAMILY, "photometric", 1) not in found
    assert (ALL, "", 1) not in found


def test_what_was_fitted_under_a_family_is_also_summed_up_without_it():
    assert not any(over == UNSEEN for over, _, _ in groups())
    unseen = groups(seen="noise")[UNSEEN, "noise", 0]
    assert {shift.noise for shift in unseen.shifts} == {"fog", "contrast"}
    assert not any(over == UNSEEN for over, _, _ in groups(seen="blur"))


def test_every_noise_weighs_the_same_however_many_levels_it_has():
    uneven = ranked({"gaussian": [0.1], "fog": [0.1, 0.2, 0.3]}, FAMILIES)
    values = {shift: torch.tensor([[1.0 if shift.noise == "gaussian" else 3 * shift.level]]) for shift in uneven}
    mean = mean_over(ShiftGroup(ALL, "", 0, tuple(uneven)), values)
    assert mean.item() == pytest.approx((1.0 + 0.6) / 2)


def test_the_worst_is_the_lowest_accuracy_and_the_highest_error_in_every_replicate():
    made, group = columns(), groups()[ALL, "", 0]
    worst = worst_over(group, made, ["accuracy", "ece", "entropy"])
    stacked = torch.stack(list(made.values()))
    assert torch.equal(worst[0], stacked[:, 0].min(0).values)
    assert torch.equal(worst[1], stacked[:, 1].max(0).values)
    assert worst[2].isnan().all()


def test_intervals_of_many_rows_are_those_of_each():
    rows = torch.rand(4, 3, 201, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows[1, 2, 5:9] = torch.nan
    rows[2, 0, 1:] = torch.nan
    for i in range(4):
        for j in range(3):
            replicates = rows[i, j, 1:].numpy()
            value, low, high = between(rows)[:, i, j].tolist()
            assert value == rows[i, j, 0]
            if np.isnan(replicates).all():
                assert np.isnan(low)
                assert np.isnan(high)
                continue
            expected = value + np.nanquantile(replicates - np.nanmean(replicates), [0.025, 0.975])
            assert [low, high] == pytest.approx(list(expected), rel=1e-12)


def test_a_table_of_intervals_has_each_method_by_itself_and_less_every_other():
    drawn = torch.rand(3, 2, 101, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    methods, metrics = ["a", "b", "c"], ["nll", "ece"]
    table = interval_table(drawn, methods, metrics)
    assert len(table) == 3 * 2 * 3
    found = Bootstrap({(m, n): drawn[i, j] for i, m in enumerate(methods) for j, n in enumerate(metrics)})
    for row in table.itertuples():
        if row.baseline:
            expected = found.difference(row.method, row.baseline, row.metric)
        else:
            expected = found.interval(row.method, row.metric)
        assert (row.value, row.low, row.high) == (expected.value, expected.low, expected.high)
