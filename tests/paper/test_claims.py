"""Each claim of the paper is seen, not seen or not tested, by the numbers of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from vbs_cli.paper.claims import Claim, claims
from vbs_cli.plots import Tables

DATASETS = ("radio", "librispeech", "cifar10", "folder")
FITTED = {"0": {"temperature": {"value": 0.95}}, "1": {"temperature": {"value": 0.97}}, "-1": {}}


def judged(tables: Tables, dataset: str, fitted: Any = FITTED) -> dict[str, Claim]:
    return {claim.number: claim for claim in claims(tables, dataset=dataset, fitted=fitted)}


def with_metric(tables: Tables, values: dict[float, float], **where: object) -> Tables:
    """The tables with one metric of one method under one noise set by level, the same in every seed."""
    metrics = tables.metrics.copy()
    chosen = pd.Series(True, index=metrics.index)
    for column, value in where.items():
        chosen &= metrics[column] == value
    metrics.loc[chosen, "value"] = metrics.loc[chosen, "level"].round(2).map(values)
    return replace(tables, metrics=metrics)


def with_difference(tables: Tables, value: float, room: float, **where: object) -> Tables:
    intervals = tables.intervals.copy()
    chosen = pd.Series(True, index=intervals.index)
    for column, wanted in where.items():
        chosen &= intervals[column] == wanted
    assert chosen.any()
    intervals.loc[chosen, ["value", "low", "high"]] = [value, value - room, value + room]
    return replace(tables, intervals=intervals)


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_claim_is_there_for_every_dataset_whatever_the_tables_hold(make_tables: MakeTables, dataset: str) -> None:
    full = judged(make_tables(), dataset)
    assert {number[0] for number in full} == set("12345678")
    empty = judged(Tables(), dataset, {})
    assert list(empty) == list(full)
    assert {claim.state for claim in empty.values()} == {"not tested"}
    assert all(claim.evidence.endswith(".") for claim in (*full.values(), *empty.values()))


def test_own_data_test_no_claim(make_tables: MakeTables) -> None:
    assert {claim.state for claim in judged(make_tables(), "folder").values()} == {"not tested"}


def test_a_claim_about_other_data_is_not_tested(make_tables: MakeTables) -> None:
    found = judged(make_tables(), "radio")["4a"]
    assert (found.state, found.evidence) == ("not tested", "About cifar10; this run is of radio.")


@pytest.mark.parametrize(
    ("value", "room", "state"), [(-0.02, 0.01, "seen"), (-0.02, 0.03, "not seen"), (0.02, 0.01, "not seen")]
)
def test_better_calibrated_needs_an_interval_below_zero(
    make_tables: MakeTables, value: float, room: float, state: str
) -> None:
    where = {"noise": "clean", "method": "vbs", "baseline": "conventional", "metric": "ece"}
    found = judged(with_difference(make_tables(), value, room, **where), "radio")["1a"]
    assert found.state == state
    assert f"difference {value:+.3f} [{value - room:+.3f}, {value + room:+.3f}]" in found.evidence
    assert ("no difference can be told" in found.evidence) == (room > abs(value))


@pytest.mark.parametrize(
    ("sigma", "claim", "state"),
    [
        ([1.0, 1.2, 1.5, 2.0, 2.2, 2.5], "2a", "seen"),
        ([1.0, 1.2, 1.1, 2.0, 2.2, 2.5], "2a", "not seen"),
        ([2.0, 1.8, 1.5, 1.2, 1.1, 1.0], "2a", "not seen"),
        ([1.0, 1.2, 1.1, 2.0, 2.2, 2.5], "4a", "seen"),  # as a whole; there the paper does not say monotonically
        ([2.0, 0.6, 0.8, 1.2, 1.5, 1.7], "3b", "seen"),
        ([2.0, 1.8, 1.5, 1.2, 1.1, 1.0], "3b", "not seen"),
        ([1.0, 1.2, 1.5, 2.0, 2.2, 2.5], "3b", "not seen"),
    ],
)
def test_where_the_spread_goes(make_tables: MakeTables, sigma: list[float], claim: str, state: str) -> None:
    levels = dict(zip([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], sigma, strict=True))
    tables = with_metric(make_tables(), levels, noise="gaussian", method="vbs", metric="sigma_bar")
    dataset = {"2": "radio", "3": "librispeech", "4": "cifar10"}[claim[0]]
    found = judged(tables, dataset)[claim]
    assert found.state == state
    assert f"{sigma[0]:.2f} without noise and {sigma[-1]:.2f} at level 1.00" in found.evidence


def test_a_spread_that_does_not_go_with_the_errors_is_not_in_line(make_tables: MakeTables) -> None:
    tables = make_tables()
    assert judged(tables, "radio")["2b"].state == "seen"
    proxy = tables.proxy.copy()
    proxy.loc[proxy["quantity"] == "rank_correlation", "value"] = -0.5
    assert judged(replace(tables, proxy=proxy), "radio")["2b"].state == "not seen"


@pytest.mark.parametrize(
    ("entropy", "overconfident", "rising"),
    [
        ([0.1, 0.3, 0.8, 1.0, 0.9, 0.8], "seen", "not seen"),
        ([0.1, 0.3, 0.5, 0.8, 1.0, 1.2], "not seen", "seen"),
        ([0.1, 0.3, 0.8, 1.4, 1.2, 1.0], "not seen", "not seen"),  # above the middle, but past its top
    ],
)
def test_entropy_under_strong_noise(
    make_tables: MakeTables, entropy: list[float], overconfident: str, rising: str
) -> None:
    tables = make_tables()
    levels = dict(zip([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], entropy, strict=True))
    for method in ("conventional", "temperature", "vbs"):
        tables = with_metric(tables, levels, noise="gaussian", method=method, metric="entropy")
    found = judged(tables, "radio")
    assert (found["5a"].state, found["5c"].state) == (overconfident, rising)


def test_a_sweep_that_was_not_made_names_its_command(make_tables: MakeTables) -> None:
    tables = make_tables(noises=("speckle",))
    found = judged(tables, "radio")["2a"]
    assert found.state == "not tested"
    assert "vbs noise-sweep --noise gaussian" in found.evidence


def test_a_method_that_the_run_lacks_leaves_its_claim_untested(make_tables: MakeTables) -> None:
    found = judged(make_tables(methods=("conventional", "temperature", "vbs")), "radio")["5e"]
    assert found.state == "not tested"
    assert "MC-dropout is not among the run's methods" in found.evidence


@pytest.mark.parametrize(("values", "state"), [((0.9, 0.95), "seen"), ((0.9, 1.05), "not seen")])
def test_sharpening_means_every_temperature_below_one(
    make_tables: MakeTables, values: tuple[float, float], state: str
) -> None:
    fitted = {str(seed): {"temperature": {"value": value}} for seed, value in enumerate(values)}
    assert judged(make_tables(), "cifar10", fitted)["1c"].state == state


def test_the_lowest_bin_must_hold_many_right_predictions(make_tables: MakeTables) -> None:
    tables = make_tables()
    assert judged(tables, "librispeech")["6"].state == "not seen"  # it is empty
    rows = tables.reliability.copy()
    lowest = (rows["bin"] == 0) & (rows["method"] == "vbs")
    rows.loc[lowest, ["count", "accuracy", "confidence"]] = [50, 0.8, 0.05]
    found = judged(replace(tables, reliability=rows), "librispeech")["6"]
    assert found.state == "seen"
    assert "150 of" in found.evidence
    assert "80 % of them are right" in found.evidence


@pytest.mark.parametrize(("smoothed", "state"), [(0.05, "seen"), (1.5, "not seen")])
def test_the_smoothed_ensemble_reaches_uniform_or_not(make_tables: MakeTables, smoothed: float, state: str) -> None:
    tables = make_tables()
    study = tables.study.copy()
    for method, kl in (("ensemble", 2.5), ("vbs-ensemble", smoothed)):
        for metric, value in (("kl_uniform", kl), ("entropy", 3.0 - kl)):
            study.loc[(study["method"] == method) & (study["metric"] == metric), "value"] = value
    found = judged(replace(tables, study=study), "librispeech")["7a"]
    assert found.state == state
    assert f"VBS ensemble {smoothed:.2f}, deep ensemble 2.50" in found.evidence


def test_costs_are_judged_at_the_paper_s_batch_only(make_tables: MakeTables) -> None:
    tables = make_tables()
    found = judged(tables, "cifar10")
    assert [found[number].state for number in ("8a", "8b", "8c", "8d")] == ["seen", "seen", "seen", "not tested"]
    other = judged(replace(tables, bench=tables.bench.assign(batch=64)), "cifar10")["8b"]
    assert other.state == "not tested"
    assert "vbs bench --batch 128" in other.evidence
    dear = tables.bench.assign(memory_ratio=3.0)
    assert judged(replace(tables, bench=dear), "cifar10")["8b"].state == "not seen"


def test_one_seed_is_said_to_be_one(make_tables: MakeTables) -> None:
    assert judged(make_tables(n_seeds=1), "radio")["2a"].evidence.endswith("(one seed).")
