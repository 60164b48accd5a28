"""Variance-based smoothing: the paper's formula, its rules and its limits."""

import math

import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st

from vbs_cli import Logits, VarianceSmoothing, score, sigma_bar
from vbs_cli.errors import InvalidInput, NotFinite, UnknownName


def patches(n=300, k=5, t=12, seed=0):
    rng = torch.Generator().manual_seed(seed)
    z = torch.randn(n, k, t, generator=rng) * (0.5 + 6 * torch.rand(n, 1, 1, generator=rng))
    z[torch.arange(n), labels(n, k, seed)] += 2.5
    return z


def labels(n=300, k=5, seed=0):
    return torch.randint(0, k, (n,), generator=torch.Generator().manual_seed(seed + 1))


def record(n=300, k=5, t=12, seed=0, kernel=3):
    return Logits.from_patches(patches(n, k, t, seed), labels=labels(n, k, seed), kernel=kernel)


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


@pytest.mark.parametrize("spread", ["softmax", "relu", "softplus", "exp"])
def test_the_spread_can_be_taken_of_a_function_of_the_windows(spread):
    z = patches(n=40)
    test = Logits.from_patches(z, kernel=3, spreads=[spread])
    windows = np.stack([z[:, :, t : t + 3].double().mean(2) for t in range(10)], 2)
    function = {
        "softmax": lambda w: scipy.special.softmax(w, axis=1),
        "relu": lambda w: np.maximum(w, 0),
        "softplus": lambda w: np.logaddexp(w, 0),
        "exp": np.exp,
    }[spread]
    sigma = function(windows).std(axis=2, ddof=1).mean(axis=1)
    np.testing.assert_allclose(test.sigma_of(spread), sigma, rtol=2e-5)
    np.testing.assert_allclose(sigma_bar(z, kernel=3, spread=spread), sigma, rtol=2e-5)
    fitted = VarianceSmoothing(alpha=2.0, beta="q50", spread=spread).fit(test)
    assert fitted.beta == pytest.approx(-np.median(sigma), rel=1e-5)
    np.testing.assert_allclose(fitted.temperature(test), np.maximum(2 * (sigma + fitted.beta), 1), rtol=1e-3)


@given(st.floats(0.1, 5), st.floats(-3, 3))
def test_the_exponential_map_is_that_of_the_specification(alpha, beta):
    test = record(n=20)
    sigma = test.sigma.double().numpy()
    method = VarianceSmoothing(alpha=alpha, beta=beta, map="exponential")
    np.testing.assert_allclose(method.temperature(test), np.maximum((1 + alpha) ** (sigma - 1) + beta, 1))


def test_a_spread_that_overflows_is_refused():
    with pytest.raises(NotFinite, match="spread of exp overflows"):
        Logits.from_patches(patches() * 1e5, spreads=["exp"])
    with pytest.raises(NotFinite, match="spread of exp overflows"):
        sigma_bar(patches() * 1e5, spread="exp")
    with pytest.raises(NotFinite, match="spread of logits overflows"):
        Logits.from_patches(patches() * 1e30)


@pytest.mark.parametrize("options", [{"map": "exponential"}, {"alpha": 1e300}])
def test_the_class_stays_even_where_the_temperature_would_overflow(options):
    test = Logits.from_patches(patches() * 1e4)
    method = VarianceSmoothing(**{"alpha": 5.0, "beta": 0.0, **options})
    assert torch.isfinite(method.temperature(test)).all()
    assert torch.equal(method.predict_proba(test).argmax(1), test.logits.argmax(1))


@pytest.mark.parametrize("options", [{"spread": "logit"}, {"map": "linear"}])
def test_unknown_options_are_answered_with_the_nearest(options):
    with pytest.raises(UnknownName, match=r"did you mean|known"):
        VarianceSmoothing(**options)


def test_a_record_without_the_spread_says_how_to_get_it():
    method = VarianceSmoothing(spread="softmax")
    assert method.reads == ("sigma_softmax",)
    with pytest.raises(InvalidInput, match=r"no spread of softmax; make it with .*spreads=\('softmax',\)"):
        method.fit(record())


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


@pytest.mark.parametrize("curve", ["affine", "exponential"])
def test_learned_alpha_and_beta_have_the_least_nll_of_a_fine_grid(curve):
    val = record()

    def nll(**options):
        fitted = VarianceSmoothing(map=curve, **options).fit(val)
        return score(fitted.predict_proba(val), val.labels)["nll"]

    betas = -np.quantile(val.sigma, np.linspace(0, 1, 15))
    grid = [nll(alpha=alpha, beta=float(beta)) for alpha in np.geomspace(0.05, 20, 40) for beta in betas]
    assert nll(beta="nll") <= min(grid) + 1e-9


def test_learned_smoothing_leaves_alone_what_no_smoothing_improves():
    logits = 4 * torch.eye(5).repeat(20, 1)
    z = logits[:, :, None] + torch.randn(100, 5, 6, generator=torch.Generator().manual_seed(0))
    val = Logits.from_patches(z, labels=torch.arange(5).repeat(20))
    fitted = VarianceSmoothing(beta="nll").fit(val)
    torch.testing.assert_close(fitted.temperature(val), torch.ones(100, dtype=torch.float64))


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


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_learning_works_where_gradients_are_switched_off(mode):
    rng = torch.Generator().manual_seed(0)
    patches, labels = 3 * torch.randn(60, 4, 9, generator=rng), torch.randint(4, (60,), generator=rng)
    expected = VarianceSmoothing(beta="nll").fit(Logits.from_patches(patches, labels=labels))
    with mode():
        found = VarianceSmoothing(beta="nll").fit(Logits.from_patches(patches, labels=labels))
    assert (found.alpha, found.beta) == (expected.alpha, expected.beta)
