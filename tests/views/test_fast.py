"""The fast form of a network against the network itself."""

import pytest
import torch
from torch import nn

from tests.fixtures.networks import trained
from vbs_cli.logits import pool
from vbs_cli.models import build_model
from vbs_cli.models.dropout import Dropout, use_generator
from vbs_cli.views.fast import CACHE, fast, largest_layer

NETWORKS = [
    ("conv1d-radio", (2, 1580), 16),
    ("conv1d-speech", (1, 20_480), 8),
    ("nin", (3, 32, 32), 48),
    ("resnet18", (3, 64, 64), 1),
    ("densenet121", (3, 64, 64), 1),
    ("mobilenet_v2", (3, 64, 64), 1),
    ("efficientnet_b0", (3, 64, 64), 1),
]


@pytest.mark.parametrize(("name", "shape", "width"), NETWORKS)
@torch.inference_mode()
def test_patch_logits_are_the_same_within_rounding(name, shape, width):
    model = trained(name, shape, width)
    x = torch.randn(3, *shape)
    expected = model(x)
    found = fast(model, shape).net(x)
    scale = expected.abs().max()
    torch.testing.assert_close(found / scale, expected / scale, rtol=0, atol=1e-5)
    torch.testing.assert_close(pool(found) / scale, pool(expected) / scale, rtol=0, atol=1e-5)


def layers(net, kind):
    return [layer for layer in net.modules() if isinstance(layer, kind)]


@pytest.mark.parametrize(("name", "shape"), [("conv1d-radio", (2, 400)), ("resnet18", (3, 64, 64))])
def test_no_normalisation_is_left_and_the_network_itself_is_untouched(name, shape):
    model = trained(name, shape)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    norms = nn.BatchNorm1d | nn.BatchNorm2d
    assert layers(model, norms)
    assert not layers(fast(model, shape).net, norms)
    assert layers(model, norms)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_normalisation_that_follows_no_convolution_stays():
    """That of the first layers of a DenseNet's blocks, which normalise what was put together."""
    model = trained("densenet121", (3, 64, 64))
    left = len(layers(fast(model, (3, 64, 64)).net, nn.BatchNorm2d))
    assert 0 < left < len(layers(model, nn.BatchNorm2d))


@torch.inference_mode()
def test_a_normalisation_by_the_statistics_of_its_batch_stays():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4, track_running_stats=False), nn.Conv1d(4, 5, 1))
    x = torch.randn(6, 2, 50)
    torch.testing.assert_close(fast(model, (2, 50)).net(x), model(x))


@pytest.mark.parametrize("options", [{"padding": "same"}, {"padding": 2, "padding_mode": "circular"}])
@torch.inference_mode()
def test_convolutions_that_no_row_of_pixels_has_stay_those_of_signals(options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 4, 3, **options), nn.ReLU(), nn.Conv1d(4, 5, 1))
    x = torch.randn(6, 2, 50)
    net = fast(model, (2, 50)).net
    assert layers(net, nn.Conv1d)
    torch.testing.assert_close(net(x), model(x))


@torch.inference_mode()
def test_strides_dilations_groups_and_missing_biases_come_along():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(4, 8, 3, stride=2, padding=1, dilation=3, groups=2, bias=False), nn.ReLU())
    x = torch.randn(6, 4, 50)
    net = fast(model, (4, 50)).net
    assert not layers(net, nn.Conv1d)
    torch.testing.assert_close(net(x), model(x))


@pytest.mark.parametrize(("name", "shape"), [("conv1d-radio", (2, 400)), ("nin", (3, 32, 32))])
@torch.inference_mode()
def test_draws_of_the_fast_form_are_draws_of_the_same_distribution(name, shape):
    """Masks follow the memory, which lies otherwise, so that single draws differ; their mean and spread do not."""
    model = trained(name, shape, width=32, dropout=0.5)
    net = fast(model, shape).net
    x = torch.randn(1, *shape).expand(4_000, *shape)
    found = []
    for network in (model, net):
        use_generator(network, torch.Generator().manual_seed(1))
        found.append(pool(network(x)).double())
    assert not torch.equal(*found)
    error = found[0].std(0) * (2 / len(x)) ** 0.5
    assert ((found[0].mean(0) - found[1].mean(0)).abs() < 5 * error).all()
    torch.testing.assert_close(found[0].std(0), found[1].std(0), rtol=0.1, atol=0)


def test_a_network_that_is_drawing_can_be_made_ready():
    model = trained("conv1d-radio", (2, 400), dropout=0.5)
    use_generator(model, torch.Generator())
    net = fast(model, (2, 400)).net
    assert all(layer.generator is None for layer in layers(net, Dropout))


def test_so_many_inputs_go_together_as_the_cache_has_room_for():
    """At the paper's width the first map of an image is 192 x 32 x 32 numbers, and a ReLU has as much out as in."""
    largest = 2 * 4 * 192 * 32 * 32
    model = build_model("nin", shape=(3, 32, 32), classes=10, width=192)
    assert largest_layer(model, (3, 32, 32)) == largest
    assert fast(model, (3, 32, 32)).chunk == 16 == CACHE // largest
    assert fast(model, (3, 64, 64)).chunk == 4
    small = build_model("nin", shape=(3, 32, 32), classes=10, width=8)
    assert fast(small, (3, 32, 32)).chunk == 64
    assert fast(small, (3, 32, 32), most=10).chunk == 10
    assert fast(small, (3, 1024, 1024)).chunk == 1
