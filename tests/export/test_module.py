"""The module that is exported, against the record and the methods that vbs itself uses."""

import pytest
import torch
from torch import nn

from tests.fixtures.networks import trained
from vbs_cli import Averaging, Conventional, Logits, TemperatureScaling, VarianceSmoothing
from vbs_cli.errors import InvalidInput
from vbs_cli.export.module import OUTPUTS, Calibrated, calibrated, why_not
from vbs_cli.logits import SPREADS, spreads_named
from vbs_cli.methods import METHODS
from vbs_cli.methods.variance import MAPS
from vbs_cli.views import VIEWS
from vbs_cli.views.fast import Rows

SIGNAL, IMAGE = (5, 4, 40), (5, 4, 6, 7)  # patch logits of five inputs


def patches(shape, scale=3.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(1))


def outputs_of(method, z, kernel):
    """The module around a network that answers with what it is given."""
    found = Calibrated(nn.Identity(), method, kernel=kernel)(z)
    assert list(found) == list(OUTPUTS)
    assert [value.dtype for value in found.values()] == [torch.float32] * 3
    return found


@pytest.mark.parametrize("shape", [SIGNAL, IMAGE])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("curve", MAPS)
def test_it_gives_what_smoothing_gives_of_the_patches(shape, kernel, spread, curve):
    method = VarianceSmoothing(alpha=1.3, beta=-0.1, spread=spread, map=curve)
    z = patches(shape, scale=1.5)
    record = Logits.from_patches(z, kernel=kernel, spreads=spreads_named(method.reads))
    found = outputs_of(method, z, kernel)
    for name, expected in (
        ("probabilities", method.predict_proba(record)),
        ("temperature", method.temperature(record)),
        ("sigma", record.sigma_of(spread)),
    ):
        torch.testing.assert_close(found[name].double(), expected.double(), rtol=1e-5, atol=1e-6)


def test_smoothing_sets_in_above_one_and_never_sharpens():
    z = patches(SIGNAL)
    assert (outputs_of(VarianceSmoothing(beta=-100.0), z, 1)["temperature"] == 1).all()
    assert (outputs_of(VarianceSmoothing(alpha=2.0, beta=0.0), z, 1)["temperature"] > 1).all()


def test_the_spread_is_over_windows_and_what_is_divided_is_not():
    z = patches(SIGNAL)
    method = VarianceSmoothing(beta=0.0)
    narrow, wide = outputs_of(method, z, 1), outputs_of(method, z, 20)
    assert (wide["sigma"] < narrow["sigma"] / 2).all()
    log_odds = [found["probabilities"].log().diff(dim=1) * found["temperature"][:, None] for found in (narrow, wide)]
    torch.testing.assert_close(*log_odds, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("method", "value"), [(TemperatureScaling(value=0.7), 0.7), (Conventional(), 1.0)])
def test_one_temperature_for_all_comes_with_the_spread_too(method, value):
    z = patches(IMAGE)
    record = Logits.from_patches(z, kernel=2)
    found = outputs_of(method, z, 2)
    torch.testing.assert_close(found["temperature"], torch.full((5,), value))
    torch.testing.assert_close(found["probabilities"].double(), method.predict_proba(record), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found["sigma"], record.sigma)


def test_an_exponential_that_single_precision_cannot_hold_still_gives_a_prediction():
    z = patches(SIGNAL, scale=60.0)
    found = outputs_of(VarianceSmoothing(beta=0.0, spread="exp"), z, 1)
    assert torch.isfinite(found["temperature"]).all()
    assert torch.isfinite(found["probabilities"]).all()


def test_fitted_numbers_are_buffers():
    smoothing = Calibrated(nn.Identity(), VarianceSmoothing(alpha=2.0, beta=-0.5), kernel=1)
    assert {name: float(value) for name, value in smoothing.named_buffers()} == {
        "tempering.alpha": 2.0,
        "tempering.beta": -0.5,
    }
    constant = Calibrated(nn.Identity(), TemperatureScaling(value=2.5), kernel=1)
    assert float(dict(constant.named_buffers())["tempering.temperature"]) == 2.5


@pytest.mark.parametrize(
    ("name", "shape", "kernel"),
    [("conv1d-radio", (2, 400), 3), ("nin", (3, 32, 32), 2), ("resnet18", (3, 64, 64), 1)],
)
@torch.inference_mode()
def test_the_network_inside_is_the_fast_one_in_the_usual_layout(name, shape, kernel):
    model = trained(name, shape, width=16)
    method = VarianceSmoothing(alpha=2.0, beta=0.6)
    module = calibrated(model, method, shape=shape, kernel=kernel)
    layers = list(module.modules())
    assert not any(isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | Rows) for layer in layers)
    assert all(value.is_contiguous() and not value.requires_grad for value in module.parameters())
    assert not module.training
    x = torch.rand(3, *shape)
    record = Logits.from_patches(model(x), kernel=kernel)
    found = module(x)
    assert (found["temperature"] > 1).all()
    torch.testing.assert_close(found["probabilities"].double(), method.predict_proba(record), rtol=0, atol=1e-5)
    torch.testing.assert_close(found["sigma"], record.sigma, rtol=1e-5, atol=1e-6)


def test_a_window_without_a_spread_is_refused():
    model = trained("conv1d-radio", (2, 400))
    with pytest.raises(InvalidInput, match="kernel 40 is longer"):
        calibrated(model, Conventional(), shape=(2, 400), kernel=40)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (VarianceSmoothing(), "beta is still the rule 'mean\\+0.5'"),
        (TemperatureScaling(), "temperature scaling is not fitted"),
        (TemperatureScaling(value=2.0, average="softmax"), "divides the mean softmax; average the logits"),
        (Averaging(), "more than divide the logits by a temperature"),
    ],
)
def test_what_is_not_fitted_or_needs_more_than_one_pass_is_refused(method, said):
    with pytest.raises(InvalidInput, match=said):
        Calibrated(nn.Identity(), method, kernel=1)


@pytest.mark.parametrize(
    ("view", "why"),
    [("members", "the networks of all seeds"), ("draws", "several passes"), ("augmentations", "a pass")],
)
def test_views_that_need_more_than_one_pass_of_one_network_say_so(view, why):
    assert why in VIEWS[view].not_one_pass
    assert not VIEWS["patches"].not_one_pass


def test_three_of_the_methods_can_be_one_module():
    assert {name for name, method in METHODS.items() if not why_not(method)} == {"vbs", "temperature", "conventional"}
