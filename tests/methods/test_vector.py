"""Vector scaling: the optimum that scipy and scikit-learn find, and its limits."""

import math

import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy

from vbs_cli import Logits, score
from vbs_cli.methods.convex import LARGEST
from vbs_cli.methods.vector import VectorScaling

WEIGHTS = torch.tensor([0.3, 0.5, 0.8, 0.4], dtype=torch.float64)
BIASES = torch.tensor([1.0, -0.5, 0.0, -0.5], dtype=torch.float64)


def drawn(n=1500, k=4, seed=0):
    """Logits and labels drawn from their softmax."""
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=rng, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)


def skewed(n=1500, seed=0):
    """Logits that WEIGHTS and BIASES would calibrate."""
    logits, labels = drawn(n, len(WEIGHTS), seed)
    return Logits.from_logits((logits - BIASES) / WEIGHTS, labels=labels)


def nll(method, record):
    return score(method.predict_proba(record), record.labels)["nll"]


def scipy_nll(record):
    """The least NLL by a general minimiser with slopes from autograd."""
    k = record.classes

    def objective(point):
        theta = torch.tensor(point, requires_grad=True)
        loss = cross_entropy(record.logits * theta[:k] + theta[k:], record.labels)
        loss.backward()
        return loss.item(), theta.grad.numpy()

    start = torch.cat([torch.ones(k), torch.zeros(k)]).double().numpy()
    return minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9}).fun


def test_nobody_finds_a_lower_nll():
    fitted, record = VectorScaling().fit(skewed()), skewed()
    assert fitted.converged
    assert nll(fitted, record) == pytest.approx(scipy_nll(record), abs=1e-10)


def test_of_two_classes_it_is_the_logistic_regression_of_scikit_learn():
    logits, labels = drawn(k=2)
    record = Logits.from_logits(3 * logits + torch.tensor([1.0, 0.0]), labels=labels)
    oracle = LogisticRegression(C=math.inf, tol=1e-10, max_iter=10_000).fit(record.logits.numpy(), labels.numpy())
    ours = VectorScaling().fit(record).predict_proba(record)
    torch.testing.assert_close(ours, torch.from_numpy(oracle.predict_proba(record.logits.numpy())), atol=1e-6, rtol=0)


def test_it_recovers_the_map_that_the_labels_were_drawn_from():
    fitted = VectorScaling().fit(skewed(n=50_000))
    torch.testing.assert_close(torch.tensor(fitted.weights).double(), WEIGHTS, atol=0.03, rtol=0)
    torch.testing.assert_close(torch.tensor(fitted.biases).double(), BIASES, atol=0.08, rtol=0)


def test_calibrated_logits_are_left_nearly_as_they_are():
    logits, labels = drawn(n=50_000)
    fitted = VectorScaling().fit(Logits.from_logits(logits, labels=labels))
    torch.testing.assert_close(torch.tensor(fitted.weights), torch.ones(4), atol=0.04, rtol=0)
    torch.testing.assert_close(torch.tensor(fitted.biases), torch.zeros(4), atol=0.06, rtol=0)


def test_overconfident_predictions_of_new_examples_become_better():
    (a, y), (b, z) = drawn(seed=0), drawn(seed=1)
    test = Logits.from_logits(4 * b, labels=z)
    before = score(test.logits.softmax(1), z)
    after = score(VectorScaling().fit(Logits.from_logits(4 * a, labels=y)).predict_proba(test), z)
    assert after["nll"] < 0.7 * before["nll"]
    assert after["ece"] < 0.5 * before["ece"]


@pytest.mark.parametrize(("scale", "shift"), [(1e5, 0.0), (0.1, 300.0), (1e3, -1e6)])
def test_another_unit_or_origin_of_one_class_changes_no_prediction(scale, shift):
    record = skewed()
    moved = record.logits.clone()
    moved[:, 1] = scale * moved[:, 1] + shift
    other = Logits.from_logits(moved, labels=record.labels)
    fitted = VectorScaling().fit(other)
    assert fitted.converged
    ours = VectorScaling().fit(record).predict_proba(record)
    torch.testing.assert_close(fitted.predict_proba(other), ours, atol=1e-5, rtol=0)


def test_the_biases_of_a_class_without_labels_end_somewhere_and_say_so():
    record = skewed()
    some = record.labels != 2
    partial = Logits.from_logits(record.logits[some], labels=record.labels[some])
    fitted = VectorScaling().fit(partial)
    assert fitted.converged is False
    assert fitted.predict_proba(partial)[:, 2].max() < 1e-3
    without = Logits.from_logits(partial.logits[:, [0, 1, 3]], labels=(partial.labels - (partial.labels > 2).long()))
    assert nll(fitted, partial) == pytest.approx(scipy_nll(without), abs=1e-5)


@pytest.mark.parametrize("scale", [2.0, 5.0, 1e5])
def test_a_validation_set_without_errors_keeps_the_weights_finite_and_says_so(scale):
    record = Logits.from_logits(scale * torch.eye(4).repeat(3, 1), labels=torch.arange(4).repeat(3))
    fitted = VectorScaling().fit(record)
    assert fitted.converged is False
    assert max(abs(w) for w in fitted.weights) <= LARGEST
    assert nll(fitted, record) <= 1e-6


def test_logits_too_small_for_the_bounds_say_so():
    logits, labels = drawn()
    fitted = VectorScaling().fit(Logits.from_logits(1e-4 * logits, labels=labels))
    assert fitted.converged is False
    assert max(fitted.weights) == pytest.approx(LARGEST)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e5])
@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("k", [2, 6])
def test_nll_never_rises_above_that_of_the_network(scale, n, k):
    for seed in range(3):
        rng = torch.Generator().manual_seed(seed)
        labels = torch.randint(0, k, (n,), generator=rng)
        record = Logits.from_logits(scale * torch.randn(n, k, generator=rng), labels=labels)
        fitted = VectorScaling().fit(record)
        assert all(math.isfinite(value) for value in (*fitted.weights, *fitted.biases))
        assert nll(fitted, record) <= float(cross_entropy(record.logits.double(), labels))


def test_constant_logits_learn_the_frequencies_of_the_classes():
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    record = Logits.from_logits(torch.full((10, 3), 7.0), labels=labels)
    probs = VectorScaling().fit(record).predict_proba(record)
    torch.testing.assert_close(probs[0], torch.tensor([0.5, 0.3, 0.2]).double(), atol=1e-6, rtol=0)


def test_a_bias_on_its_way_to_infinity_is_not_called_converged():
    zeros, labels = torch.zeros(10, 3), torch.tensor([0] * 5 + [1] * 5)
    assert VectorScaling().fit(Logits.from_logits(zeros, labels=labels)).converged is False
    assert VectorScaling().fit(Logits.from_logits(zeros[:, :2], labels=labels)).converged is True
