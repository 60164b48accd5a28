"""Intervals: against scipy's bootstrap, and against how often they hold the truth."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from tests.metrics.samples import predictions
from vbs_cli import bootstrap, scored
from vbs_cli.errors import InvalidInput
from vbs_cli.metrics.bootstrap import example_weights, seed_shares


def cell(n=400, seed=0):
    """Logits (n, 5) and labels drawn from their softmax."""
    probs, labels = predictions(n, k=5, seed=seed, honest=True)
    return probs.log(), labels


def test_intervals_of_a_mean_agree_with_scipy():
    logits, labels = cell()
    ours = bootstrap({"a": [scored(logits.softmax(1), labels)]}, metrics=["nll"], replicates=4000).interval("a", "nll")
    values = torch.nn.functional.cross_entropy(logits, labels, reduction="none").numpy()
    theirs = scipy.stats.bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=0)
    assert ours.value == pytest.approx(values.mean(), rel=1e-12)
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.08 * width)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.08 * width)


def test_paired_differences_agree_with_scipy_and_are_narrower_than_unpaired_ones():
    logits, labels = cell()
    pair = {"sharp": [scored(logits.softmax(1), labels)], "soft": [scored((logits / 1.3).softmax(1), labels)]}
    found = bootstrap(pair, metrics=["brier"], replicates=4000)
    onehot = torch.eye(5, dtype=torch.float64)[labels]
    per_example = [((scale.softmax(1) - onehot) ** 2).sum(1).numpy() for scale in (logits, logits / 1.3)]
    theirs = scipy.stats.bootstrap(
        tuple(per_example), lambda a, b, axis: a.mean(axis) - b.mean(axis),
        n_resamples=4000, method="percentile", paired=True, rng=0,
    ).confidence_interval  # fmt: skip
    ours = found.difference("sharp", "soft", "brier")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.08 * (theirs.high - theirs.low))
    each = [found.interval(name, "brier") for name in pair]
    assert ours.high - ours.low < 0.5 * min(one.high - one.low for one in each)


@pytest.mark.parametrize("metric", ["accuracy", "nll", "auroc_confidence"])
def test_an_interval_holds_the_truth_as_often_as_it_claims(metric):
    truth = bootstrap({"a": [scored(*as_probs(cell(200_000, seed=99)))]}, metrics=[metric], replicates=1)
    held = 0
    for seed in range(100):
        found = bootstrap({"a": [scored(*as_probs(cell(200, seed=seed)))]}, metrics=[metric], replicates=200)
        interval = found.interval("a", metric)
        held += interval.low <= truth.interval("a", metric).value <= interval.high
    assert 88 <= held <= 99  # of 100, where 95 are expected


def as_probs(made):
    return made[0].softmax(1), made[1]


def test_the_interval_of_ece_holds_its_own_value_though_replicates_score_higher():
    found = bootstrap({"a": [scored(*as_probs(cell(150)))]}, metrics=["ece"])
    interval = found.interval("a", "ece")
    replicates = found.columns["a", "ece"][1:]
    assert replicates.mean() > 1.1 * interval.value
    assert interval.low < interval.value < interval.high


def test_values_are_means_over_seeds_and_seeds_widen_the_interval():
    logits, labels = cell()
    seeds = [scored((logits * factor).softmax(1), labels) for factor in (0.5, 1.0, 2.5)]
    several = bootstrap({"a": seeds}, metrics=["entropy"]).interval("a", "entropy")
    alone = [bootstrap({"a": [one]}, metrics=["entropy"]).interval("a", "entropy") for one in seeds]
    assert several.value == pytest.approx(np.mean([one.value for one in alone]))
    assert several.high - several.low > 2 * max(one.high - one.low for one in alone)


def test_the_same_change_in_every_seed_is_told_from_none_however_much_seeds_differ():
    logits, labels = cell()
    before = [scored((logits * factor).softmax(1), labels) for factor in (0.5, 1.0, 2.5)]
    after = [scored((logits * factor * 1.05).softmax(1), labels) for factor in (0.5, 1.0, 2.5)]
    found = bootstrap({"before": before, "after": after}, metrics=["entropy"])
    assert found.difference("after", "before", "entropy").excludes_zero
    assert not found.difference("after", "after", "entropy").excludes_zero
    one, other = found.interval("before", "entropy"), found.interval("after", "entropy")
    assert one.low < other.value < one.high


def test_an_ensemble_stands_beside_the_seeds_that_it_was_made_from():
    logits, labels = cell()
    one = scored(logits.softmax(1), labels)
    found = bootstrap({"seeds": [one, one, one], "ensemble": [one]}, metrics=["nll"])
    difference = found.difference("ensemble", "seeds", "nll")
    assert (difference.value, difference.low, difference.high) == pytest.approx((0, 0, 0), abs=1e-6)


def test_the_same_seed_gives_the_same_interval_whatever_else_is_compared():
    logits, labels = cell()
    a, b = scored(logits.softmax(1), labels), scored((logits / 2).softmax(1), labels)
    alone = bootstrap({"a": [a]}).interval("a", "ece")
    assert bootstrap({"b": [b], "a": [a]}, metrics=["nll", "ece"]).interval("a", "ece") == alone


def test_replicates_draw_as_many_examples_and_seeds_as_there_are():
    rng = torch.Generator().manual_seed(0)
    weights = torch.cat(list(example_weights(70, 50, rng)))
    assert weights.shape == (50, 70)
    assert (weights.sum(1) == 70).all()
    shares = seed_shares(3, 50, rng)
    assert shares.shape == (51, 3)
    torch.testing.assert_close(shares.sum(1), torch.ones(51, dtype=torch.float64))


def test_what_is_undefined_on_the_sample_has_no_interval():
    probs = torch.tensor([[0.9, 0.1]] * 4)
    found = bootstrap({"a": [scored(probs, [0] * 4)]}, metrics=["auroc_confidence"])
    interval = found.interval("a", "auroc_confidence")
    assert all(math.isnan(value) for value in (interval.value, interval.low, interval.high))
    assert not interval.excludes_zero


def test_what_is_not_paired_is_refused():
    logits, labels = cell()
    a = scored(logits.softmax(1), labels)
    other = scored(logits[:100].softmax(1), labels[:100])
    with pytest.raises(InvalidInput, match="different examples"):
        bootstrap({"a": [a], "b": [other]})
    with pytest.raises(InvalidInput, match="numbers of seeds"):
        bootstrap({"a": [a, a], "b": [a, a, a]})
    for nothing in ({}, {"a": []}):
        with pytest.raises(InvalidInput, match="numbers of seeds"):
            bootstrap(nothing)
    with pytest.raises(InvalidInput, match="replicates"):
        bootstrap({"a": [a]}, replicates=0)


def test_methods_drawn_one_by_one_are_paired_like_those_drawn_together():
    """Also an ensemble, which has a single seed beside several of the others."""
    several = [scored(logits.softmax(1), labels) for logits, labels in [cell()] for _ in range(3)]
    cells = {"each": several, "soft": several[::-1], "ensemble": several[:1]}
    together = bootstrap(cells, metrics=["ece", "brier"], replicates=50)
    for name, seeds in cells.items():
        alone = bootstrap({name: seeds}, metrics=["ece", "brier"], replicates=50)
        for metric in ("ece", "brier"):
            assert torch.equal(alone.columns[name, metric], together.columns[name, metric])
