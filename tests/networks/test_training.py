"""Training: it learns, resumes to the same bits, and depends on nothing but its seed."""

from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import nn

from tests.conftest import SMALL
from vbs_cli.data import Split, open_dataset
from vbs_cli.errors import NotFinite
from vbs_cli.models import build_model
from vbs_cli.networks.training import Schedule, initialised, loaded, train
from vbs_cli.run.formats import checkpoint_bytes, checkpoint_from


@pytest.fixture
def splits(made):
    data = open_dataset(made / "data", "radio")
    return data.split("train"), data.split("val")


def network(name):
    dropout = 0.5 if name == "dropout" else 0.0
    return initialised(
        lambda: build_model("conv1d-radio", shape=(2, 200), classes=4, width=6, dropout=dropout), seed=0, name=name
    )


def start(splits, name="conventional", *, seed=0, epochs=3, resume=None, lr=SMALL.lr):
    return train(network(name), *splits, Schedule(epochs, batch=32, lr=lr), seed=seed, name=name, resume=resume)


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_loss_falls_and_accuracy_beats_chance(splits):
    *_, last = start(splits, epochs=12)
    assert last.history[-1].loss < 0.7 * last.history[0].loss
    assert last.history[-1].val_accuracy > 0.6
    assert [epoch.epoch for epoch in last.history] == list(range(1, 13))


@pytest.mark.parametrize("name", ["conventional", "dropout"])
def test_a_resumed_training_ends_with_the_same_bits(splits, name):
    *_, whole = start(splits, name)
    (first,) = islice(start(splits, name), 1)
    saved = checkpoint_from(checkpoint_bytes(first))
    *_, resumed = start(splits, name, resume=saved)
    assert equal(whole.weights, resumed.weights)
    assert equal(whole.optimizer, resumed.optimizer)
    assert [e.loss for e in whole.history] == [e.loss for e in resumed.history]


def test_another_seed_gives_other_weights_and_the_global_state_does_not_matter(splits):
    *_, a = start(splits)
    torch.manual_seed(1234)
    torch.rand(7)
    *_, b = start(splits)
    *_, c = start(splits, seed=1)
    assert equal(a.weights, b.weights)
    assert not equal(a.weights, c.weights)


def test_first_weights_differ_between_seeds_and_leave_the_global_state_alone():
    before = torch.random.get_rng_state()
    a, b = (initialised(lambda: nn.Linear(3, 3), seed=s, name="conventional") for s in (0, 1))
    assert not torch.equal(a.weight, b.weight)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_loss_that_is_not_a_number_stops_the_training(splits):
    with pytest.raises(NotFinite, match="loss became"):
        list(start(splits, lr=1e30))


def test_validation_is_without_dropout(splits):
    (checkpoint,) = islice(start(splits, "dropout"), 1)
    model = network("dropout")
    model.load_state_dict(checkpoint.weights)
    val = splits[1]
    with torch.inference_mode():
        scores = model.eval()(val.inputs(slice(None))).mean(2)
    assert checkpoint.history[-1].val_accuracy == pytest.approx((scores.argmax(1) == val.y).double().mean().item())


def pictures(count, seed):
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 2
    x = torch.rand(count, 3, 16, 16, generator=rng) * 0.3 + 0.5 * y[:, None, None, None]
    return Split("folder", "train", x.numpy(), y)


@pytest.mark.parametrize(("name", "dropout"), [("nin", 0.0), ("nin", 0.25), ("resnet18", 0.25)])
def test_networks_for_images_resume_to_the_same_bits_though_their_channels_lie_last(name, dropout):
    size = 64 if name == "resnet18" else 16

    def begin(resume=None):
        model = initialised(
            lambda: build_model(name, shape=(3, size, size), classes=2, width=12, dropout=dropout), seed=0, name="x"
        )
        data, val = pictures(24, 0), pictures(8, 1)
        if size == 64:
            data, val = (replace(split, x=split.x.repeat(4, 2).repeat(4, 3)) for split in (data, val))
        return train(model, data, val, Schedule(2, batch=8, lr=1e-3), seed=0, name="x", resume=resume)

    first, whole = begin()
    (resumed,) = begin(checkpoint_from(checkpoint_bytes(first)))
    assert equal(whole.weights, resumed.weights)
    assert equal(whole.optimizer, resumed.optimizer)
    assert equal(whole.best, resumed.best)


def test_the_best_weights_are_those_of_the_lowest_validation_loss(splits):
    checkpoints = list(start(splits, epochs=12, lr=0.2))
    losses = [checkpoint.history[-1].val_loss for checkpoint in checkpoints]
    best = checkpoints[losses.index(min(losses))]
    assert best.epoch < 12
    assert equal(checkpoints[-1].best, best.weights)
    assert not equal(checkpoints[-1].best, checkpoints[-1].weights)
    saved = checkpoint_from(checkpoint_bytes(checkpoints[-1]))
    assert equal(saved.best, best.weights)


def test_mixed_precision_learns_the_same_thing(splits):
    full, mixed = (
        list(train(network("conventional"), *splits, Schedule(6, 32, SMALL.lr, precision=p), seed=0, name="x"))[-1]
        for p in ("float32", "bfloat16")
    )
    assert all(value.dtype != torch.bfloat16 for value in mixed.weights.values())
    assert not equal(full.weights, mixed.weights)
    assert mixed.history[-1].loss == pytest.approx(full.history[-1].loss, rel=0.1)


@pytest.mark.parametrize("name", ["conventional", "dropout"])
def test_a_compiled_network_is_trained_to_the_same_weights(splits, name, monkeypatch):
    real = torch.compile
    calls = []
    # the compiler itself takes half a minute; what matters here is what it is given
    monkeypatch.setattr(torch, "compile", lambda model: calls.append(model) or real(model, backend="eager"))
    plain, compiled = (
        list(train(network(name), *splits, Schedule(1, 32, SMALL.lr, compile=c), seed=0, name=name))[-1]
        for c in (False, True)
    )
    assert len(calls) == 1
    assert equal(plain.weights, compiled.weights)


def test_layers_that_draw_numbers_of_their_own_are_repeatable_too(splits):
    def noisy():
        return initialised(lambda: nn.Sequential(nn.Conv1d(2, 4, 9), nn.Dropout(0.5)), seed=0, name="x")

    torch.manual_seed(3)
    a, b = (list(train(noisy(), *splits, Schedule(2, 32, 1e-2), seed=0, name="x"))[-1] for _ in range(2))
    assert equal(a.weights, b.weights)


def test_batches_that_are_loaded_ahead_are_the_same_in_the_same_order(splits):
    data = splits[0]
    batches = torch.split(torch.randperm(len(data)), 10)
    plain = list(loaded(data, batches, "cpu"))
    ahead = list(loaded(data, batches, "meta"))  # a device other than the CPU, of which every machine has one
    assert [x.shape for x, _ in ahead] == [x.shape for x, _ in plain]
    assert all(x.device.type == "meta" for x, _ in ahead)
    assert torch.equal(torch.cat([y for _, y in plain]), data.y[torch.cat(batches)])


def test_progress_within_an_epoch_is_told(splits):
    seen, examples = [], []
    schedule = Schedule(2, 2, SMALL.lr)
    *_, last = train(
        network("conventional"), *splits, schedule, seed=0, name="x", advance=examples.append, watch=seen.append
    )
    assert sum(examples) == 2 * len(splits[0])
    assert [sight.epoch for sight in seen] == [1, 1, 1, 2, 2, 2]  # 48 steps each: after 20, 40 and the last
    assert seen[-1].loss == last.history[-1].loss
    assert seen[-1].accuracy == last.history[-1].accuracy
    assert all(sight.speed > 0 for sight in seen)
