"""Noise: one standard draw per example, scaled by the level."""

import pytest
import torch

from vbs_cli.data import NOISES
from vbs_cli.data.noise import distort

PLACE = {"dataset": "radio", "split": "test", "block": 0}


def inputs():
    return torch.randn(8, 2, 50, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("noise", list(NOISES))
def test_level_zero_is_the_identity_bit_for_bit(noise):
    x = inputs()
    assert torch.equal(distort(x, noise=noise, level=0.0, **PLACE), x)


@pytest.mark.parametrize("noise", list(NOISES))
def test_the_draw_depends_on_the_place_and_not_on_the_level(noise):
    x = inputs()
    half, full = (distort(x, noise=noise, level=level, **PLACE) - x for level in (0.5, 1.0))
    torch.testing.assert_close(2 * half, full, atol=1e-5, rtol=1e-4)
    elsewhere = distort(x, noise=noise, level=1.0, dataset="radio", split="test", block=1) - x
    assert not torch.allclose(full, elsewhere)


def test_gaussian_noise_adds_and_speckle_noise_multiplies():
    x = torch.full((200, 1, 500), 3.0)
    for noise, expected in (("gaussian", 0.4), ("speckle", 1.2)):
        added = distort(x, noise=noise, level=0.4, **PLACE) - x
        assert added.mean().item() == pytest.approx(0, abs=0.01)
        assert added.std().item() == pytest.approx(expected, rel=0.01)
    silent = torch.zeros(2, 1, 10)
    assert torch.equal(distort(silent, noise="speckle", level=1.0, **PLACE), silent)


def test_inputs_are_left_as_they_were():
    x = inputs()
    kept = x.clone()
    for noise in NOISES:
        distort(x, noise=noise, level=1.0, **PLACE)
    assert torch.equal(x, kept)
