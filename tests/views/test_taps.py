"""Summaries of intermediate activations, against numpy on activations that the test itself takes from the network."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.fixtures.networks import trained
from vbs_cli import Logits
from vbs_cli.data import base, open_dataset
from vbs_cli.errors import InvalidInput, NotFinite
from vbs_cli.models import build_model
from vbs_cli.models.memory import to_device
from vbs_cli.views import walk as walking
from vbs_cli.views.fast import CONVOLUTIONS, fast
from vbs_cli.views.patches import Patches, patches_of
from vbs_cli.views.taps import FLOOR, MOST, find_taps, summary
from vbs_cli.views.walk import CHUNK, walk

# By name: the shape of an input, the width, and the channels of the tapped layers.
NETWORKS = {
    "conv1d-radio": ((2, 400), 6, [6, 6, 6, 6, 6]),
    "nin": ((3, 32, 32), 48, [48, 40, 48, 48, 48, 48]),  # the third and the sixth of eight are left out
    "resnet18": ((3, 64, 64), 1, [64, 64, 128, 256, 512, 512]),
}
VIEW = Patches(kernel=3)


def ready(name):
    shape, width, _ = NETWORKS[name]
    return fast(trained(name, shape, width=width), shape)


def images_or_signals(name, count=7):
    return torch.randn(count, *NETWORKS[name][0], generator=torch.Generator().manual_seed(1))


def convolutions(net):
    return [name for name, layer in net.named_modules() if isinstance(layer, CONVOLUTIONS)]


@pytest.mark.parametrize("name", NETWORKS)
def test_channels_are_found_in_the_order_of_the_layers(name):
    shape, _, channels = NETWORKS[name]
    net = ready(name).net
    taps = find_taps(net, shape)
    assert list(taps.channels.values()) == channels
    assert taps.sizes == {f"activations.{place}": 2 * count for place, count in enumerate(channels)}
    assert next(iter(taps.channels)) == convolutions(net)[0]


@pytest.mark.parametrize("name", ["conv1d-radio", "nin"])
def test_the_convolution_that_gives_the_patch_logits_is_not_tapped(name):
    net = ready(name).net
    *others, head = convolutions(net)
    tapped = list(find_taps(net, NETWORKS[name][0]).channels)
    assert head not in tapped
    assert tapped[-1] == others[-1]


def test_a_last_convolution_with_as_many_channels_as_classes_is_tapped_where_a_linear_layer_follows():
    model = build_model("resnet18", shape=(3, 64, 64), classes=512, width=1).eval()
    assert list(find_taps(fast(model, (3, 64, 64)).net, (3, 64, 64)).channels)[-1] == "layer4.1.conv2"


def test_a_deep_network_is_tapped_over_its_whole_depth_and_a_shallow_one_in_every_layer():
    net = fast(trained("densenet121", (3, 64, 64)), (3, 64, 64)).net
    every, tapped = convolutions(net), list(find_taps(net, (3, 64, 64)).channels)
    assert len(every) > 100
    assert len(tapped) == MOST
    assert (tapped[0], tapped[-1]) == (every[0], every[-1])
    places = [every.index(name) for name in tapped]
    assert np.diff(places) == pytest.approx(np.full(MOST - 1, len(every) / (MOST - 1)), abs=2)
    shallow = ready("conv1d-radio").net
    assert list(find_taps(shallow, (2, 400)).channels) == convolutions(shallow)[:-1]


class Gated(nn.Module):
    """A convolution that runs twice, and one over a single position."""

    def __init__(self):
        super().__init__()
        self.first, self.twice = nn.Conv1d(2, 4, 3), nn.Conv1d(4, 4, 3, padding=1)
        self.gate, self.head = nn.Conv1d(4, 4, 1), nn.Conv1d(4, 3, 1)

    def forward(self, x):
        x = self.twice(self.twice(self.first(x)).relu())
        return self.head(x * self.gate(x.mean(2, keepdim=True)).sigmoid())


def test_layers_that_run_twice_or_have_a_single_position_are_left_out():
    assert dict(find_taps(Gated(), (2, 50)).channels) == {"first": 4}


def by_hand(net, names, x):
    """Mean and logarithm of the standard deviation over positions, in float64: {name: (N, 2C)}."""
    taken = {}
    hooks = [
        net.get_submodule(name).register_forward_hook(
            lambda layer, inputs, output, name=name: taken.update({name: output.numpy().astype(np.float64)})
        )
        for name in names
    ]
    net(to_device(x))
    for hook in hooks:
        hook.remove()
    flat = {name: values.reshape(*values.shape[:2], -1) for name, values in taken.items()}
    return {name: np.concatenate([a.mean(2), np.log(a.std(2, ddof=1))], axis=1) for name, a in flat.items()}


def by_taps(net, name, x, *, chunk):
    taps = find_taps(net, NETWORKS[name][0])
    with taps.on(net):
        patches_of(net, x, device="cpu", chunk=chunk)
    return taps.extras(len(x))


@pytest.mark.parametrize("name", NETWORKS)
@torch.inference_mode()
def test_summaries_are_those_of_numpy_in_double_precision(name):
    net, x = ready(name).net, images_or_signals(name)
    expected = by_hand(net, find_taps(net, NETWORKS[name][0]).channels, x)
    found = by_taps(net, name, x, chunk=3)
    assert list(found) == [f"activations.{place}" for place in range(len(expected))]
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
@torch.inference_mode()
def test_summaries_do_not_depend_on_the_size_of_the_chunks(name):
    net, x = ready(name).net, images_or_signals(name)
    whole, *others = (by_taps(net, name, x, chunk=chunk) for chunk in (7, 1, 4))
    for other in others:
        for extra, values in whole.items():
            torch.testing.assert_close(other[extra], values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 50), (2, 3, 5, 7)])
@pytest.mark.parametrize("value", [0.0, 0.7, -3.3])
def test_the_deviation_of_constant_activations_ends_at_its_floor(shape, value):
    found = summary(torch.full(shape, value))
    torch.testing.assert_close(found[:, :3], torch.full((2, 3), value))
    assert FLOOR == 1e-6
    torch.testing.assert_close(found[:, 3:], torch.full((2, 3), float(np.log(1e-6))))


def test_a_summary_is_in_single_precision_and_leaves_the_activations_alone():
    x = torch.randn(4, 3, 6, 5, generator=torch.Generator().manual_seed(0))
    for given in (x.clone(), x.to(memory_format=torch.channels_last), x.bfloat16()):
        before = given.clone()
        found = summary(given)
        assert torch.equal(given, before)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found[:, 3:], given.float().flatten(2).std(2).log(), rtol=1e-5, atol=1e-6)


@pytest.fixture
def split(made):
    return open_dataset(made / "data", "radio").split("test")


@pytest.fixture
def model():
    return trained("conv1d-radio", (2, 200), width=6)


def seen_networks(monkeypatch, hook=None, layer=0):
    """Networks that `walk` makes ready, with `hook(inputs)` before a layer of each whenever it runs on data."""
    nets = []

    def before(layer, inputs):
        if not inputs[0].is_meta:
            hook(inputs[0])

    def watched(*args, **options):
        made_ready = fast(*args, **options)
        nets.append(made_ready.net)
        if hook:
            made_ready.net[layer].register_forward_pre_hook(before)
        return made_ready

    monkeypatch.setattr(walking, "fast", watched)
    return nets


@pytest.mark.parametrize("noises", [[""], ["gaussian", "speckle"]])
@torch.inference_mode()
def test_a_record_has_the_activations_of_all_its_examples_and_the_same_logits(split, model, noises, monkeypatch):
    monkeypatch.setattr(base, "BLOCK", 32)  # 70 examples: 32 + 32 + 6
    plain = walk(model, split, VIEW, noises=noises, level=0.4 if noises[0] else 0.0)
    records = walk(model, split, VIEW, noises=noises, level=0.4 if noises[0] else 0.0, extras=("activations",))
    for record, without in zip(records, plain, strict=True):
        assert [each.shape for each in record.activations] == [(70, 12)] * 5
        assert torch.equal(record.logits, without.logits)
        assert torch.equal(record.sigma, without.sigma)
    if not noises[0]:
        net = fast(model, (2, 200)).net
        expected = by_hand(net, find_taps(net, (2, 200)).channels, split.inputs(slice(None)))
        for ours, theirs in zip(records[0].activations, expected.values(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
    else:
        assert not torch.equal(records[0].activations[0], records[1].activations[0])
        [alone] = walk(model, split, VIEW, noises=noises[1:], level=0.4, extras=("activations",))
        assert torch.equal(alone.activations[0], records[1].activations[0])


def test_activations_come_beside_other_extras_and_only_when_asked_for(split, model):
    [record] = walk(model, split, VIEW, extras=("sigma_softmax", "activations"))
    assert set(record.extras) == {"sigma_softmax", *(f"activations.{place}" for place in range(5))}
    [without] = walk(model, split, VIEW, extras=("sigma_softmax",))
    assert set(without.extras) == {"sigma_softmax"}
    assert torch.equal(record.sigma_of("softmax"), without.sigma_of("softmax"))
    with pytest.raises(InvalidInput, match="no activations"):
        _ = without.activations


def test_activations_survive_a_round_trip_through_tensors_and_a_join(split, model):
    [record] = walk(model, split, VIEW, extras=("activations",))
    again = Logits.from_tensors(record.tensors())
    twice = Logits.concat([record, again])
    assert len(record.activations) == len(again.activations) == len(twice.activations) == 5
    for layer, same, both in zip(record.activations, again.activations, twice.activations, strict=True):
        assert torch.equal(same, layer)
        assert torch.equal(both, torch.cat([layer, layer]))


def test_layers_stay_in_their_order_where_there_are_more_than_ten():
    extras = {f"activations.{place}": torch.full((2, 4), float(place)) for place in range(12)}
    record = Logits(torch.randn(2, 3), extras=dict(sorted(extras.items())))
    assert [float(layer[0, 0]) for layer in record.activations] == list(range(12))


def test_no_hook_is_left_behind(split, model, monkeypatch):
    nets = seen_networks(monkeypatch)
    walk(model, split, VIEW, extras=("activations",))
    x = split.x.copy()
    x[41] = float("nan")
    with pytest.raises(NotFinite):
        walk(model, replace(split, x=x), VIEW, extras=("activations",))
    assert len(nets) == 2
    for net in (model, *nets):
        assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in net.modules())


class Flat(nn.Module):
    """Patch logits by a linear layer on ten pieces of a signal."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(40, 4)

    def forward(self, x):
        return self.linear(x.unflatten(2, (10, 20)).movedim(2, 1).flatten(2)).movedim(2, 1)


def test_a_network_without_convolutions_has_no_activations(split):
    [record] = walk(Flat(), split, VIEW, extras=("activations",))
    with pytest.raises(InvalidInput, match="no activations; only a pass of a convolutional network"):
        _ = record.activations


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_pass_that_ran_out_of_memory_and_was_repeated_counts_once(split, model, monkeypatch, error):
    """Memory runs out in the third of five convolutions, when the first two have been summarised."""
    [whole] = walk(model, split, VIEW, extras=("activations",))
    sizes = []

    def scarce(x):
        sizes.append(len(x))
        if len(x) > 10:
            raise error

    seen_networks(monkeypatch, scarce, layer=5)
    [again] = walk(model, split, VIEW, extras=("activations",))
    assert sizes[:4] == [CHUNK, CHUNK // 2, CHUNK // 4, CHUNK // 8]
    for expected, found in zip(whole.activations, again.activations, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_pass_that_ran_out_of_memory_in_its_second_chunk_counts_once(split, model, monkeypatch):
    """Chunks that went well before are run and summarised once more."""
    [whole] = walk(model, split, VIEW, extras=("activations",))
    sizes = []

    def scarce(x):
        sizes.append(len(x))
        if len(sizes) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    seen_networks(monkeypatch, scarce, layer=5)
    [again] = walk(model, split, VIEW, extras=("activations",))
    assert sizes == [64, 6, 32, 32, 6]
    for expected, found in zip(whole.activations, again.activations, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
