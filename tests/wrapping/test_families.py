"""Families of classifiers that can be wrapped, and how their ends are found."""

import pytest
import torch
from torch import nn

from tests.wrapping.classifying import (
    CLASSES,
    METHOD,
    TIMM,
    TORCHVISION,
    Extra,
    at_every_position,
    check_wrapped,
    ended,
    images,
    loader,
    own,
    patches_by_hooks,
    timm_s,
    torchvision_s,
)
from vbs_cli import wrap
from vbs_cli.errors import InvalidInput
from vbs_cli.wrapping.watching import watched


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_s_classifiers_are_smoothed_by_their_patches(name):
    net, x = torchvision_s(name), images(seed=5)
    smoothed = wrap(net, method=METHOD).fit(loader())
    check_wrapped(net, x, smoothed, patches_by_hooks(net, *TORCHVISION[name], x))


@pytest.mark.parametrize("name", TIMM)
def test_timm_s_classifiers_are_smoothed_by_their_patches(name):
    options, size = TIMM[name]
    net, x = timm_s(name, **options), images(size=size, seed=5)
    smoothed = wrap(net, method=METHOD).fit(loader(size))
    with torch.no_grad():
        before = net.forward_features(x)
        if before.ndim == 3:
            before = before[:, net.num_prefix_tokens :].transpose(1, 2)
        patches = at_every_position(net.get_classifier(), before)
    check_wrapped(net, x, smoothed, patches)


@pytest.mark.parametrize(
    "name", ["signals", "tokens", "untraceable", "untraceable tokens", "windows", "convolution", "scores averaged"]
)
def test_other_ways_to_average_are_found(name):
    net, x = own(name), images(seed=5)
    smoothed = wrap(net, method=METHOD).fit(loader())
    with torch.no_grad():
        patches = smoothed.patches(x)
    assert patches.shape[:2] == (4, CLASSES)
    assert (patches.flatten(2).std(2) > 0).all()
    check_wrapped(net, x, smoothed, patches)


@pytest.mark.parametrize("name", ["signals", "tokens", "untraceable", "untraceable tokens"])
def test_signals_and_tokens_have_patches_in_a_row(name):
    net, x = own(name), images()
    with torch.no_grad():
        patches = wrap(net).patches(x)
        torch.testing.assert_close(patches, at_every_position(net.fc, net.features(x)))
    assert patches.ndim == 3


def test_watching_and_recording_see_the_same_patches():
    for name in ("signals", "tokens", "windows", "convolution"):
        net, x = own(name), images()
        torch.testing.assert_close(watched(net, x)[1], wrap(net).patches(x))


def test_a_named_head_is_taken_where_the_last_step_is_none():
    torch.manual_seed(0)
    net, x = Extra().eval(), images()
    with pytest.raises(InvalidInput, match="it ends in mul, not in a linear layer"):
        wrap(net)
    smoothed = wrap(net, head="fc").fit(loader())
    torch.testing.assert_close(smoothed.patches(x).mean(2), net(x))
    assert torch.equal(wrap(own("signals"), head="fc").patches(x), wrap(own("signals")).patches(x))


def test_a_named_convolution_of_any_size_may_give_the_scores():
    net = ended(nn.Conv2d(8, CLASSES, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    smoothed = wrap(net, head="2").fit(loader())
    torch.testing.assert_close(smoothed.patches(images()).mean((2, 3)), net(images()))


def test_a_name_that_is_no_layer_is_answered_with_those_that_are():
    with pytest.raises(InvalidInput, match="Signals has no layer 'classifier'; its linear layers: fc"):
        wrap(own("signals"), head="classifier")
    net = own("signals")
    net.spare = nn.Linear(8, CLASSES)
    with pytest.raises(InvalidInput, match="the layer that was named is not used; name the linear layer"):
        wrap(net, head="spare")
