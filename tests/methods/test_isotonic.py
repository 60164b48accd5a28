"""Isotonic regression: scikit-learn's, class by class."""

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression

from tests.methods.samples import of_probabilities, overconfident
from vbs_cli import Logits, score
from vbs_cli.methods.isotonic import IsotonicCalibration


def by_scikit_learn(val, test):
    """Scores of each class, before they are made to sum to one: (N, K)."""
    p, new = val.logits.double().softmax(1).numpy(), test.logits.double().softmax(1).numpy()
    labels = val.labels.numpy()
    columns = [
        IsotonicRegression(out_of_bounds="clip").fit(p[:, k], (labels == k).astype(float)).predict(new[:, k])
        for k in range(val.classes)
    ]
    return np.stack(columns, axis=1)


def ours(fitted, test):
    p = test.logits.double().softmax(1).numpy()
    return np.stack([np.interp(p[:, k], fitted.knots[k], fitted.values[k]) for k in range(test.classes)], axis=1)


def coarse(record, digits=0):
    """The same with logits rounded, so that many probabilities are equal."""
    return Logits.from_logits(record.logits.round(decimals=digits), labels=record.labels)


@pytest.mark.parametrize("factor", [0.5, 3.0, 30.0, 1e5])
@pytest.mark.parametrize("kind", ["plain", "ties", "single precision", "two classes", "few"])
def test_every_class_is_mapped_as_by_scikit_learn(factor, kind):
    n, k = (12 if kind == "few" else 800), (2 if kind == "two classes" else 4)
    val, test = overconfident(n=n, k=k, factor=factor), overconfident(n=300, k=k, factor=factor, seed=1)
    if kind == "ties":
        val, test = coarse(val), coarse(test)
    if kind == "single precision":
        val, test = Logits.from_logits(val.logits.float(), labels=val.labels), Logits.from_logits(test.logits.float())
    fitted = IsotonicCalibration().fit(val)
    oracle = by_scikit_learn(val, test)
    np.testing.assert_allclose(ours(fitted, test), oracle, atol=1e-12, rtol=0)
    rows = oracle.sum(1) > 0
    probs = fitted.predict_proba(test).numpy()[rows]
    np.testing.assert_allclose(probs, oracle[rows] / oracle[rows].sum(1, keepdims=True), atol=1e-12, rtol=0)


def test_maps_never_fall_and_stay_between_zero_and_one():
    fitted = IsotonicCalibration().fit(overconfident())
    for knots, values in zip(fitted.knots, fitted.values, strict=True):
        assert (np.diff(knots) > 0).all()
        assert (np.diff(values) >= 0).all()
        assert values[0] >= 0
        assert values[-1] <= 1 + 1e-12


def test_only_knots_that_matter_are_kept():
    fitted = IsotonicCalibration().fit(overconfident())
    for values in fitted.values:
        levels = np.unique(values, return_counts=True)[1]
        assert levels.max() <= 2
        assert len(values) < 200


def test_equal_probabilities_count_as_one_point():
    val = of_probabilities([[0.2, 0.8]] * 4 + [[0.6, 0.4]] * 2, labels=torch.tensor([0, 1, 1, 1, 0, 0]))
    fitted = IsotonicCalibration().fit(val)
    assert fitted.values[0] == (0.25, 1.0)
    halfway = fitted.predict_proba(of_probabilities([[0.4, 0.6]]))
    torch.testing.assert_close(halfway, torch.tensor([[0.625, 0.375]]).double())


def test_a_probability_beyond_the_validation_data_is_mapped_like_the_last_within():
    val = of_probabilities([[0.2, 0.8]] * 4 + [[0.6, 0.4]] * 4, labels=torch.tensor([0, 1, 1, 1, 0, 0, 0, 1]))
    probs = IsotonicCalibration().fit(val).predict_proba(of_probabilities([[0.01, 0.99], [0.2, 0.8]]))
    assert torch.equal(probs[0], probs[1])


def test_an_example_that_no_class_wants_becomes_uniform():
    rows = [[0.45, 0.549, 0.001], [0.001, 0.45, 0.549], [0.549, 0.001, 0.45]]
    fitted = IsotonicCalibration().fit(of_probabilities(rows, labels=torch.tensor([1, 2, 0])))
    probs = fitted.predict_proba(of_probabilities([[0.4, 0.35, 0.25], [0.9, 0.05, 0.05]]))
    torch.testing.assert_close(probs[0], torch.full((3,), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(probs[1], torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))


def test_calibrated_predictions_are_left_nearly_as_they_are():
    record = overconfident(n=50_000, factor=1.0)
    probs = IsotonicCalibration().fit(record).predict_proba(record)
    assert (probs - record.logits.softmax(1)).abs().mean() < 0.02


def test_overconfident_predictions_of_new_examples_become_better():
    fitted, test = IsotonicCalibration().fit(overconfident()), overconfident(seed=1)
    before = score(test.logits.softmax(1), test.labels)
    after = score(fitted.predict_proba(test), test.labels)
    assert after["ece"] < 0.5 * before["ece"]
    assert after["brier"] < before["brier"]


def test_nll_of_the_validation_data_falls():
    record = overconfident()
    after = score(IsotonicCalibration().fit(record).predict_proba(record), record.labels)["nll"]
    assert after < 0.7 * score(record.logits.softmax(1), record.labels)["nll"]


def test_constant_logits_give_the_frequencies_of_the_classes():
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    fitted = IsotonicCalibration().fit(Logits.from_logits(torch.zeros(10, 3), labels=labels))
    probs = fitted.predict_proba(Logits.from_logits(torch.randn(4, 3)))
    torch.testing.assert_close(probs, torch.tensor([[0.5, 0.3, 0.2]]).double().expand(4, 3))


def test_a_class_without_labels_is_never_predicted():
    record = overconfident()
    some = record.labels != 2
    fitted = IsotonicCalibration().fit(Logits.from_logits(record.logits[some], labels=record.labels[some]))
    probs = fitted.predict_proba(overconfident(seed=1))
    assert torch.isfinite(probs).all()
    told = probs.max(1).values > probs.min(1).values  # not the uniform rows
    assert told.double().mean() > 0.9
    assert (probs[told, 2] == 0).all()


def test_a_single_validation_example_puts_all_on_its_class():
    val = overconfident(n=1)
    probs = IsotonicCalibration().fit(val).predict_proba(overconfident(n=20, seed=1))
    assert torch.equal(probs, torch.nn.functional.one_hot(val.labels.expand(20), 4).double())
