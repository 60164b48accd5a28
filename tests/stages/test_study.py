"""The ensemble study: two ensembles of the same cached members under growing noise."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import CLASSES, SMALL
from tests.fixtures.jobs import job_in, states
from vbs_cli import Logits, score
from vbs_cli.artifacts import passes
from vbs_cli.artifacts.study import Exposure, at_ranks
from vbs_cli.errors import InvalidInput, UnknownName
from vbs_cli.metrics import METRICS
from vbs_cli.plots import FIGURES
from vbs_cli.run import layout
from vbs_cli.stages import plot
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.sweep import run_study

LEVELS = (0.0, 0.35, 0.7)
EXPOSURE = Exposure("gaussian", LEVELS)
KEYS = ["dataset", "source", "seed", "method", "noise", "level", "metric", "value"]


@pytest.fixture
def studied(workplace):
    job = job_in(workplace)
    run_study(job, EXPOSURE)
    return job


def members(job, split="test", **where):
    records = [job.run.logits(seed, split, **where) for seed in job.seeds]
    return Logits.from_members(torch.stack([record.logits for record in records]), labels=records[0].labels)


def test_both_ensembles_are_those_of_the_members_logits_in_double_precision(studied):
    """By the formulas: mean of softmaxes; softmax of the mean logits over max(sigma_bar - q75 of validation, 1)."""
    stack = np.stack([studied.run.logits(seed, noise="gaussian", level=0.7).logits.double() for seed in (0, 1)])
    val = np.stack([studied.run.logits(seed, "val").logits.double() for seed in (0, 1)])
    labels = studied.run.logits(0).labels
    softmax = np.exp(stack) / np.exp(stack).sum(2, keepdims=True)
    beta = -np.quantile(val.std(0, ddof=1).mean(1), 0.75)
    s = np.maximum(stack.std(0, ddof=1).mean(1) + beta, 1)
    tempered = np.exp(stack.mean(0) / s[:, None])
    probs = {"ensemble": softmax.mean(0), "vbs-ensemble": tempered / tempered.sum(1, keepdims=True)}
    table = studied.run.study_metrics
    for method, expected in probs.items():
        rows = table[(table["method"] == method) & (table["level"] == 0.7)].set_index("metric")["value"]
        for metric, value in score(expected, labels).items():
            assert rows[metric] == pytest.approx(value, rel=1e-4, abs=1e-6), (method, metric)


def test_the_table_has_every_level_method_and_metric_of_all_seeds_together(studied):
    table = studied.run.study_metrics
    assert list(table) == KEYS
    assert len(table) == len(LEVELS) * 2 * len(METRICS)
    assert set(table["seed"]) == {-1}
    assert list(table["level"].unique()) == list(LEVELS)
    assert set(table["noise"]) == {"gaussian"}


def test_level_zero_is_the_clean_data(studied):
    clean = evaluate(job_in_with_ensembles(studied))
    table = studied.run.study_metrics
    for method in ("ensemble", "vbs-ensemble"):
        here = table[(table["method"] == method) & (table["level"] == 0)].set_index("metric")["value"]
        there = clean[(clean["method"] == method) & (clean["noise"] == "clean")].set_index("metric")["value"]
        pd.testing.assert_series_equal(here.sort_index(), there.sort_index())


def job_in_with_ensembles(job):
    settings = replace(SMALL, methods=(*SMALL.methods, "ensemble", "vbs-ensemble"))
    return replace(job, run=replace(job.run, settings=settings))


def test_whole_distributions_of_a_few_examples_are_kept_at_every_level(studied):
    table = studied.run.study_distributions
    assert len(table) == len(LEVELS) * 2 * 5 * CLASSES
    sums = table.groupby(["method", "level", "example", "rank"])["probability"].sum()
    assert np.allclose(sums, 1)
    record = members(studied, noise="gaussian", level=0.7)
    entropy = torch.special.entr(record.mean_softmax).sum(1)
    by_rank = table[table["level"] == 0.7].groupby("rank")["example"].first()
    assert entropy[by_rank[0.0]] == entropy.min()
    assert entropy[by_rank[1.0]] == entropy.max()
    shown = table[(table["rank"] == 0.5) & (table["method"] == "ensemble") & (table["level"] == 0.7)]
    assert np.allclose(shown["probability"], record.mean_softmax[by_rank[0.5]], atol=1e-6)
    assert set(shown["label"]) == {int(record.labels[by_rank[0.5]])}


def test_examples_stand_at_the_quantiles_of_entropy():
    assert at_ranks(torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0])).tolist() == [1, 3, 4, 2, 0]
    assert at_ranks(torch.tensor([1.0])).tolist() == [0] * 5


def test_differences_have_paired_intervals(studied):
    table = studied.run.study_intervals
    assert set(table["metric"]) == {"accuracy", "kl_uniform", "ece", "brier", "entropy"}
    gap = table[(table["method"] == "vbs-ensemble") & (table["baseline"] == "ensemble")].set_index(["level", "metric"])
    own = table[table["baseline"] == ""].set_index(["method", "level", "metric"])["value"]
    for level in LEVELS:
        difference = own["vbs-ensemble", level, "brier"] - own["ensemble", level, "brier"]
        assert gap.loc[(level, "brier"), "value"] == pytest.approx(difference)
    assert (gap["low"] <= gap["value"]).all()
    assert (gap["value"] <= gap["high"]).all()


def test_the_study_runs_the_members_alone_and_only_where_they_are_not_cached(workplace, monkeypatch):
    seen = []
    real = passes.run_walk
    monkeypatch.setattr(passes, "run_walk", lambda *words: seen.extend(words[3]) or real(*words))
    run_study(job_in(workplace), Exposure("gaussian", (0.0, 0.5, 0.7)))  # the run has been swept at 0.5
    assert {(p.seed, p.view, p.level) for p in seen} == {(0, "patches", 0.7), (1, "patches", 0.7)}
    table = job_in(workplace).run.metrics
    assert 0.7 not in set(evaluate(job_in(workplace))["level"])  # MC-dropout has not passed it
    assert len(evaluate(job_in(workplace))) == len(table)


def test_again_it_is_up_to_date_and_another_option_makes_it_anew(studied, no_network):
    before = studied.run.store.written
    run_study(studied, EXPOSURE)
    assert studied.run.store.written == before
    assert states(studied)[layout.STUDY_METRICS] == "up to date"
    other = replace(SMALL, options={"vbs-ensemble": {"alpha": 4.0}})
    job = replace(studied, run=replace(studied.run, settings=other))
    assert states(job)[layout.STUDY_METRICS] == "stale"
    run_study(job, EXPOSURE)
    fitted = json.loads(job.run.store.read(layout.STUDY_METHODS))
    assert fitted["vbs-ensemble"]["alpha"] == 4.0
    assert isinstance(fitted["vbs-ensemble"]["beta"], float)


def test_a_spread_of_the_run_s_own_does_not_make_the_study_run_networks_again(workplace):
    settings = replace(SMALL, options={"vbs": {"spread": "softmax"}})
    job = job_in(workplace, settings)
    run_study(job, EXPOSURE)
    written = job.run.store.written
    run_study(job, EXPOSURE)
    assert job.run.store.written == written


def test_its_figure_is_drawn_from_its_tables(studied, no_network):
    rows = plot.plot(studied, ["ensemble-study"], ["png"])
    assert rows == [{"artifact": "figures/ensemble-study.png", "state": "drawn", "why": ""}]
    assert "ensemble-study" in FIGURES


@pytest.mark.parametrize(
    ("settings", "exposure", "message"),
    [
        (replace(SMALL, seeds=1), EXPOSURE, "an ensemble needs at least two seeds; vbs train --seeds 10"),
        (replace(SMALL, methods=("mc-dropout",)), EXPOSURE, "trains no conventional networks"),
        (SMALL, Exposure("affine", LEVELS), "affine is a noise for images"),
    ],
)
def test_what_cannot_be_studied_is_refused_with_the_cure(workplace, no_network, settings, exposure, message):
    with pytest.raises(InvalidInput, match=message):
        run_study(job_in(workplace, settings), exposure)


def test_from_the_shell_it_shows_both_and_gives_every_level_as_json(workplace, vbs):
    shown = vbs(workplace, "noise-sweep", "--study", "ensemble", "--levels", "3")
    assert shown.code == 0, shown.err
    assert "vbs-ensemble, Δ vs ensemble" in shown.out
    assert "kl_uniform" in shown.out
    found = vbs(workplace, "noise-sweep", "--study", "ensemble", "--levels", "3", "--json")
    rows = json.loads(found.out)
    assert sorted(rows["rows"][0]) == sorted(KEYS)
    assert {row["level"] for row in rows["rows"]} == set(LEVELS)
    assert {"intervals", "distributions"} <= set(rows)
    settings = (workplace / "runs/radio/run.toml").read_text()
    assert "max_level = 1.0" in settings  # those of the study are not the run's
    assert 'methods = [\n    "conventional",\n    "temperature",\n    "vbs",\n    "mc-dropout",\n]' in settings


def test_an_unknown_study_is_named(workplace, vbs):
    outcome = vbs(workplace, "noise-sweep", "--study", "ensembel")
    assert outcome.code == UnknownName("", hint="").exit_code
    assert "did you mean 'ensemble'" in outcome.err
