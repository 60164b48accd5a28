"""Temperature scaling: the exact optimum, seen by scipy."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from probmetrics.calibrators import TemperatureScalingCalibrator
from probmetrics.distributions import CategoricalLogits
from scipy.optimize import minimize_scalar

from tests.methods.samples import overconfident
from vbs_cli import Logits, TemperatureScaling
from vbs_cli.errors import InvalidInput
from vbs_cli.methods.temperature import COLDEST, HOTTEST


def noisy_logits(n=2000, k=7, **options):
    """Logits whose best temperature is near `factor`."""
    return overconfident(n, k, **options)


def nll(record, t):
    return float(torch.nn.functional.cross_entropy(record.logits / t, record.labels))


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0, 20.0])
def test_the_fitted_temperature_is_the_minimum_that_scipy_finds(factor):
    record = noisy_logits(factor=factor)
    fitted = TemperatureScaling().fit(record)
    oracle = minimize_scalar(
        lambda u: nll(record, math.exp(u)), bounds=(-5, 6), method="bounded", options={"xatol": 1e-12}
    )
    assert fitted.converged
    assert nll(record, fitted.value) <= oracle.fun + 1e-12
    assert fitted.value == pytest.approx(math.exp(oracle.x), rel=1e-5)
    assert fitted.value == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_the_fitted_temperature_is_that_of_probmetrics(factor):
    record = noisy_logits(factor=factor)
    theirs = TemperatureScalingCalibrator().fit_torch(CategoricalLogits(record.logits), record.labels)
    assert TemperatureScaling().fit(record).value == pytest.approx(1 / theirs.invtemp_, rel=1e-6)


def test_the_papers_recipe_comes_near_the_optimum_and_says_whether_it_settled():
    record = noisy_logits(factor=1.5)
    exact, recipe = TemperatureScaling().fit(record), TemperatureScaling(solver="adam").fit(record)
    assert recipe.converged
    assert recipe.value == pytest.approx(exact.value, rel=0.05)
    assert nll(record, exact.value) <= nll(record, recipe.value)
    far = TemperatureScaling(solver="adam").fit(noisy_logits(factor=40.0))
    assert not far.converged
    assert far.value < 40


def test_the_papers_recipe_never_ends_below_the_bound_where_the_class_would_flip():
    logits = torch.eye(4).repeat(400, 1) * 5
    record = Logits.from_logits(logits, labels=torch.arange(4).repeat(400))
    fitted = TemperatureScaling(solver="adam").fit(record)
    assert fitted.value >= COLDEST


def test_an_unknown_solver_is_refused():
    with pytest.raises(InvalidInput, match="known: exact, adam"):
        TemperatureScaling(solver="sgd")


def test_an_unknown_average_is_refused():
    with pytest.raises(InvalidInput, match="unknown average 'probabilities'; known: logits, softmax"):
        TemperatureScaling(average="probabilities")


def test_what_is_averaged_before_the_division_is_read_of_the_record():
    assert TemperatureScaling().reads == ()
    assert TemperatureScaling(average="softmax").reads == ("mean_softmax",)
    with pytest.raises(InvalidInput, match="no sub-predictions"):
        TemperatureScaling(average="softmax").fit(noisy_logits(n=20))


def test_constant_logits_have_no_temperature_to_find():
    fitted = TemperatureScaling().fit(Logits.from_logits(torch.full((6, 3), 2.0), labels=[0, 1, 2, 0, 1, 2]))
    assert (fitted.value, fitted.converged) == (1.0, True)


@given(st.integers(0, 10_000), st.floats(0.05, 30), st.integers(2, 8), st.integers(2, 60))
def test_no_other_temperature_has_a_lower_nll(seed, factor, k, n):
    record = noisy_logits(n=n, k=k, factor=factor, seed=seed)
    fitted = TemperatureScaling().fit(record)
    for nearby in (0.9, 0.999, 1.001, 1.1):
        other = min(max(fitted.value * nearby, COLDEST), HOTTEST)
        assert nll(record, fitted.value) <= nll(record, other) + 1e-12


def test_a_tempered_ensemble_keeps_the_class_of_the_averaged_prediction():
    rng = torch.Generator().manual_seed(0)
    members = 6 * torch.randn(4, 300, 5, generator=rng)
    averaged = members.softmax(2).double().mean(0)
    labels = torch.multinomial((averaged.log() / 2).softmax(1), 1, generator=rng).squeeze(1)
    ensemble = Logits.from_members(members, labels=labels)
    fitted = TemperatureScaling(average="softmax").fit(ensemble)
    assert torch.equal(fitted.predict_proba(ensemble).argmax(1), averaged.argmax(1))
    assert not torch.equal(averaged.argmax(1), ensemble.logits.argmax(1))
    expected = minimize_scalar(
        lambda t: float(torch.nn.functional.cross_entropy(averaged.log() / t, ensemble.labels)),
        bounds=(0.1, 100), method="bounded", options={"xatol": 1e-9},
    ).x  # fmt: skip
    assert fitted.value == pytest.approx(expected, rel=1e-4)


def test_a_validation_set_without_errors_ends_at_the_bound_and_says_so():
    logits = torch.eye(4).repeat(3, 1) * 5
    fitted = TemperatureScaling().fit(Logits.from_logits(logits, labels=torch.arange(4).repeat(3)))
    assert (fitted.value, fitted.converged) == (COLDEST, False)


def test_logits_that_mislead_end_at_the_other_bound():
    logits = torch.eye(4).repeat(3, 1) * 5
    fitted = TemperatureScaling().fit(Logits.from_logits(logits, labels=(torch.arange(4).repeat(3) + 1) % 4))
    assert (fitted.value, fitted.converged) == (HOTTEST, False)


def test_huge_logits_are_fitted():
    record = noisy_logits(factor=1e4)
    assert TemperatureScaling().fit(record).value == HOTTEST


def test_an_unfitted_temperature_is_refused():
    with pytest.raises(InvalidInput, match="not fitted"):
        TemperatureScaling().predict_proba(noisy_logits())


def test_fitting_needs_labels():
    with pytest.raises(InvalidInput, match="needs labels"):
        TemperatureScaling().fit(Logits.from_logits(torch.randn(5, 3)))
