"""Dropout with a generator of its own."""

import pytest
import torch

from vbs_cli.models import build_model
from vbs_cli.models.dropout import Dropout, drop_mask, use_generator


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("p", [0.5, 0.25, 0.2])
def test_masks_drop_the_right_share_everywhere_and_scale_the_rest(p):
    mask = drop_mask(torch.empty(400, 7, 33), p, rng())
    assert mask.dtype == torch.float32
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - p)])
    kept = (mask > 0).double()
    assert kept.mean().item() == pytest.approx(1 - p, abs=0.005)
    # no position of a word is favoured: every unit is kept as often, within five standard deviations
    assert (kept.mean(0) - (1 - p)).abs().max() < 5 * (p * (1 - p) / 400) ** 0.5


def test_bits_of_a_mask_are_independent_of_their_neighbours():
    mask = drop_mask(torch.empty(200_000), 0.5, rng()).double() - 1
    for lag in (1, 7, 8, 63, 64):
        assert abs((mask[lag:] * mask[:-lag]).mean().item()) < 0.02


def test_the_mean_is_kept_and_the_same_generator_gives_the_same_draw():
    layer = Dropout(0.5)
    x = torch.ones(50, 1000)
    layer.generator = rng(3)
    first = layer(x)
    layer.generator = rng(3)
    assert torch.equal(first, layer(x))
    assert first.mean().item() == pytest.approx(1, abs=0.02)
    assert set(first.unique().tolist()) == {0.0, 2.0}


def test_without_a_generator_nothing_is_dropped_and_the_global_state_is_never_touched():
    model = build_model("conv1d-radio", shape=(2, 200), classes=4, width=4, dropout=0.5).eval()
    x = torch.randn(3, 2, 200)
    before = torch.random.get_rng_state()
    assert torch.equal(model(x), model(x))
    use_generator(model, rng())
    assert not torch.equal(model(x), model(x))
    use_generator(model, None)
    assert torch.equal(model(x), model(x))
    assert torch.equal(before, torch.random.get_rng_state())


def test_gradients_pass_only_where_units_were_kept():
    layer = Dropout(0.5)
    layer.generator = rng()
    x = torch.ones(100, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("p", [0.5, 0.25, 0.2])
def test_a_mask_lies_in_memory_like_its_input_and_is_the_same_for_every_example_before_it(p):
    x = torch.empty(6, 5, 4, 4).contiguous(memory_format=torch.channels_last)
    mask = drop_mask(x, p, rng())
    assert mask.stride() == x.stride()
    assert torch.equal(mask[:3].flatten(), drop_mask(x[:3], p, rng()).flatten())
