"""Temperature scaling: the exact optimum, seen by scipy."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from vbs_cli import Logits, TemperatureScaling
from vbs_cli.errors import InvalidInput
from vbs_cli.methods.temperature import COLDEST, HOTTEST


def noisy_logits(n=2000, k=7, factor=3.0, seed=0):
    """Logits whose labels were drawn from their softmax, then multiplied: the best temperature is near `factor`."""
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return Logits.from_logits(factor * logits, labels=labels)


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
