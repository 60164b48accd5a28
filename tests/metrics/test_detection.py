"""Errors found by doubt, against scikit-learn and the definitions written out."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from tests.metrics.samples import predictions
from vbs_cli import error_detection, score, scored
from vbs_cli.errors import InvalidInput, NotFinite
from vbs_cli.metrics import risk_coverage


def doubts(n=300, seed=0, levels=None):
    rng = np.random.default_rng(seed)
    doubt = rng.normal(size=n)
    errors = (doubt + rng.normal(size=n) > 1).astype(int)
    return (doubt if levels is None else np.round(doubt * levels) / levels), errors


@pytest.mark.parametrize("levels", [None, 8, 1])
def test_auroc_and_fpr95_agree_with_scikit_learn_with_ties_and_without(levels):
    doubt, errors = doubts(levels=levels)
    ours = error_detection(doubt, errors)
    assert ours["auroc"] == pytest.approx(roc_auc_score(errors, doubt), abs=1e-12)
    false_alarms, found, _ = roc_curve(errors, doubt, drop_intermediate=False)
    assert ours["fpr95"] == pytest.approx(false_alarms[np.argmax(found >= 0.95 - 1e-12)], abs=1e-12)


def test_aurc_is_the_mean_error_rate_over_coverages():
    doubt, errors = doubts()
    ordered = errors[np.argsort(doubt)]
    expected = (ordered.cumsum() / np.arange(1, len(ordered) + 1)).mean()
    assert error_detection(doubt, errors)["aurc"] == pytest.approx(expected, abs=1e-12)


def test_aurc_with_ties_is_the_mean_over_their_orders():
    doubt, errors = doubts(n=40, levels=1)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4000):
        ordered = errors[np.lexsort((rng.random(40), doubt))]
        drawn.append((ordered.cumsum() / np.arange(1, 41)).mean())
    told = error_detection(doubt, errors)["aurc"]
    assert told == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / math.sqrt(4000))


def test_a_perfect_doubt_finds_every_error_and_an_inverted_one_none():
    errors = np.array([0] * 60 + [1] * 40)
    assert error_detection(errors, errors) == {
        "auroc": 1.0,
        "fpr95": 0.0,
        "aurc": pytest.approx(sum((k - 60) / k for k in range(61, 101)) / 100),
    }
    inverted = error_detection(-errors, errors)
    assert (inverted["auroc"], inverted["fpr95"]) == (0.0, 1.0)


def test_a_constant_doubt_is_worth_nothing():
    errors = np.array([0, 1, 0, 0, 1])
    assert error_detection(np.ones(5), errors) == {"auroc": 0.5, "fpr95": 1.0, "aurc": pytest.approx(0.4)}


@given(st.integers(0, 1000), st.floats(0.1, 10), st.floats(-5, 5))
def test_only_the_order_of_the_doubt_counts(seed, scale, shift):
    doubt, errors = doubts(n=50, seed=seed)
    before, after = error_detection(doubt, errors), error_detection(np.tanh(doubt) * scale + shift, errors)
    assert after == pytest.approx(before, nan_ok=True)


def test_without_errors_or_without_right_predictions_there_is_nothing_to_tell_apart():
    none, every = error_detection([0.1, 0.2], [0, 0]), error_detection([0.1, 0.2], [1, 1])
    assert math.isnan(none["auroc"])
    assert math.isnan(none["fpr95"])
    assert none["aurc"] == 0
    assert math.isnan(every["auroc"])
    assert math.isnan(every["fpr95"])
    assert every["aurc"] == pytest.approx(1)


def test_the_registered_metrics_rank_by_confidence_entropy_and_sigma():
    probs, labels = predictions()
    sigma = torch.rand(500, generator=torch.Generator().manual_seed(0))
    errors = (probs.argmax(1) != labels).numpy()
    told = score(probs, labels, metrics=["auroc_confidence", "auroc_entropy", "auroc_sigma", "aurc"], sigma=sigma)
    entropy = -(probs * probs.log()).sum(1)
    assert told["auroc_confidence"] == pytest.approx(roc_auc_score(errors, -probs.amax(1)), abs=1e-12)
    assert told["auroc_entropy"] == pytest.approx(roc_auc_score(errors, entropy), abs=1e-9)
    assert told["auroc_sigma"] == pytest.approx(roc_auc_score(errors, sigma), abs=1e-12)
    assert told["aurc"] == pytest.approx(error_detection(-probs.amax(1), errors)["aurc"])


@pytest.mark.parametrize(
    ("doubt", "errors", "kind"),
    [
        ([0.1, 0.2], [0, 2], InvalidInput),
        ([0.1], [0, 1], InvalidInput),
        ([], [], InvalidInput),
        ([0.1, math.nan], [0, 1], NotFinite),
        (None, [0, 1], InvalidInput),
    ],
)
def test_nonsense_is_refused(doubt, errors, kind):
    with pytest.raises(kind):
        error_detection(doubt, errors)


def risks_written_out(confidence, errors, points):
    """The mean error among the first k, where of a group of equals that is cut a share counts."""
    n = len(errors)
    risks = []
    for step in range(1, points + 1):
        room = kept = math.ceil(step * n / points)
        found = 0.0
        for level in sorted(set(confidence), reverse=True):
            group = errors[confidence == level]
            taken = min(room, len(group))
            found += taken * group.mean()
            room -= taken
        risks.append(found / kept)
    return risks


@pytest.mark.parametrize("digits", [None, 1, 0])
@pytest.mark.parametrize("points", [1, 7, 50, 500, 1000])
def test_risk_coverage_is_the_error_rate_among_the_most_confident(digits, points):
    probs, labels = predictions()
    if digits is not None:  # two classes, so that rounded probabilities still sum to one
        first = torch.round(probs[:, :1] * 0.98 + 0.01, decimals=digits)
        probs, labels = torch.cat([first, 1 - first], dim=1), (labels > 0).long()
    coverage, risk = risk_coverage(scored(probs, labels), points)
    errors = (probs.max(1).indices != labels).double().numpy()
    assert coverage.dtype == risk.dtype == torch.float64
    assert coverage.tolist() == pytest.approx([k / points for k in range(1, points + 1)])
    assert risk.tolist() == pytest.approx(risks_written_out(probs.amax(1).numpy(), errors, points), abs=1e-12)
    assert risk[-1] == pytest.approx(errors.mean(), abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_with_a_point_per_example_the_mean_risk_is_aurc(ties):
    probs, labels = predictions()
    if ties:
        probs = probs[torch.arange(500) // 10 * 10]
    _, risk = risk_coverage(scored(probs, labels), 500)
    assert float(risk.mean()) == pytest.approx(score(probs, labels, metrics=["aurc"])["aurc"], abs=1e-12)


def test_risk_is_zero_where_all_is_right_and_one_where_all_is_wrong():
    probs, _ = predictions()
    right = probs.argmax(1)
    assert risk_coverage(scored(probs, right))[1].tolist() == [0.0] * 50
    assert risk_coverage(scored(probs, (right + 1) % 6))[1].tolist() == [1.0] * 50
