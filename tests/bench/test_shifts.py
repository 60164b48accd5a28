"""The bench of shifts: its rivals make the same signals, and whole suites are weighed against as many passes."""

import math

import pytest

from vbs_cli.bench.kernels import bench_kernels
from vbs_cli.bench.shifts import SUITES, signal_duels, suite_duels
from vbs_cli.data import DATASETS
from vbs_cli.data.noise import suites_for

COUNT = 5


@pytest.fixture(scope="module")
def duels():
    return {duel.kernel: duel for duel in signal_duels(COUNT)}


@pytest.mark.parametrize("kernel", ["low-pass", "reverberation", "multipath", "sampling-offset"])
def test_rivals_make_the_same_signals(duels, kernel):
    duel = duels[kernel]
    assert duel.max_diff(duel.ours(), duel.theirs()) < 1e-5
    assert f"{COUNT} x " in duel.size


def test_the_telephones_differ_only_where_a_value_lies_at_a_tie(duels):
    ours, theirs = duels["telephone"].ours(), duels["telephone"].theirs()
    assert float(((ours - theirs).abs() < 1e-4).double().mean()) > 0.99
    assert math.isnan(duels["telephone"].max_diff(ours, theirs))


def test_every_suite_is_weighed_against_a_pass_for_each_of_its_shifts(monkeypatch):
    monkeypatch.setattr("vbs_cli.bench.shifts.SUITES", {name: (suite, 2) for name, (suite, _) in SUITES.items()})
    found = list(suite_duels())
    assert len(found) == len(SUITES)
    for duel, (dataset, (suite, _)) in zip(found, SUITES.items(), strict=True):
        shifts = sum(map(len, suites_for(DATASETS[dataset].inputs[0])[suite].values()))
        assert duel.rival_runs == shifts
        assert duel.size.endswith(f", {shifts} shifts")
    [row] = bench_kernels(found[1:2])
    assert row["ratio"] == pytest.approx(row["rival_ms"] / row["ours_ms"])
