"""Fog over images."""

import numpy as np
import pytest
import torch

from vbs_cli.data.noises.fog import DECAYS, STRENGTHS, grid, plasma

from .pictures import NUMBERED, ODD, as_tensor, distorted, furthest, smooth


def plasma_by_points(draw, decay):
    """Diamond-square algorithm point by point, in numpy: (S, S) -> (S, S)."""
    side = len(draw)
    cloud, step, weight = np.zeros((side, side)), side, 1.0
    while step > 1:
        half = step // 2
        for row in range(half, side, step):
            for column in range(half, side, step):
                around = [cloud[(row + i) % side, (column + j) % side] for i in (-half, half) for j in (-half, half)]
                cloud[row, column] = np.mean(around) + weight * draw[row, column]
        for row in range(0, side, half):
            for column in range((row + half) % step, side, step):
                around = [(row - half, column), (row + half, column), (row, column - half), (row, column + half)]
                values = [cloud[i % side, j % side] for i, j in around]
                cloud[row, column] = np.mean(values) + weight * draw[row, column]
        step, weight = half, weight / decay**2
    return (cloud - cloud.min()) / (cloud.max() - cloud.min())


def drawn(*shape):
    return grid(torch.Size(shape), torch.Generator().manual_seed(0))


@pytest.mark.parametrize("side", [2, 8, 32])
@pytest.mark.parametrize("decay", [1.75, 3.0])
def test_clouds_are_those_of_the_diamond_square_algorithm(side, decay):
    draw = drawn(3, 1, side, side).double()
    expected = np.stack([plasma_by_points(each, decay) for each in draw.numpy()])
    assert furthest(plasma(draw, decay), expected) < 1e-12


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
@pytest.mark.parametrize("size", [(32, 32), ODD])
def test_fog_adds_the_cloud_and_scales_by_what_the_brightest_pixel_leaves(severity, level, size):
    x = as_tensor(smooth(*size))
    draw = drawn(*x.shape)
    noisy = distorted("fog", x, level, draw)
    for image, cloud, result in zip(x.numpy(), draw.double().numpy(), noisy, strict=True):
        strength, most = STRENGTHS[severity], image.max()
        fog = plasma_by_points(cloud, DECAYS[severity])[: size[0], : size[1]]
        assert furthest(result, ((image + strength * fog) * most / (most + strength)).clip(0, 1)) < 1e-12


def test_draws_cover_images_by_the_next_power_of_two():
    shapes = {(2, 3, 32, 32): 32, (2, 1, 33, 20): 64, (1, 5, 224, 224): 256, (4, 1, 1, 1): 1}
    assert {shape: drawn(*shape).shape[1] for shape in shapes} == shapes
    draw = drawn(2, 3, 32, 32)
    assert draw.min() >= -1
    assert draw.max() <= 1


def test_fog_is_the_same_for_all_channels_and_differs_between_images():
    x = torch.full((2, 3, 32, 32), 0.5)
    noisy = distorted("fog", x, 1.0)
    assert torch.equal(noisy[:, 0], noisy[:, 2])
    assert furthest(noisy[0], noisy[1]) > 0.1


@pytest.mark.parametrize("shape", [(2, 1, 1, 1), (2, 3, 5, 7), (1, 5, 224, 224)])
def test_fog_over_black_and_white_images_of_any_size_stays_finite_and_within_the_range(shape):
    assert (distorted("fog", torch.zeros(shape), 1.0) == 0).all()
    noisy = distorted("fog", torch.ones(shape), 1.0)
    assert noisy.min() >= 0
    assert noisy.max() <= 1
