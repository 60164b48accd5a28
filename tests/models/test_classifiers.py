"""Torchvision's classifiers as networks of patches, and inputs that leave too few of these."""

import copy
import functools
import sys

import pytest
import torch
from torch import nn
from torchvision.models import get_model

from vbs_cli.errors import InvalidInput, UnknownName
from vbs_cli.logits import pool
from vbs_cli.models import build_model
from vbs_cli.models.classifiers import ACTIVATIONS, OPTIONS, BranchDropout, check_patches, patch_network
from vbs_cli.models.dropout import Dropout, use_generator
from vbs_cli.models.endings import layer_of
from vbs_cli.networks.training import initialised

SHAPE = (3, 64, 64)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def images(count=2):
    return torch.randn(count, *SHAPE, generator=rng())


@functools.cache
def built(name, dropout, seed):
    return initialised(
        lambda: build_model(name, shape=SHAPE, classes=10, width=32, dropout=dropout), seed=seed, name="test"
    )


def build(name, *, dropout=0.0, seed=0):
    return copy.deepcopy(built(name, dropout, seed))


def settled(model):
    """With BatchNorm's statistics those of a batch: with the initial ones the logits of some networks vanish."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        model.train()(images())
    return model.eval()


@torch.no_grad()
def torchvision_s_own(model, name):
    """The classifier as torchvision has it, with the weights of ours."""
    own = get_model(name, num_classes=10, **OPTIONS.get(name, {}))
    ours = model.state_dict()
    assert own.state_dict().keys() == ours.keys()
    for key, value in own.state_dict().items():
        value.copy_(ours[key])
    return own.eval()


@pytest.mark.parametrize(
    "name",
    [
        "resnet18",
        "regnet_y_400mf",
        "densenet121",
        "mobilenet_v2",
        "efficientnet_b0",
        "shufflenet_v2_x0_5",
        "mnasnet0_5",
        "googlenet",
        "swin_t",
    ],
)
def test_the_mean_of_the_patch_logits_is_the_answer_of_torchvision_s_own_network(name):
    model = settled(build(name))
    own = torchvision_s_own(model, name).double()
    x = images().double()
    with torch.no_grad():
        z, answer = model.double()(x), own(x)
    assert z.shape == (2, 10, 2, 2)
    assert (z.flatten(2).std(2) > 1e-3).all()
    torch.testing.assert_close(pool(z), answer, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["vgg11", "alexnet", "vit_b_16", "convnext_tiny", "mobilenet_v3_small", "squeezenet1_0"]
)
def test_a_network_with_another_end_is_refused_with_some_that_fit(name):
    message = f"{name} does not end in average pooling and a linear layer; of those that do: resnet18"
    with pytest.raises(InvalidInput, match=message), torch.device("meta"):  # which saves drawing their weights
        build_model(name, shape=SHAPE, classes=10, width=32)


@pytest.mark.parametrize(
    "end",
    [
        [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)],
        [nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 5)],
        [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.ReLU(), nn.Linear(8, 5)],
        [nn.AdaptiveAvgPool2d(1), nn.Flatten()],
    ],
)
def test_ends_that_do_not_commute_are_seen_in_the_graph(end):
    with pytest.raises(InvalidInput, match="mine does not end in"):
        patch_network(nn.Sequential(nn.Conv2d(3, 8, 8, 8), *end), "mine")


def test_what_the_graph_does_not_show_is_found_by_the_numbers():
    net = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    model = patch_network(net, "mine")
    check_patches(model, net)
    net[-1].register_forward_hook(lambda layer, inputs, output: output.square())
    with pytest.raises(InvalidInput, match="is not what this network returns"):
        check_patches(model, net)


def test_building_draws_the_weights_of_torchvision_and_nothing_else():
    torch.manual_seed(3)
    own, after = get_model("resnet18", num_classes=10), torch.random.get_rng_state()
    torch.manual_seed(3)
    model = build_model("resnet18", shape=SHAPE, classes=10, width=32)
    assert torch.equal(after, torch.random.get_rng_state())
    assert all(torch.equal(value, own.state_dict()[key]) for key, value in model.state_dict().items())
    assert all(layer.training for layer in model.modules())


@pytest.mark.parametrize(
    ("name", "layers", "uses"), [("resnet18", 9, 17), ("mobilenet_v2", 35, 35), ("efficientnet_b0", 49, 49)]
)
def test_the_dropout_variant_drops_after_every_activation_layer_and_nowhere_else(name, layers, uses):
    model = build(name, dropout=0.5)
    assert sum(isinstance(layer, Dropout) for layer in model.modules()) == layers
    kinds = {step: layer_of(model, step) for step in model.graph.nodes}
    activations = [step for step, layer in kinds.items() if isinstance(layer, ACTIVATIONS)]
    assert all(type(kinds[user]) is Dropout for step in activations for user in step.users)
    assert len(activations) == sum(isinstance(layer, Dropout) for layer in kinds.values()) == uses


def test_draws_repeat_with_their_generator_and_without_one_the_network_is_the_plain_one():
    plain, model = build("resnet18").eval(), build("resnet18", dropout=0.5).eval()
    x, draws = images(), []
    before = torch.random.get_rng_state()
    with torch.no_grad():
        for seed in (1, 1, 2):
            use_generator(model, rng(seed))
            draws.append(model(x))
        use_generator(model, None)
        assert torch.equal(draws[0], draws[1])
        assert not torch.allclose(draws[0], draws[2])
        assert torch.equal(model(x), plain(x))
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_network_whose_activations_are_all_functions_cannot_have_the_variant():
    with pytest.raises(InvalidInput, match="googlenet has no activation layers that dropout could follow"):
        build("googlenet", dropout=0.5)


def test_stochastic_depth_draws_from_the_generator_and_the_dropout_before_the_linear_layer_is_gone():
    model = build("efficientnet_b0").train()
    dropouts = [layer for layer in model.modules() if isinstance(layer, nn.Dropout | Dropout)]
    assert {type(layer) for layer in dropouts} == {BranchDropout}
    x, draws = images(), []
    before = torch.random.get_rng_state()
    with torch.no_grad():
        for seed in (1, 1, 2):
            use_generator(model, rng(seed))
            draws.append(model(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.allclose(draws[0], draws[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_branch_is_left_out_for_whole_examples():
    layer, x = BranchDropout(0.2), torch.ones(1000, 3, 2, 2)
    assert torch.equal(layer(x), x)
    layer.generator = rng()
    kept = layer(x).flatten(1)
    assert torch.equal(kept, kept[:, :1].expand_as(kept))
    assert kept.unique().tolist() == pytest.approx([0, 1.25])
    assert kept.mean().item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("name", ["resnet18", "efficientnet_b0"])
def test_gradients_reach_every_weight_and_activations_in_place_do_not_spoil_them(name):
    model = build(name, dropout=0.5).train()
    apart = copy.deepcopy(model)
    for layer in apart.modules():
        if isinstance(layer, ACTIVATIONS):
            layer.inplace = False
    for network in (model, apart):
        use_generator(network, rng(1))
        nn.functional.cross_entropy(pool(network(images())), torch.arange(2)).backward()
    for one, other in zip(model.parameters(), apart.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
        assert one.grad.abs().max() > 0


def test_training_lowers_the_loss():
    model, x, y = build("shufflenet_v2_x0_5").train(), images(8), torch.arange(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        loss = nn.functional.cross_entropy(pool(model(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_weights_can_be_saved_and_loaded_between_both_variants():
    first, second = build("resnet18", seed=0).eval(), build("resnet18", seed=1, dropout=0.5).eval()
    x = images()
    with torch.no_grad():
        assert not torch.allclose(first(x), second(x))
        second.load_state_dict(first.state_dict())
        assert torch.equal(first(x), second(x))


@torch.no_grad()
def test_other_layouts_and_precisions_give_nearly_the_same():
    model, x = settled(build("resnet18")), images()
    z = model(x)
    with torch.autocast("cpu", torch.bfloat16):
        half = model(x)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), z, atol=0.1, rtol=0.1)
    model.to(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x.contiguous(memory_format=torch.channels_last)), z, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "shape", "cure"),
    [
        ("resnet18", (3, 32, 32), r"larger inputs \(vbs download --dataset folder --size 64\) or a network"),
        ("nin", (3, 4, 3), r"larger inputs \(vbs download --dataset folder --size 8\) or a network"),
        ("conv1d-speech", (1, 60), "longer inputs or a network with shorter strides"),
    ],
)
def test_inputs_that_leave_a_single_patch_are_refused(name, shape, cure):
    given = " x ".join(map(str, shape))
    message = f"{name} leaves a single patch of inputs {given}; the spread needs two or more: {cure}"
    with pytest.raises(InvalidInput, match=message):
        build_model(name, shape=shape, classes=3, width=4)


@pytest.mark.parametrize("shape", [(1, 64, 64), (2, 1580)])
def test_inputs_other_than_colour_images_are_refused(shape):
    given = " x ".join(map(str, shape))
    with pytest.raises(InvalidInput, match=f"resnet18 cannot take inputs of {given}; it takes images of 3 x H x W"):
        build_model("resnet18", shape=shape, classes=3, width=4)


def test_images_that_are_too_small_are_refused_without_noise(capfd):
    with pytest.raises(InvalidInput, match="inception_v3 cannot take inputs of 3 x 64 x 64; it takes larger ones"):
        build("inception_v3")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "meant"), [("resnet19", "resnet18"), ("nni", "nin"), ("conv1d-rado", "conv1d-radio")])
def test_a_wrong_name_is_answered_with_the_nearest_of_ours_and_torchvision_s(name, meant):
    with pytest.raises(UnknownName, match=f"unknown model '{name}'; did you mean '{meant}'?"):
        build_model(name, shape=SHAPE, classes=3, width=4)


def test_our_own_networks_do_without_torchvision(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    build_model("nin", shape=SHAPE, classes=3, width=4)
    with pytest.raises(ImportError):
        build_model("resnet18", shape=SHAPE, classes=3, width=4)
