"""Wrapping a classifier that ends in average pooling and a linear layer."""

import pytest
import torch
from torch import nn
from torchvision.models import convnext_tiny, resnet18, vgg11

from vbs_cli import Logits, VarianceSmoothing, wrap
from vbs_cli.errors import InvalidInput


def batches(count=3, size=64):
    rng = torch.Generator().manual_seed(0)
    return [
        (torch.randn(8, 3, size, size, generator=rng), torch.randint(0, 10, (8,), generator=rng)) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return resnet18(num_classes=10).eval()


@torch.inference_mode()
def test_a_resnet_keeps_its_classes_and_gets_temperatures_from_its_patches(net):
    smoothed = wrap(net, method=VarianceSmoothing(alpha=3.0, beta="q25")).fit(batches())
    x = batches()[1][0]
    patches = smoothed.patches(x)
    assert patches.shape == (8, 10, 2, 2)
    torch.testing.assert_close(patches.flatten(2).mean(2), net(x), atol=1e-4, rtol=1e-4)
    expected = smoothed.method.predict_proba(Logits.from_patches(patches))
    torch.testing.assert_close(smoothed(x).double().softmax(1), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(smoothed.predict_proba(x), expected, atol=1e-6, rtol=1e-5)
    assert torch.equal(smoothed(x).argmax(1), net(x).argmax(1))
    assert (smoothed.temperature(x) >= 1).all()


def test_the_rule_is_fitted_on_all_batches(net):
    smoothed = wrap(net).fit(batches())
    with torch.inference_mode():
        sigma = torch.cat([smoothed.record(x).sigma for x, _ in batches()])
    assert smoothed.method.beta == pytest.approx(-sigma.double().mean().item() + 0.5)


def test_no_hook_is_left_behind(net):
    wrap(net).fit(batches(1))
    assert not any(module._forward_pre_hooks for module in net.modules())


def test_an_untrained_rule_must_be_fitted_first(net):
    with pytest.raises(InvalidInput, match="call fit"):
        wrap(net)(batches(1)[0][0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: convnext_tiny(num_classes=10), "non-linear"),
        (lambda: vgg11(num_classes=10), "does not feed|non-linear"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 10)), "no average pooling"),
        (lambda: nn.Sequential(nn.Conv2d(3, 10, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), "no linear layer"),
    ],
)
def test_what_does_not_commute_is_refused_with_the_reason(build, message):
    with pytest.raises(InvalidInput, match=message):
        wrap(build()).fit(batches(1))


def test_an_empty_loader_is_refused(net):
    with pytest.raises(InvalidInput, match="no validation batches"):
        wrap(net).fit([])
