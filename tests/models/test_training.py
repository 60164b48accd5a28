"""Training: it learns, resumes to the same bits, and depends on nothing but its seed."""

from itertools import islice

import pytest
import torch
from torch import nn

from tests.conftest import SMALL
from vbs_cli.data import open_dataset
from vbs_cli.errors import NotFinite
from vbs_cli.models import build_model
from vbs_cli.models.training import Schedule, initialised, train
from vbs_cli.run.formats import checkpoint_bytes, checkpoint_from


@pytest.fixture
def splits(made):
    data = open_dataset(made / "data", "radio")
    return data.split("train"), data.split("val")


def network(role):
    dropout = 0.5 if role == "dropout" else 0.0
    return initialised(
        lambda: build_model("conv1d-radio", shape=(2, 200), classes=4, width=6, dropout=dropout), seed=0, role=role
    )


def start(splits, role="conventional", *, seed=0, epochs=3, resume=None, lr=SMALL.lr):
    return train(network(role), *splits, Schedule(epochs, batch=32, lr=lr), seed=seed, role=role, resume=resume)


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_loss_falls_and_accuracy_beats_chance(splits):
    *_, last = start(splits, epochs=12)
    assert last.history[-1].loss < 0.7 * last.history[0].loss
    assert last.history[-1].val_accuracy > 0.6
    assert [epoch.epoch for epoch in last.history] == list(range(1, 13))


@pytest.mark.parametrize("role", ["conventional", "dropout"])
def test_a_resumed_training_ends_with_the_same_bits(splits, role):
    *_, whole = start(splits, role)
    (first,) = islice(start(splits, role), 1)
    saved = checkpoint_from(checkpoint_bytes(first))
    *_, resumed = start(splits, role, resume=saved)
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
    a, b = (initialised(lambda: nn.Linear(3, 3), seed=s, role="conventional") for s in (0, 1))
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
