"""A network of the test's own, with another loss and a memory, trained by the loop that trains all of them."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest
import torch
from torch import nn

from tests.conftest import SMALL
from vbs_cli.data import open_dataset
from vbs_cli.models.dropout import Dropout
from vbs_cli.networks import NETWORKS, Network
from vbs_cli.networks.training import Schedule, initialised, train
from vbs_cli.pairs import configured
from vbs_cli.run.formats import checkpoint_bytes, checkpoint_from
from vbs_cli.settings import override

PLAN = Schedule(epochs=4, batch=32, lr=SMALL.lr)


@dataclass(frozen=True)
class Focal(Network):
    """Focal loss that grows sharper with the epochs, and the running mean of the weights."""

    artifacts: ClassVar[tuple[str, ...]] = ("mean", "last")

    gamma: float = 1.0
    heard: list = field(default_factory=list, compare=False)  # what the loop has called it with

    def loss(self, logits, labels, *, epoch):
        self.heard.append(("loss", epoch, len(labels), logits.requires_grad))
        scores = logits.log_softmax(1).gather(1, labels[:, None]).squeeze(1)
        return -((1 - scores.exp()) ** (self.gamma * epoch) * scores).mean()

    def after_epoch(self, model, memory, *, epoch):
        self.heard.append(("after", epoch))
        weights = dict(model.named_parameters())
        seen = memory.get("seen", torch.zeros(1)) + 1
        old = {name: memory.get(name, torch.zeros_like(value)) for name, value in weights.items()}
        return {"seen": seen, **{name: old[name].lerp(value, 1 / seen) for name, value in weights.items()}}

    def finish(self, model, memory, data, *, seed, device):
        mean = {name: value for name, value in memory.items() if name != "seen"}
        return {"mean": mean, "last": dict(model.named_parameters())}


@pytest.fixture
def splits(made):
    data = open_dataset(made / "data", "radio")
    return data.split("train"), data.split("val")


def untrained(network, seed=0):
    return initialised(
        lambda: network.build("conv1d-radio", shape=(2, 200), classes=4, width=6), seed=seed, name="focal"
    )


def trained(network, splits, plan=PLAN, *, resume=None):
    """A checkpoint for every epoch, taken through the bytes of its file."""
    made = train(untrained(network), *splits, plan, seed=0, name="focal", network=network, resume=resume)
    return [checkpoint_from(checkpoint_bytes(checkpoint)) for checkpoint in made]


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def scores_of(weights, network, split):
    model = untrained(network)
    model.load_state_dict(weights)
    with torch.inference_mode():
        return model.eval()(split.inputs(slice(None))).mean(2)


def test_the_loss_sees_the_epochs_from_one_in_training_and_in_validation(splits):
    network = Focal()
    trained(network, splits)
    expected = []
    for epoch in (1, 2, 3, 4):
        expected += [("loss", epoch, 32, True)] * 3  # 96 training examples in batches of 32
        expected += [("after", epoch), ("loss", epoch, 60, False)]
    assert network.heard == expected


def test_the_loss_of_validation_is_that_of_the_network(splits):
    network, val = Focal(gamma=2.0), splits[1]
    checkpoints = trained(network, splits)
    for checkpoint in checkpoints:
        epoch = checkpoint.history[-1]
        scores = scores_of(checkpoint.weights, network, val)
        expected = float(network.loss(scores.double(), val.y, epoch=epoch.epoch))
        assert epoch.val_loss == pytest.approx(expected, rel=1e-5)
        assert epoch.val_loss != pytest.approx(float(nn.functional.cross_entropy(scores, val.y)), rel=1e-2)
        assert epoch.val_accuracy == pytest.approx(float((scores.argmax(1) == val.y).double().mean()))


def test_the_loss_of_training_is_that_of_the_network(splits):
    """Without steps of the optimiser, and in one batch, it is the loss of the first weights on all examples."""
    network, data = Focal(), splits[0]
    [checkpoint] = trained(network, splits, Schedule(epochs=1, batch=len(data), lr=0.0))
    model = untrained(network).train()
    with torch.no_grad():
        expected = float(network.loss(model(data.inputs(slice(None))).mean(2), data.y, epoch=1))
    assert checkpoint.history[0].loss == pytest.approx(expected, rel=1e-5)


def test_another_loss_gives_other_weights(splits):
    focal, sharper, plain = (trained(network, splits)[-1] for network in (Focal(), Focal(gamma=3.0), Network()))
    assert not equal(focal.weights, plain.weights)
    assert not equal(focal.weights, sharper.weights)


@pytest.mark.parametrize("stopped", [1, 2, 3])
def test_a_training_that_goes_on_from_any_checkpoint_ends_with_the_same_bits_and_memory(splits, stopped):
    whole = trained(Focal(), splits)
    before = checkpoint_bytes(whole[stopped - 1])
    resumed = trained(Focal(), splits, resume=whole[stopped - 1])
    assert checkpoint_bytes(whole[stopped - 1]) == before
    assert [checkpoint.epoch for checkpoint in resumed] == [*range(stopped + 1, 5)]
    for ours, theirs in zip(resumed, whole[stopped:], strict=True):
        for tensors in ("weights", "optimizer", "best", "memory"):
            assert equal(getattr(ours, tensors), getattr(theirs, tensors))
        assert [(e.loss, e.val_loss) for e in ours.history] == [(e.loss, e.val_loss) for e in theirs.history]


def test_the_memory_is_what_the_epochs_so_far_have_left(splits):
    checkpoints = trained(Focal(), splits)
    assert [float(checkpoint.memory["seen"]) for checkpoint in checkpoints] == [1, 2, 3, 4]
    for epoch, checkpoint in enumerate(checkpoints, 1):
        for name in dict(untrained(Focal()).named_parameters()):
            mean = torch.stack([each.weights[name] for each in checkpoints[:epoch]]).mean(0)
            torch.testing.assert_close(checkpoint.memory[name], mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stopped", [None, 1, 3])
def test_what_a_network_leaves_at_the_end_follows_from_its_memory(splits, stopped):
    network, (data, _) = Focal(), splits
    whole = trained(network, splits)
    *_, last = whole if stopped is None else trained(network, splits, resume=whole[stopped - 1])
    model = untrained(network)
    model.load_state_dict(last.weights)
    found = network.finish(model.eval(), last.memory, data, seed=0, device="cpu")
    assert tuple(found) == network.artifacts
    assert equal(found["mean"], {name: whole[-1].memory[name] for name in found["mean"]})
    assert found["mean"].keys() == found["last"].keys()
    assert not equal(found["mean"], found["last"])


@dataclass(frozen=True)
class Careless(Network):
    """A memory that is changed in place, and one that is a weight of the network itself."""

    def after_epoch(self, model, memory, *, epoch):
        first = next(model.parameters())
        if epoch == 1:
            return {"first": first, "sum": torch.zeros_like(first)}
        memory["sum"].data += first
        return memory


def test_a_memory_that_is_changed_in_place_leaves_earlier_checkpoints_as_they_were(splits):
    made = train(untrained(Careless()), *splits, PLAN, seed=0, name="focal", network=Careless())
    kept, written = [], []
    for checkpoint in made:
        kept.append(checkpoint)
        written.append(checkpoint_bytes(checkpoint))
    assert [checkpoint_bytes(checkpoint) for checkpoint in kept] == written
    first = next(iter(kept[0].weights))
    assert all(torch.equal(checkpoint.memory["first"], kept[0].weights[first]) for checkpoint in kept)
    *_, resumed = trained(Careless(), splits, resume=kept[1])
    assert equal(resumed.memory, kept[-1].memory)
    assert not any(value.requires_grad for checkpoint in kept for value in checkpoint.memory.values())


@dataclass(frozen=True)
class Rising(Network):
    """A loss that grows with the epochs, whatever is learned."""

    def loss(self, logits, labels, *, epoch):
        return super().loss(logits, labels, epoch=epoch) + 10 * epoch


def test_the_best_weights_and_an_early_stop_follow_the_loss_of_the_network(splits):
    checkpoints = trained(Rising(), splits)
    assert equal(checkpoints[-1].best, checkpoints[0].weights)
    plain = trained(Network(), splits)
    assert equal(checkpoints[-1].weights, plain[-1].weights)
    assert not equal(plain[-1].best, plain[0].weights)
    assert len(trained(Rising(), splits, replace(PLAN, patience=2))) == 3


def test_a_network_is_the_conventional_one_unless_it_says_otherwise(splits):
    logits, labels = torch.randn(5, 4), torch.arange(5) % 4
    network = Network()
    assert torch.equal(network.loss(logits, labels, epoch=3), nn.functional.cross_entropy(logits, labels))
    assert network.artifacts == ()
    assert trained(network, splits)[-1].memory == {}
    assert network.finish(untrained(network), {}, splits[0], seed=0, device="cpu") == {}
    usual = list(train(untrained(network), *splits, PLAN, seed=0, name="focal"))[-1]
    assert equal(usual.weights, trained(network, splits)[-1].weights)
    assert equal(usual.weights, trained(NETWORKS["conventional"](), splits)[-1].weights)


def test_the_network_of_mc_dropout_has_dropouts_of_the_chosen_share_and_the_conventional_one_has_none():
    settings = override(SMALL, {"dropout": 0.25})

    def shares(name):
        model = untrained(configured(NETWORKS[name], name, settings))
        return [layer.p for layer in model.modules() if isinstance(layer, Dropout)]

    assert shares("dropout") == [0.25] * 5
    assert shares("conventional") == []
