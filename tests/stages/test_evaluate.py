"""Scoring: intervals, ensembles from the caches, and other spreads."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from tests.conftest import SMALL
from tests.fixtures.jobs import Heard, all_numbers, enter, job_in, states
from vbs_cli import sigma_bar
from vbs_cli.artifacts.fits import fit
from vbs_cli.artifacts.passes import Pass, disk_bytes
from vbs_cli.conditions import conditions
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.logits import Logits
from vbs_cli.methods import METHODS, Method
from vbs_cli.metrics import HIGHER, METRICS, SCORES, Metric, bootstrap, scored
from vbs_cli.networks import training as loop
from vbs_cli.run import layout
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.run import run_all
from vbs_cli.stages.sweep import sweep

ENSEMBLES = ("conventional", "ensemble", "vbs-ensemble", "temperature-ensemble")


def test_a_fit_without_an_optimum_is_told(made):
    """Where every validation example is right, the best temperature is zero."""
    heard = Heard()
    labels = torch.arange(4).repeat(5)
    right = 5 * torch.eye(4)[labels][..., None].repeat(1, 1, 3) + torch.randn(20, 4, 3)
    fit(job_in(made, progress=heard), {(0, "patches"): Logits.from_patches(right, labels=labels)})
    assert heard.said == ["temperature of seed 0 found no optimum on the validation data; distrust it"]


def test_intervals_are_those_of_the_bootstrap_over_examples_and_seeds(made):
    run = job_in(made).run
    records = [run.logits(seed) for seed in (0, 1)]
    cells = {
        name: [scored(run.methods[s][name].predict_proba(r), r.labels) for s, r in enumerate(records)]
        for name in ("conventional", "vbs")
    }
    found = bootstrap(cells, metrics=["nll"])
    table = run.intervals.set_index(["noise", "level", "method", "baseline", "metric"])[["value", "low", "high"]]
    for method, baseline, expected in (
        ("vbs", "", found.interval("vbs", "nll")),
        ("vbs", "conventional", found.difference("vbs", "conventional", "nll")),
    ):
        row = table.loc["clean", 0.0, method, baseline, "nll"]
        assert tuple(row) == pytest.approx((expected.value, expected.low, expected.high), rel=1e-6, abs=1e-9)


def test_every_level_has_intervals_and_the_conditions_that_summaries_show_have_those_of_all_metrics(made):
    run = job_in(made).run
    table = run.intervals
    covered = {(n, lv) for n, lv in zip(table["noise"], table["level"], strict=True)}
    assert covered == {("clean", 0.0), *itertools.product(("gaussian", "speckle"), (0.5, 1.0))}
    shown = {(each.noise, each.level) for each in conditions(run.metrics)}
    assert len(shown) == 3
    for at, rows in table.groupby(["noise", "level"]):
        assert set(SCORES) <= set(rows["metric"])
        assert ("aurc" in set(rows["metric"])) == (at in shown)
    assert set(table["baseline"]) == {"", *SMALL.methods}
    assert not any(metric.endswith("_chance") for metric in table["metric"])
    assert (table["low"] <= table["value"]).sum() == table["low"].notna().sum()


def test_another_metric_makes_the_tables_stale(workplace, no_network, monkeypatch):
    enter(monkeypatch, METRICS, "half", Metric(lambda s: s.mean(s.correct) / 2, HIGHER))
    job = job_in(workplace)
    assert states(job)["metrics.parquet"] == "stale"
    table = evaluate(job)
    assert (table[table["metric"] == "half"]["value"].max()) <= 0.5
    assert "half" in set(job.run.intervals["metric"])


def test_ensembles_are_assembled_from_the_caches_of_all_seeds(workplace, no_network):
    job = job_in(workplace, replace(SMALL, methods=ENSEMBLES))
    table = sweep(job, ["gaussian"])
    members = [job.run.logits(seed, noise="gaussian", level=1.0) for seed in (0, 1)]
    probs = torch.stack([member.logits.softmax(1) for member in members]).mean(0)
    expected = float((probs.argmax(1) == members[0].labels).double().mean())
    rows = table[(table["level"] == 1.0) & (table["metric"] == "accuracy")].set_index(["method", "seed"])["value"]
    assert rows["ensemble", -1] == rows["temperature-ensemble", -1] == expected
    assert list(rows.index.get_level_values("seed")) == [-1, -1, -1, 0, 1]
    fitted = job.run.methods[-1]["vbs-ensemble"]
    validation = torch.stack([job.run.logits(seed, "val").logits for seed in (0, 1)])
    assert fitted.beta == pytest.approx(-np.percentile(validation.std(0).mean(1), 75), rel=1e-5)
    intervals = job.run.intervals
    assert set(intervals["method"]) == set(ENSEMBLES)


def test_an_ensemble_is_left_out_where_a_member_is_missing(workplace, no_network):
    job = job_in(workplace, replace(SMALL, methods=ENSEMBLES))
    job.run.store.remove(layout.logits(1, "conventional", "test", "gaussian", 1.0))
    table = evaluate(job)
    at = table[(table["noise"] == "gaussian") & (table["level"] == 1.0)]
    assert set(at["method"]) == {"conventional"}
    assert set(at["seed"]) == {0}


def test_an_ensemble_of_one_seed_is_refused(workplace):
    with pytest.raises(InvalidInput, match="an ensemble needs at least two seeds; --seeds 2"):
        evaluate(job_in(workplace, replace(SMALL, seeds=1, methods=ENSEMBLES)))


def test_an_ensemble_alone_needs_the_conventional_networks_and_nothing_else(workplace, no_network):
    job = job_in(workplace, replace(SMALL, methods=("ensemble",)))
    assert list(job.networks) == ["conventional"]
    table = sweep(job, ["speckle"])
    assert set(table["method"]) == {"ensemble"}
    assert set(table["seed"]) == {-1}
    run_all(job)
    assert set(job.run.intervals["method"]) == {"ensemble"}


def test_another_spread_needs_no_network_for_clean_data_and_one_for_sweeps(workplace, no_network):
    settings = replace(SMALL, options={"vbs": {"alpha": 1.0, "beta": "q50", "spread": "softmax"}})
    job = job_in(workplace, settings)
    metrics = evaluate(job)
    assert set(metrics[metrics["method"] != "mc-dropout"]["noise"]) == {"clean"}
    record = job.run.logits(0, "val")
    expected = sigma_bar(record.parts, kernel=SMALL.kernel, spread="softmax")
    assert torch.equal(record.extras["sigma_softmax"], expected)
    assert job.run.methods[0]["vbs"].beta == pytest.approx(-np.median(expected))
    with pytest.raises(VbsError, match="a network ran"):
        sweep(job, ["gaussian"])


def test_a_spread_goes_through_the_whole_run(data_only):
    options = {"vbs": {"spread": "softplus", "beta": "q50"}, "vbs-dropout": {"spread": "relu"}}
    job = job_in(data_only, replace(SMALL, methods=("vbs", "vbs-dropout"), options=options, noises=("speckle",)))
    all_numbers(job)
    assert "sigma_softplus" in job.run.logits(1, noise="speckle", level=1.0).extras
    assert "sigma_relu" in job.run.logits(1, view="draws", noise="speckle", level=1.0).extras
    assert set(job.run.metrics["method"]) == {"vbs", "vbs-dropout"}


@dataclass(frozen=True)
class Deep(Method):
    """Reads what a layer of the network did."""

    seen: float = 0.0

    @property
    def reads(self):
        return ("activations",)

    def fit(self, val):
        return replace(self, seen=val.activations[0].double().mean().item())

    def predict_proba(self, record):
        return record.logits.double().softmax(1)


def test_a_method_that_reads_activations_has_the_passes_of_its_view_leave_them(workplace, request, monkeypatch):
    monkeypatch.setattr(loop, "train", None)
    enter(monkeypatch, METHODS, "deep", Deep)
    job = job_in(workplace, replace(SMALL, methods=("conventional", "deep", "mc-dropout")))
    heard = Heard()
    evaluate(replace(job, progress=heard))
    # Two seeds and splits of the conventional network.
    assert any(said.startswith("4 forward passes: ") for said in heard.said)
    record = job.run.logits(0, "val")
    assert [len(layer) for layer in record.activations] == [60] * len(record.activations)
    assert job.run.methods[0]["deep"].seen == pytest.approx(record.activations[0].double().mean().item())
    assert not any(name.startswith("activations") for name in job.run.logits(0, "val", view="draws").extras)
    every = [Pass(seed, "patches", split) for seed in (0, 1) for split in ("val", "test")]
    taken = sum(job.run.store.entries[p.name].size for p in every)
    assert disk_bytes(job, every) < taken < disk_bytes(job, every) + 2000 * len(every)  # headers name every layer
    # Another window takes the spread again from the parts, and keeps them.
    request.getfixturevalue("no_network")
    other = job_in(workplace, replace(job.run.settings, kernel=2))
    evaluate(other)
    assert torch.equal(other.run.logits(0, "val").activations[0], record.activations[0])


@pytest.mark.parametrize("view", ["draws", "members", "augmentations"])
def test_activations_are_those_of_one_pass_of_one_network(workplace, no_network, monkeypatch, view):
    enter(monkeypatch, METHODS, "deep", Deep)
    refusal = f"deep@{view} has no activations: it is not one pass of one network; deep@patches has them"
    with pytest.raises(InvalidInput, match=refusal):
        evaluate(job_in(workplace, replace(SMALL, methods=("conventional", f"deep@{view}"))))
