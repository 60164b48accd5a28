"""Every metric against an implementation that nobody here wrote."""

import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch
from hypothesis import given
from hypothesis import strategies as st
from probmetrics.metrics import Metrics

from tests.metrics.samples import predictions
from vbs_cli import reliability_bins, score
from vbs_cli.errors import InvalidInput


@pytest.mark.parametrize("sharp", [0.2, 2.0, 8.0])
def test_scores_agree_with_scikit_learn_scipy_and_probmetrics(sharp):
    probs, labels = predictions(sharp=sharp)
    ours = score(probs, labels)
    onehot = np.eye(6)[labels]
    assert ours["accuracy"] == sklearn.metrics.accuracy_score(labels, probs.argmax(1))
    assert ours["nll"] == pytest.approx(sklearn.metrics.log_loss(labels, probs, labels=range(6)), rel=1e-12)
    assert ours["brier"] == pytest.approx(((probs.numpy() - onehot) ** 2).sum(1).mean(), rel=1e-12)
    assert ours["entropy"] == pytest.approx(scipy.stats.entropy(probs, axis=1).mean(), rel=1e-9)
    theirs = Metrics.from_names(["accuracy", "logloss", "brier"]).compute_all_from_labels_probs(labels, probs)
    for name, value in zip(("accuracy", "nll", "brier"), theirs.values(), strict=True):
        assert ours[name] == pytest.approx(float(value), rel=1e-5)
    uniform = np.full_like(onehot, 1 / 6)
    assert ours["kl_uniform"] == pytest.approx(scipy.stats.entropy(probs.numpy(), uniform, axis=1).mean(), rel=1e-9)


def test_nll_is_that_of_log_probabilities_not_of_a_softmax_of_probabilities():
    probs, labels = predictions(sharp=8.0)
    wrong = float(torch.nn.functional.cross_entropy(probs, labels))
    assert abs(score(probs, labels)["nll"] - wrong) > 0.1


def test_the_last_incomplete_batch_counts():
    probs, labels = predictions(n=130)
    assert score(probs, labels)["accuracy"] * 130 == pytest.approx(int((probs.argmax(1) == labels).sum()))


def test_certain_and_wrong_is_finite():
    result = score(torch.tensor([[1.0, 0.0]]), [1])
    assert result["nll"] == pytest.approx(708.4, abs=0.1)
    assert all(math.isfinite(value) for value in result.values())


def test_uniform_predictions_have_entropy_log_k_and_no_divergence():
    result = score(torch.full((8, 4), 0.25), torch.arange(8) % 4)
    assert result["entropy"] == pytest.approx(math.log(4))
    assert result["kl_uniform"] == pytest.approx(0, abs=1e-12)
    assert result["ece"] == pytest.approx(0, abs=1e-12)


@given(st.integers(0, 100), st.integers(1, 20))
def test_bins_are_closed_on_the_right_and_lose_no_example(seed, n_bins):
    probs, labels = predictions(n=50, seed=seed)
    bins = reliability_bins(probs, labels, n_bins=n_bins)
    assert int(bins.count.sum()) == 50
    confidence = probs.max(1).values
    for i in range(n_bins):
        inside = (confidence > bins.edges[i]) & (confidence <= bins.edges[i + 1])
        assert int(inside.sum()) == int(bins.count[i])
        if inside.any():
            assert float(bins.accuracy[i]) == pytest.approx(float((probs.argmax(1) == labels)[inside].double().mean()))
            assert float(bins.confidence[i]) == pytest.approx(float(confidence[inside].mean()))
        else:
            assert math.isnan(float(bins["accuracy"][i]))


def test_an_edge_belongs_to_the_bin_below():
    probs = torch.tensor([[0.5, 0.5], [0.6, 0.4]], dtype=torch.float64)
    assert reliability_bins(probs, [0, 0], n_bins=10).count.tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]


def test_the_order_of_the_examples_does_not_matter():
    probs, labels = predictions()
    turned = torch.randperm(500, generator=torch.Generator().manual_seed(3))
    assert score(probs, labels) == pytest.approx(score(probs[turned], labels[turned]), rel=1e-12)


def test_bins_must_be_at_least_one():
    with pytest.raises(InvalidInput, match="n_bins"):
        reliability_bins(*predictions(), n_bins=0)
