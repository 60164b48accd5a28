"""Variance-based smoothing: the paper's formula, its rules and its limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vbs_cli import Logits, VarianceSmoothing, score
from vbs_cli.errors import InvalidInput


def record(n=300, k=5, t=12, seed=0, kernel=3):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, k, (n,), generator=rng)
    z = torch.randn(n, k, t, generator=rng) * (0.5 + 6 * torch.rand(n, 1, 1, generator=rng))
    z[torch.arange(n), labels] += 2.5
    return Logits.from_patches(z, labels=labels, kernel=kernel)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("mean", lambda s: -s.mean()),
        ("mean+0.5", lambda s: -s.mean() + 0.5),
        ("q75", lambda s: -np.percentile(s, 75)),
        ("q95", lambda s: -np.percentile(s, 95)),
        ("q0", lambda s: -s.min()),
        ("q100", lambda s: -s.max()),
        ("q99.5", lambda s: -np.percentile(s, 99.5)),
        (-1.25, lambda s: -1.25),
    ],
)
def test_beta_rules_resolve_to_the_numbers_of_the_specification(rule, expected):
    val = record()
    assert VarianceSmoothing(beta=rule).fit(val).beta == pytest.approx(expected(val.sigma.double().numpy()))


@given(st.floats(0.1, 5), st.floats(-3, 3))
def test_probabilities_are_the_softmax_of_logits_over_sigma_tilde(alpha, beta):
    test = record(n=20)
    sigma = test.sigma.double().numpy()
    s = np.maximum(alpha * (sigma + beta), 1)
    scaled = test.logits.double().numpy() / s[:, None]
    expected = np.exp(scaled - scaled.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    method = VarianceSmoothing(alpha=alpha, beta=beta)
    np.testing.assert_allclose(method.temperature(test), s)
    np.testing.assert_allclose(method.predict_proba(test), expected, atol=1e-12)


def test_sigma_tilde_is_never_below_one_and_the_class_stays():
    test = record()
    method = VarianceSmoothing(alpha=5, beta="q50").fit(test)
    assert (method.temperature(test) >= 1).all()
    assert torch.equal(method.predict_proba(test).argmax(1), test.logits.argmax(1))


def test_large_alpha_drives_entropy_to_log_k():
    test = record()
    probs = VarianceSmoothing(alpha=1e9, beta=0.0).predict_proba(test)
    assert score(probs, test.labels)["entropy"] == pytest.approx(math.log(5), abs=1e-6)


def test_a_threshold_above_every_sigma_changes_nothing():
    test = record()
    probs = VarianceSmoothing(beta=-1e6).predict_proba(test)
    torch.testing.assert_close(probs, test.logits.double().softmax(1))


def test_learned_alpha_and_beta_beat_every_rule_on_the_data_they_were_learned_on():
    val = record()

    def nll(beta):
        fitted = VarianceSmoothing(beta=beta).fit(val)
        return score(fitted.predict_proba(val), val.labels)["nll"]

    assert nll("nll") <= min(nll(rule) for rule in ("mean", "mean+0.5", "q50", "q75", "q95")) + 1e-9


def test_the_same_method_smooths_an_ensemble_by_the_spread_of_its_members():
    members = torch.randn(4, 30, 6, generator=torch.Generator().manual_seed(1)) * 4
    ensemble = Logits.from_members(members)
    method = VarianceSmoothing(alpha=1.0, beta="q75").fit(ensemble)
    sigma = members.std(0).mean(1)
    s = (sigma - np.percentile(sigma, 75)).clamp(min=1)
    torch.testing.assert_close(
        method.predict_proba(ensemble).float(), (members.mean(0) / s[:, None]).softmax(1), atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize("beta", ["avg", "q101", "q", "mean-0.5", float("nan")])
def test_unknown_rules_are_refused(beta):
    with pytest.raises(InvalidInput, match="beta"):
        VarianceSmoothing(beta=beta)


@pytest.mark.parametrize("alpha", [0, -1, float("inf"), float("nan")])
def test_alpha_must_be_positive(alpha):
    with pytest.raises(InvalidInput, match="alpha"):
        VarianceSmoothing(alpha=alpha)


def test_a_rule_must_be_fitted_and_plain_logits_have_no_spread():
    with pytest.raises(InvalidInput, match="call fit"):
        VarianceSmoothing().predict_proba(record())
    with pytest.raises(InvalidInput, match="no spread"):
        VarianceSmoothing().fit(Logits.from_logits(torch.randn(4, 3)))
