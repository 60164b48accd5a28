"""Reading a split through a network, against plain loops over the same network."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vbs_cli import Logits
from vbs_cli.data import base, noise, open_dataset
from vbs_cli.data.noise import distort
from vbs_cli.errors import NotFinite
from vbs_cli.models import build_model
from vbs_cli.models.dropout import use_generator
from vbs_cli.seeding import generator
from vbs_cli.views import walk as walking
from vbs_cli.views.draws import Draws
from vbs_cli.views.fast import fast
from vbs_cli.views.patches import Patches
from vbs_cli.views.walk import CHUNK, walk

READING = [Patches(kernel=3), Draws(draws=3)]  # views that need one network


@pytest.fixture
def split(made):
    return open_dataset(made / "data", "radio").split("test")


def network(dropout=0.0):
    torch.manual_seed(0)
    model = build_model("conv1d-radio", shape=(2, 200), classes=4, width=6, dropout=dropout)
    model(torch.randn(32, 2, 200))  # give BatchNorm statistics
    return model.eval()


def hook_first_layers(monkeypatch, hook):
    """Call `hook(layer, inputs)` before the first layer of every network that is made ready."""

    def hooked(*args, **options):
        ready = fast(*args, **options)
        ready.net[0].register_forward_pre_hook(hook)
        return ready

    monkeypatch.setattr(walking, "fast", hooked)


@torch.inference_mode()
def test_patches_are_those_of_the_network_with_the_last_incomplete_block(split, monkeypatch):
    monkeypatch.setattr(base, "BLOCK", 32)  # 70 examples: 32 + 32 + 6
    model = network()
    expected = Logits.from_patches(model(split.inputs(slice(None))), labels=split.y, kernel=3)
    [record] = walk(model, split, Patches(kernel=3))
    torch.testing.assert_close(record.logits, expected.logits)
    torch.testing.assert_close(record.sigma, expected.sigma)
    assert torch.equal(record.labels, split.y)


@torch.inference_mode()
def test_noise_reaches_the_network(split):
    model = network()
    x = distort(split.inputs(slice(None)), noise="gaussian", level=0.5, dataset="radio", split="test", block=0)
    [record] = walk(model, split, Patches(kernel=3), noises=["gaussian"], level=0.5)
    torch.testing.assert_close(record.logits, model(x).mean(2))


@pytest.mark.parametrize("view", READING)
def test_several_noises_in_one_walk_give_what_each_gives_alone(split, view, monkeypatch):
    monkeypatch.setattr(base, "BLOCK", 32)
    model = network(0.5 if view == Draws(draws=3) else 0.0)

    def run(noises, **options):
        return walk(model, split, view, noises=noises, level=0.4, **options)

    noises = ["gaussian", "speckle", "salt-and-pepper"]
    counts = []
    together = run(noises, kept=noise.KeptDraws(), advance=counts.append)
    assert sum(counts) == 3 * len(split)
    for each, record in zip(noises, together, strict=True):
        [alone] = run([each])
        assert torch.equal(record.logits, alone.logits)
        assert torch.equal(record.sigma, alone.sigma)
    assert not torch.equal(together[0].logits, together[1].logits)


@torch.inference_mode()
def test_draws_equal_the_plain_loop_with_the_same_masks(split, monkeypatch):
    monkeypatch.setattr(walking, "CHUNK", 40)  # 70 examples: 40 + 30
    model = network(dropout=0.5)
    x = split.inputs(slice(None))
    net = fast(model, (2, 200)).net  # masks follow the memory
    members = []
    for draw in range(3):
        use_generator(net, generator("mc-dropout", 5, "test", draw, 0))
        members.append(torch.cat([net(part).mean(2) for part in (x[:40], x[40:])]))
    [record] = walk(model, split, Draws(draws=3), seed=5)
    torch.testing.assert_close(record.logits, torch.stack(members).mean(0))
    torch.testing.assert_close(record.mean_softmax, torch.stack(members).softmax(2).mean(0))


def test_batch_norm_stays_in_evaluation_mode_while_dropout_draws(split):
    model = network(dropout=0.5).train()
    statistics = {name: value.clone() for name, value in model.named_buffers()}
    [record] = walk(model, split, Draws(draws=3), seed=0)
    assert all(torch.equal(value, statistics[name]) for name, value in model.named_buffers())
    assert record.sigma.min() > 0
    # one example's prediction does not depend on the others of its batch
    [masks_of_first] = walk(model, replace(split, x=split.x[:1], y=split.y[:1]), Draws(draws=3), seed=0)
    assert len(masks_of_first) == 1


def test_logits_that_are_not_finite_are_located_in_the_split(split):
    model = network()
    x = split.x.copy()
    x[41] = float("nan")
    with pytest.raises(NotFinite, match="in 1 of 70 examples, the first is 41"):
        walk(model, replace(split, x=x), Patches(kernel=3))
    twice = replace(split, x=np.concatenate([split.x] * 4 + [x]), y=split.y.repeat(5))
    with pytest.raises(NotFinite, match="the first is 321"):
        walk(model, twice, Patches(kernel=3))


def test_parts_are_kept_on_request_only(split):
    model = network()
    assert walk(model, split, Patches(kernel=3))[0].parts is None
    assert walk(model, split, Patches(kernel=3), keep_parts=True)[0].parts.shape == (70, 4, 10)


@pytest.mark.parametrize("view", READING)
def test_where_memory_runs_out_fewer_examples_go_through_together(split, view, monkeypatch):
    model = network(0.5 if view == Draws(draws=3) else 0.0)
    [whole] = walk(model, split, view)
    sizes = []

    def scarce(module, inputs):
        sizes.append(len(inputs[0]))
        if len(inputs[0]) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")

    hook_first_layers(monkeypatch, scarce)
    [again] = walk(model, split, view)
    assert max(sizes) == CHUNK
    assert sum(size for size in sizes if size <= 10) == len(split)
    if view == Patches(kernel=3):
        torch.testing.assert_close(again.logits, whole.logits)
    assert torch.equal(again.labels, whole.labels)


def test_other_errors_and_memory_for_not_even_one_example_are_passed_on(split, monkeypatch):
    model = build_model("conv1d-radio", shape=(2, 200), classes=4, width=6).eval()

    def never(module, inputs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        hook_first_layers(patch, never)
        with pytest.raises(torch.OutOfMemoryError):
            walk(model, split, Patches(kernel=3))
    with pytest.raises(RuntimeError, match="channel dimensions"):
        walk(torch.nn.Sequential(torch.nn.Conv1d(3, 4, 5)), split, Patches(kernel=3))
