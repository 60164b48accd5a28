"""Dirichlet calibration: the optimum that scipy and scikit-learn find, and what its penalties do."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import OptimizeResult, check_grad, minimize
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy

from vbs_cli import Logits, score
from vbs_cli.errors import InvalidInput
from vbs_cli.methods import convex
from vbs_cli.methods.convex import LARGEST, Problem
from vbs_cli.methods.dirichlet import GRID, HELD_OUT, DirichletCalibration
from vbs_cli.methods.vector import VectorScaling


def overconfident(n=1200, k=4, factor=3.0, seed=0):
    """Logits whose labels were drawn from their softmax, then multiplied and mixed a little between classes."""
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    mixed = logits + 0.3 * logits.roll(1, dims=1) * torch.arange(k) / k
    return Logits.from_logits(factor * mixed, labels=labels)


def objective(record, matrix, biases, odir, mu):
    """The definition, entry by entry."""
    k = record.classes
    nll = cross_entropy(record.logits.log_softmax(1) @ matrix.T + biases, record.labels)
    off = sum(matrix[i, j] ** 2 for i in range(k) for j in range(k) if i != j) / (k * (k - 1))
    return nll + odir * off + mu * (biases**2).sum() / k


def by_scipy(record, odir, mu):
    """Matrix and biases from a general minimiser with slopes from autograd."""
    k = record.classes

    def value(point):
        theta = torch.tensor(point, requires_grad=True)
        loss = objective(record, theta[: k * k].view(k, k), theta[k * k :], odir, mu)
        loss.backward()
        return loss.item(), theta.grad.numpy()

    start = torch.cat([torch.eye(k).flatten(), torch.zeros(k)]).double().numpy()
    found = torch.from_numpy(minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x)
    return found[: k * k].view(k, k), found[k * k :]


def numbers(fitted):
    return torch.tensor(fitted.matrix, dtype=torch.float64), torch.tensor(fitted.biases, dtype=torch.float64)


def nll(method, record):
    return score(method.predict_proba(record), record.labels)["nll"]


@pytest.mark.parametrize(("odir", "mu"), [(1e-2, None), (1e-2, 1.0), (3.0, 1e-3), (0.3, 30.0)])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_matrix_and_biases_are_those_that_scipy_finds(odir, mu, k):
    record = overconfident(n=400, k=k)
    fitted = DirichletCalibration(odir=odir, mu=mu).fit(record)
    weight = odir if mu is None else mu
    oracle = by_scipy(record, odir, weight)
    assert fitted.converged
    ours, theirs = objective(record, *numbers(fitted), odir, weight), objective(record, *oracle, odir, weight)
    assert float(ours) == pytest.approx(float(theirs), abs=1e-10)
    for mine, his in zip(numbers(fitted), oracle, strict=True):
        torch.testing.assert_close(mine, his, atol=1e-4, rtol=0)


def test_without_penalties_it_is_the_logistic_regression_of_scikit_learn():
    record = overconfident()
    features = record.logits.log_softmax(1).numpy()
    oracle = LogisticRegression(C=math.inf, tol=1e-9, max_iter=10_000).fit(features, record.labels.numpy())
    fitted = DirichletCalibration(odir=0.0).fit(record)
    assert fitted.converged
    theirs = torch.from_numpy(oracle.predict_proba(features))
    torch.testing.assert_close(fitted.predict_proba(record), theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("full", [False, True])
def test_slopes_are_those_of_finite_differences(full):
    record = overconfident(n=50)
    problem = Problem.of(record.logits.log_softmax(1), record.labels, full=full, odir=0.4, mu=0.7)
    start = problem.start(2.0)
    point = start + np.random.default_rng(0).normal(size=start.shape)
    error = check_grad(lambda x: problem.value_and_slope(x)[0], lambda x: problem.value_and_slope(x)[1], point)
    assert error < 1e-5


def test_a_large_odir_leaves_only_the_diagonal_which_is_vector_scaling_of_log_probabilities():
    record = overconfident()
    fitted = DirichletCalibration(odir=1e7, mu=0.0).fit(record)
    matrix, _ = numbers(fitted)
    assert fitted.converged
    assert (matrix - matrix.diag().diag()).abs().max() < 1e-5
    assert matrix.diag().min() > 0.1
    log_p = Logits.from_logits(record.logits.log_softmax(1), labels=record.labels)
    ours = VectorScaling().fit(log_p).predict_proba(log_p)
    torch.testing.assert_close(fitted.predict_proba(record), ours, atol=1e-4, rtol=0)


def test_a_large_mu_leaves_no_biases():
    record = overconfident()
    fitted = DirichletCalibration(odir=1e-2, mu=1e6).fit(record)
    assert fitted.converged
    assert numbers(fitted)[1].abs().max() < 1e-5
    assert numbers(DirichletCalibration(odir=1e-2, mu=0.0).fit(record))[1].abs().max() > 0.05


def test_mu_is_odir_unless_given():
    record = overconfident()
    one, other = DirichletCalibration(odir=0.5).fit(record), DirichletCalibration(odir=0.5, mu=0.5).fit(record)
    assert (one.matrix, one.biases) == (other.matrix, other.biases)
    assert one.biases != DirichletCalibration(odir=0.5, mu=0.0).fit(record).biases


def test_calibrated_predictions_are_left_nearly_as_they_are():
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(50_000, 4, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    record = Logits.from_logits(logits, labels=labels)
    probs = DirichletCalibration().fit(record).predict_proba(record)
    assert (probs - logits.softmax(1)).abs().mean() < 5e-3


def test_classes_that_the_network_mistakes_for_each_other_are_put_right():
    record = overconfident()
    swapped = Logits.from_logits(record.logits[:, [1, 0, 2, 3]], labels=record.labels)
    probs = DirichletCalibration().fit(swapped).predict_proba(swapped)
    right = (record.logits.argmax(1) == record.labels).double().mean()
    assert (swapped.logits.argmax(1) == record.labels).double().mean() < 0.6 * right
    assert (probs.argmax(1) == record.labels).double().mean() > 0.95 * right


def test_renumbered_classes_renumber_the_fit():
    record, turn = overconfident(), torch.tensor([2, 0, 3, 1])
    renumbered = Logits.from_logits(record.logits[:, turn], labels=turn.argsort()[record.labels])
    matrix, biases = numbers(DirichletCalibration().fit(record))
    other, shifts = numbers(DirichletCalibration().fit(renumbered))
    torch.testing.assert_close(other, matrix[turn][:, turn], atol=1e-5, rtol=0)
    torch.testing.assert_close(shifts, biases[turn], atol=1e-5, rtol=0)


def test_overconfident_predictions_of_new_examples_become_better():
    fitted, test = DirichletCalibration().fit(overconfident()), overconfident(seed=1)
    before = score(test.logits.softmax(1), test.labels)
    after = score(fitted.predict_proba(test), test.labels)
    assert after["nll"] < 0.7 * before["nll"]
    assert after["ece"] < 0.5 * before["ece"]


@pytest.mark.parametrize("factor", [20.0, 1e5])
def test_huge_logits_are_fitted_as_well_as_small_ones(factor):
    small, huge = overconfident(n=2000, k=7), overconfident(n=2000, k=7, factor=factor)
    fitted = DirichletCalibration().fit(huge)
    assert fitted.converged
    assert nll(fitted, huge) < 1.1 * nll(DirichletCalibration().fit(small), small)


def test_a_search_that_goes_astray_leaves_the_network_as_it_is(monkeypatch):
    def astray(objective, start, **_):
        return OptimizeResult(x=-start)

    record = overconfident()
    monkeypatch.setattr(convex, "minimize", astray)
    for fitted in (DirichletCalibration().fit(record), VectorScaling().fit(record)):
        assert fitted.converged is False
        torch.testing.assert_close(fitted.predict_proba(record), record.logits.softmax(1), atol=1e-15, rtol=0)


@pytest.mark.parametrize(("odir", "share"), [(1.0, 1e-3), (HELD_OUT, 5e-3)])
def test_a_class_without_labels_is_made_unlikely_and_the_fit_says_that_it_has_no_end(odir, share):
    """Heavy penalties leave it a little more; which weight is chosen is a near tie that depends on the machine."""
    record = overconfident()
    some = record.labels != 2
    partial = Logits.from_logits(record.logits[some], labels=record.labels[some])
    assert partial.logits.softmax(1)[:, 2].mean() > 10 * share
    fitted = DirichletCalibration(odir=odir).fit(partial)
    assert fitted.converged is False
    assert fitted.predict_proba(partial)[:, 2].mean() < share
    assert numbers(fitted)[0].abs().max() <= 2 * LARGEST


@pytest.mark.parametrize("scale", [2.0, 5.0, 1e5])
def test_a_validation_set_without_errors_keeps_the_matrix_finite_and_says_so(scale):
    record = Logits.from_logits(scale * torch.eye(4).repeat(3, 1), labels=torch.arange(4).repeat(3))
    fitted = DirichletCalibration().fit(record)
    assert fitted.converged is False
    assert numbers(fitted)[0].abs().max() <= 2 * LARGEST
    assert nll(fitted, record) <= 1e-6


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e5])
@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("k", [2, 6])
@pytest.mark.parametrize("odir", [0.0, 1e-2, 1e300])
def test_nll_never_rises_above_that_of_the_network(scale, n, k, odir):
    rng = torch.Generator().manual_seed(n)
    labels = torch.randint(0, k, (n,), generator=rng)
    record = Logits.from_logits(scale * torch.randn(n, k, generator=rng), labels=labels)
    fitted = DirichletCalibration(odir=odir).fit(record)
    assert all(torch.isfinite(part).all() for part in numbers(fitted))
    assert nll(fitted, record) <= float(cross_entropy(record.logits.double(), labels)) + 1e-12


def test_constant_logits_learn_the_frequencies_of_the_classes():
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    record = Logits.from_logits(torch.full((10, 3), 7.0), labels=labels)
    probs = DirichletCalibration(odir=1e-9).fit(record).predict_proba(record)
    torch.testing.assert_close(probs[0], torch.tensor([0.5, 0.3, 0.2]).double(), atol=1e-5, rtol=0)


def test_one_example_is_predicted_as_among_many():
    fitted, test = DirichletCalibration().fit(overconfident()), overconfident(seed=1)
    alone = Logits.from_logits(test.logits[7:8])
    assert torch.equal(fitted.predict_proba(alone)[0], fitted.predict_proba(test)[7])


@pytest.mark.parametrize(
    "options", [{"odir": -1.0}, {"odir": math.nan}, {"odir": math.inf}, {"mu": -1e-9}, {"mu": math.nan}]
)
def test_nonsense_penalties_are_refused(options):
    with pytest.raises(InvalidInput, match=f"{next(iter(options))} is .*zero or positive"):
        DirichletCalibration(**options)


def test_the_penalty_found_on_held_out_examples_saves_many_classes_from_overfitting():
    def sample(seed):
        rng = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(300, 30, generator=rng, dtype=torch.float64)
        labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
        return Logits.from_logits(2 * logits, labels=labels)

    val, test = sample(0), sample(1)
    chosen, light = DirichletCalibration().fit(val), DirichletCalibration(odir=1e-2).fit(val)
    assert chosen.odir in GRID
    assert chosen.odir > 1e-2
    assert nll(light, test) > score(test.logits.softmax(1), test.labels)["nll"] > nll(chosen, test)


@pytest.mark.parametrize("options", [{"odir": "cv"}, {"mu": "held-out"}])
def test_an_unknown_rule_is_refused(options):
    with pytest.raises(InvalidInput, match="give odir 'held-out' or a number"):
        DirichletCalibration(**options)
