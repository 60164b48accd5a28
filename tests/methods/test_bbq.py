"""Bayesian binning: the sums of the paper, written out slowly."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from netcal.binning import BBQ

from tests.methods.samples import overconfident
from vbs_cli import Logits, score
from vbs_cli.errors import InvalidInput
from vbs_cli.methods.bbq import BayesianBinning, average


def paper_bins(points, bins):
    """Sorted (p, hit) pairs in at most `bins` runs of equal length; equal p stay together."""
    runs, done = [], 0
    for b in range(1, bins + 1):
        end = math.floor(Fraction(b * len(points), bins))
        while 0 < end < len(points) and points[end][0] == points[end - 1][0]:
            end += 1
        if end > done:
            runs.append(points[done:end])
            done = end
    return runs


def paper_model(points, bins):
    """Log evidence, inner edges and bin values of one model."""
    runs = paper_bins(points, bins)
    inner = [(a[-1][0] + b[0][0]) / 2 for a, b in pairwise(runs)]
    evidence, values = 0.0, []
    for run, low, high in zip(runs, [0.0, *inner], [*inner, 1.0], strict=True):
        n, m, strength = len(run), sum(hit for _, hit in run), 2 / len(runs)
        alpha, beta = strength * (low + high) / 2, strength * (1 - (low + high) / 2)
        evidence += math.lgamma(strength) - math.lgamma(n + strength)
        evidence += math.lgamma(m + alpha) - math.lgamma(alpha)
        evidence += math.lgamma(n - m + beta) - math.lgamma(beta)
        values.append((m + alpha) / (n + strength))
    return evidence, inner, values


def paper_scores(p, hit, new, factor):
    """The average over models at each new probability."""
    points = sorted(zip(p.tolist(), hit.tolist(), strict=True))
    root = len(points) ** (1 / 3)
    most = min(math.ceil(factor * root), len({value for value, _ in points}))
    models = [paper_model(points, b) for b in range(min(most, max(1, math.floor(root / factor))), most + 1)]
    best = max(evidence for evidence, _, _ in models)
    total = sum(math.exp(evidence - best) for evidence, _, _ in models)
    scores = []
    for q in new.tolist():
        at = [values[sum(edge < q for edge in inner)] for _, inner, values in models]
        weights = [math.exp(evidence - best) / total for evidence, _, _ in models]
        scores.append(sum(w * value for w, value in zip(weights, at, strict=True)))
    return np.array(scores)


def paper_probabilities(val, test, factor):
    p, new = val.logits.double().softmax(1).numpy(), test.logits.double().softmax(1).numpy()
    columns = [paper_scores(p[:, k], (val.labels == k).numpy(), new[:, k], factor) for k in range(val.classes)]
    scores = np.stack(columns, axis=1)
    return scores / scores.sum(1, keepdims=True)


@pytest.mark.parametrize(("n", "k", "factor"), [(150, 3, 10.0), (101, 2, 4.0), (150, 3, 1.0), (7, 3, 10.0)])
def test_predictions_are_the_averages_of_the_paper(n, k, factor):
    val, test = overconfident(n=n, k=k), overconfident(n=40, k=k, seed=1)
    probs = BayesianBinning(range_factor=factor).fit(val).predict_proba(test).numpy()
    np.testing.assert_allclose(probs, paper_probabilities(val, test, factor), atol=2e-7, rtol=0)


def test_equal_probabilities_are_never_parted():
    kinds, val, test = overconfident(n=12, k=3, seed=2), overconfident(n=150, k=3), overconfident(n=40, k=3, seed=1)
    repeated = torch.randint(0, 12, (150,), generator=torch.Generator().manual_seed(0))
    val = Logits.from_logits(kinds.logits[repeated], labels=val.labels)
    probs = BayesianBinning().fit(val).predict_proba(test).numpy()
    np.testing.assert_allclose(probs, paper_probabilities(val, test, 10.0), atol=2e-7, rtol=0)


def test_the_range_of_models_is_that_of_the_paper():
    assert BayesianBinning().bin_counts(1000, distinct=1000) == range(1, 101)
    assert BayesianBinning().bin_counts(8_000_000, distinct=8_000_000) == range(20, 2001)
    assert BayesianBinning(range_factor=2.0).bin_counts(1000, distinct=1000) == range(5, 21)
    assert BayesianBinning(range_factor=2.0).bin_counts(1000, distinct=3) == range(3, 4)


def test_one_bin_gives_the_frequencies_of_the_classes_and_two_more_examples_at_a_half():
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    val = Logits.from_logits(torch.zeros(10, 3), labels=labels)
    fitted = BayesianBinning().fit(val)
    assert fitted.values == ((pytest.approx(6 / 12),), (pytest.approx(4 / 12),), (pytest.approx(3 / 12),))
    probs = fitted.predict_proba(Logits.from_logits(torch.randn(4, 3)))
    torch.testing.assert_close(probs, torch.tensor([[6, 4, 3]]).double().expand(4, 3) / 13)


def test_it_comes_nearer_to_the_truth_than_netcal_and_netcal_nearer_than_the_network():
    """Netcal weighs histograms of equal width by an information criterion, so that the numbers differ."""
    val, test = overconfident(n=1000, k=2), overconfident(n=500, k=2, seed=1)
    truth, before = (test.logits / 3).softmax(1)[:, 1].numpy(), test.logits.softmax(1)[:, 1].numpy()
    oracle = BBQ().fit(val.logits.softmax(1)[:, 1].numpy(), val.labels.numpy())
    theirs = oracle.transform(before.copy())
    ours = BayesianBinning().fit(val).predict_proba(test)[:, 1].numpy()
    far = [np.abs(found - truth).mean() for found in (ours, theirs, before)]
    assert far == sorted(far)
    assert far[0] < 0.7 * far[2]


def test_a_table_stays_small_when_examples_are_many():
    fitted = BayesianBinning().fit(overconfident(n=2000, k=20))
    for knots, values in zip(fitted.knots, fitted.values, strict=True):
        assert len(knots) == len(values) + 1 < 60
        assert (np.diff(knots) > 0).all()
        assert (knots[0], knots[-1]) == (0.0, 1.0)
        assert 0 < min(values) <= max(values) < 1


def test_bins_that_hardly_differ_become_one_with_their_mean():
    models = [np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.7, 1.0])]
    edges, mean = average(models, [np.array([1e-10, 3e-10]), np.array([1e-10, 0.8])], np.array([0.5, 0.5]))
    assert edges.tolist() == [0.0, 0.7, 1.0]
    assert mean == pytest.approx([1.5e-10, 0.4], rel=1e-6)


def test_bins_next_to_one_and_to_zero_stay_finite():
    sure = torch.tensor([[36.0, 0.0]] * 20 + [[1e5, 0.0]] * 20 + [[0.0, 1e5]] * 20, dtype=torch.float64)
    assert 1 - float(sure.softmax(1)[0, 0]) < 1e-15
    fitted = BayesianBinning().fit(Logits.from_logits(sure, labels=torch.tensor([0] * 40 + [1] * 20)))
    probs = fitted.predict_proba(Logits.from_logits(sure))
    assert torch.isfinite(probs).all()
    assert (probs.max(1).values > 0.9).all()


def test_calibrated_predictions_are_left_nearly_as_they_are():
    record = overconfident(n=20_000, factor=1.0)
    probs = BayesianBinning().fit(record).predict_proba(record)
    assert (probs - record.logits.softmax(1)).abs().mean() < 0.02


def test_overconfident_predictions_of_new_examples_become_better():
    fitted, test = BayesianBinning().fit(overconfident()), overconfident(seed=1)
    before = score(test.logits.softmax(1), test.labels)
    after = score(fitted.predict_proba(test), test.labels)
    assert after["nll"] < 0.8 * before["nll"]
    assert after["ece"] < 0.6 * before["ece"]


def test_saturated_predictions_are_split_at_their_two_values():
    plain = overconfident()
    said = plain.logits.argmax(1)
    val = Logits.from_logits(1e5 * torch.eye(4)[said], labels=plain.labels)
    probs = BayesianBinning().fit(val).predict_proba(val)
    right = (said == plain.labels).double().mean()
    assert (probs.argmax(1) == said).all()
    assert float(probs.max(1).values.mean()) == pytest.approx(float(right), abs=0.02)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e5])
@pytest.mark.parametrize("k", [2, 6])
def test_a_single_validation_example_says_little(scale, k):
    logits = scale * torch.randn(1, k, generator=torch.Generator().manual_seed(0))
    val = Logits.from_logits(logits, labels=torch.tensor([1]))
    probs = BayesianBinning().fit(val).predict_proba(val)[0]
    # Beta(1, 1) and one example: 2/3 for its class, 1/3 for each other.
    torch.testing.assert_close(probs, torch.where(torch.arange(k) == 1, 2.0, 1.0).double() / (k + 1))


def test_a_class_without_labels_becomes_unlikely_but_not_impossible():
    record = overconfident()
    some = record.labels != 2
    val = Logits.from_logits(record.logits[some], labels=record.labels[some])
    probs = BayesianBinning().fit(val).predict_proba(val)
    assert (probs[:, 2] > 0).all()
    assert probs[:, 2].mean() < 0.01


@pytest.mark.parametrize("factor", [0.0, -1.0, 0.99, math.inf, math.nan])
def test_nonsense_ranges_are_refused(factor):
    with pytest.raises(InvalidInput, match=r"range_factor is .*at least 1"):
        BayesianBinning(range_factor=factor)
