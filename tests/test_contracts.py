"""What every registered method, metric, noise, model and dataset must keep; a new one is picked up by itself."""

import json
import math
from dataclasses import asdict

import pytest
import torch

from vbs_cli import Logits, score
from vbs_cli.data import DATASETS, NOISES
from vbs_cli.errors import InvalidInput, NotFinite, UnknownName
from vbs_cli.methods import METHODS, TemperatureMethod
from vbs_cli.metrics import METRICS, scored
from vbs_cli.models import MODELS
from vbs_cli.registry import Registry
from vbs_cli.settings import PROTOCOLS

CLASSES = 5


def record(n=200, scale=1.0, seed=0):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (n,), generator=rng)
    z = scale * torch.randn(n, CLASSES, 9, generator=rng)
    z[torch.arange(n), labels] += scale
    return Logits.from_patches(z, labels=labels, kernel=2)


@pytest.fixture(params=list(METHODS))
def method(request):
    return METHODS[request.param]()


def test_probabilities_lie_on_the_simplex(method):
    probs = method.fit(record()).predict_proba(record(seed=1))
    assert probs.dtype == torch.float64
    assert probs.shape == (200, CLASSES)
    assert (probs >= 0).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(200, dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_fitted_method_is_plain_json_and_predicts_the_same_bits_after_it(method):
    fitted = method.fit(record())
    again = type(method)(**json.loads(json.dumps(asdict(fitted))))
    assert torch.equal(again.predict_proba(record(seed=1)), fitted.predict_proba(record(seed=1)))


def test_fitting_leaves_the_original_alone(method):
    before = asdict(method)
    method.fit(record())
    assert asdict(method) == before


def test_temperatures_are_positive_and_keep_the_class(method):
    if not isinstance(method, TemperatureMethod):
        pytest.skip("has no temperature")
    fitted, test = method.fit(record()), record(seed=1)
    assert (fitted.temperature(test) > 0).all()
    assert torch.equal(fitted.predict_proba(test).argmax(1), test.logits.argmax(1))


def test_the_order_of_the_examples_does_not_matter(method):
    test = record(seed=1)
    turned = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    permuted = Logits.from_tensors({name: value[turned] for name, value in test.tensors().items()})
    fitted = method.fit(record())
    assert torch.equal(fitted.predict_proba(permuted), fitted.predict_proba(test)[turned])


@pytest.mark.parametrize("scale", [0.0, 1e5])
def test_constant_and_huge_logits_give_finite_scores(method, scale):
    test = record(scale=scale)
    result = score(method.fit(test).predict_proba(test), test.labels)
    assert all(math.isfinite(value) for value in result.values())


def test_a_single_example_is_enough_to_predict(method):
    assert method.fit(record()).predict_proba(record(n=1)).shape == (1, CLASSES)


@pytest.mark.parametrize("name", list(METRICS))
def test_metrics_are_finite_floats(name):
    test = record()
    value = METRICS[name](scored(test.logits.softmax(1), test.labels))
    assert isinstance(value, float)
    assert math.isfinite(value)


def test_score_has_the_keys_of_the_contract():
    test = record()
    expected = {"accuracy", "nll", "brier", "ece", "entropy", "kl_uniform"}
    assert set(score(test.logits.softmax(1), test.labels)) == expected


@pytest.mark.parametrize("broken", [torch.full((4, 3), math.nan), torch.rand(4, 3).softmax(1)])
def test_no_record_is_made_of_nonsense(broken):
    with pytest.raises((InvalidInput, NotFinite)):
        Logits.from_logits(broken)


@pytest.mark.parametrize("noise", list(NOISES))
def test_noises_keep_shape_and_type(noise):
    x = torch.randn(3, 2, 16)
    chosen = NOISES[noise]
    noisy = chosen.apply(x, chosen.draw(x.shape, torch.Generator().manual_seed(0)), 0.5)
    assert noisy.shape == x.shape
    assert noisy.dtype == x.dtype
    assert not torch.equal(noisy, x)


@pytest.mark.parametrize("name", list(MODELS))
def test_models_give_patch_logits(name):
    model = MODELS[name](channels=2, classes=7, width=4, dropout=0.0).eval()
    z = model(torch.randn(2, 2, 1580))
    assert z.shape[:2] == (2, 7)
    assert z.ndim >= 3


def test_every_protocol_names_registered_things_only():
    for dataset, profiles in PROTOCOLS.items():
        assert dataset in DATASETS
        for s in profiles.values():
            assert s.model in MODELS
            assert all(method in METHODS for method in s.methods)
            assert all(noise in NOISES for noise in s.noises)
            for name, options in s.options.items():
                METHODS[name](**options)


def test_a_registry_refuses_doubles_and_suggests():
    registry: Registry[int] = Registry("thing")
    registry.register("alpha")(1)
    with pytest.raises(ValueError, match="twice"):
        registry.register("alpha")(2)
    with pytest.raises(UnknownName, match=r"unknown thing 'alhpa'; did you mean 'alpha'\?"):
        registry["alhpa"]
    with pytest.raises(UnknownName, match="known: alpha"):
        registry["zzz"]
