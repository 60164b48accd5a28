"""Noises of single values of images: shot and impulse noise."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from vbs_cli.data.noises.pixels import IMPULSES, PHOTONS, poisson_quantiles

from .pictures import NUMBERED, as_tensor, distorted, smooth


def quantiles_of_scipy(mean, z):
    return stats.poisson.ppf(stats.norm.cdf(z.double().numpy()), mean.double().numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("low", "high", "apart"),
    [
        (0, 10, 1e-5),  # by sums
        (10, 20, 1e-3),  # by the expansion: 3 of 10,000 differ
        (20, 100, 2e-4),
        (100, 500, 5e-5),
    ],
)
def test_poisson_quantiles_are_scipys_or_one_beside_them(low, high, apart, dtype):
    rng = torch.Generator().manual_seed(0)
    mean = (low + (high - low) * torch.rand(200_000, generator=rng)).to(dtype)
    z = torch.randn(200_000, generator=rng).to(dtype)
    off = np.abs(poisson_quantiles(mean, z).double().numpy() - quantiles_of_scipy(mean, z))
    assert off.max() <= 1
    assert (off > 0).mean() < apart


def test_poisson_quantiles_far_out_are_scipys_or_one_beside_them():
    z = torch.linspace(-5.5, 5.5, 221).double()  # one draw of 26 million lies beyond
    for mean in (0.0, 1e-6, 0.3, 3.0, 9.99, 10.01, 30.0, 400.0):
        expected = quantiles_of_scipy(torch.full_like(z, mean), z)
        assert np.abs(poisson_quantiles(torch.full_like(z, mean), z).numpy() - expected).max() <= 1


def test_poisson_quantiles_have_the_mean_and_the_variance_of_a_poisson_variable():
    z = torch.special.ndtri((torch.arange(100_000) + 0.5).double() / 100_000)
    for mean in (0.5, 5.0, 50.0):
        counts = poisson_quantiles(torch.full_like(z, mean), z)
        assert counts.mean().item() == pytest.approx(mean, rel=0.005)
        assert counts.var().item() == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_shot_noise_counts_the_published_number_of_photons(severity, level):
    x = torch.full((4, 3, 100, 100), 0.4, dtype=torch.float64)
    noisy = distorted("shot", x, level)
    counts = noisy * PHOTONS[severity]
    torch.testing.assert_close(counts, counts.round())
    assert noisy.mean().item() == pytest.approx(0.4, rel=0.005)
    assert noisy.var().item() == pytest.approx(0.4 / PHOTONS[severity], rel=0.03)


def test_shot_noise_leaves_black_as_it_is_and_nothing_brighter_than_white():
    x = torch.cat([torch.zeros(2, 1, 50, 50), torch.ones(2, 1, 50, 50)])
    noisy = distorted("shot", x, 1.0)
    assert (noisy[:2] == 0).all()
    assert noisy.max() == 1
    assert noisy[2:].min() < 1


def test_more_light_changes_little_of_what_the_same_draw_gave():
    x = as_tensor(smooth())
    draw = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    some, more = (distorted("shot", x, level, draw) - x for level in (0.5, 0.51))
    assert torch.corrcoef(torch.stack([some.flatten(), more.flatten()]))[0, 1] > 0.95


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_impulse_noise_replaces_the_published_share_of_values_each_channel_by_itself(severity, level):
    x = torch.full((8, 3, 100, 100), 0.4)
    noisy = distorted("impulse", x, level)
    for end in (0, 1):
        assert (noisy == end).double().mean().item() == pytest.approx(IMPULSES[severity] / 2, rel=0.1)
    changed = noisy != x
    assert (changed.any(1) & ~changed.all(1)).any()
    assert torch.equal(noisy[~changed], x[~changed])


def test_values_that_impulse_noise_replaced_stay_replaced_at_higher_levels():
    x = torch.full((8, 3, 40, 40), 0.4)
    noisy = torch.stack([distorted("impulse", x, level) for _, level in NUMBERED])
    for lower, higher in itertools.pairwise(noisy):
        replaced = lower != x
        assert replaced.any()
        assert torch.equal(higher[replaced], lower[replaced])
