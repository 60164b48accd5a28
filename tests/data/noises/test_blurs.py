"""Noises that take detail from images, against libraries that work image by image."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from vbs_cli.data.noises.blurs import line_weights

from .pictures import NUMBERED, ODD, as_levels, as_tensor, by_image, distorted, furthest, smooth

BLURS = ["gaussian-blur", "defocus-blur", "motion-blur", "zoom-blur", "pixelate"]
SIZES = [(1, 32, 32), (5, 27, 21), (3, 7, 64), (3, 224, 224), (2, 1, 9), (1, 3, 2)]
ROUNDING = 1e-10  # of double precision, and of what is left out of kernels


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_gaussian_blur_is_scipys(severity, level, levels):
    sigma = (0.4, 0.6, 0.7, 0.8, 1.0)[severity]
    for x in (as_tensor(levels), as_tensor(smooth(*ODD))):
        expected = by_image(lambda i: ndimage.gaussian_filter(i, (0, sigma, sigma), mode="nearest", truncate=4), x)
        assert furthest(distorted("gaussian-blur", x, level), expected) < ROUNDING


def test_gaussian_blur_between_two_severities_is_scipys_of_the_sigma_between():
    x = as_tensor(smooth())
    expected = by_image(lambda i: ndimage.gaussian_filter(i, (0, 0.9, 0.9), mode="nearest", truncate=4), x)
    assert furthest(distorted("gaussian-blur", x, 0.9), expected) < ROUNDING


def disk(radius, alias):
    """Disk of pixels, smoothed over 3 x 3 by a gaussian."""
    y, x = np.mgrid[-8:9, -8:9]
    inside = (x**2 + y**2 <= radius**2).astype(float)
    bell = np.exp(-0.5 * (np.array([-1, 0, 1]) / alias) ** 2)
    return ndimage.correlate(inside / inside.sum(), np.outer(bell, bell) / bell.sum() ** 2)


DISKS = [disk(0.3, 0.4), disk(0.4, 0.5), disk(0.5, 0.6), disk(1, 0.2), disk(1.5, 0.1)]


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_defocus_blur_correlates_with_a_disk(severity, level, levels):
    for x in (as_tensor(levels), as_tensor(smooth(*ODD))):
        expected = by_image(lambda i: ndimage.correlate(i, DISKS[severity][None], mode="mirror"), x)
        assert furthest(distorted("defocus-blur", x, level), expected) < ROUNDING


def test_defocus_blur_between_two_severities_has_the_mean_of_their_kernels():
    x = as_tensor(smooth())
    kernel = (0.5 * DISKS[3] + 0.5 * DISKS[4])[None]
    expected = by_image(lambda i: ndimage.correlate(i, kernel, mode="mirror"), x)
    assert furthest(distorted("defocus-blur", x, 0.9), expected) < ROUNDING


def zoomed(image, factor):
    """Centre of an image magnified by scipy and cut to the image's size: (C, H, W)."""
    size = image.shape[1:]
    crop = [math.ceil(n / factor) for n in size]
    start = [(n - c) // 2 for n, c in zip(size, crop, strict=True)]
    part = image[:, start[0] : start[0] + crop[0], start[1] : start[1] + crop[1]]
    larger = ndimage.zoom(part, (1, factor, factor), order=1)
    top, left = ((m - n) // 2 for m, n in zip(larger.shape[1:], size, strict=True))
    return larger[:, top : top + size[0], left : left + size[1]]


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_zoom_blur_is_the_mean_of_scipys_magnifications(severity, level, levels):
    factors = 1 + np.arange((6, 11, 16, 21, 26)[severity]) / 100
    for x in (as_tensor(levels), as_tensor(smooth(*ODD))):
        expected = by_image(lambda i: np.mean([i, *(zoomed(i, factor) for factor in factors)], 0), x)
        assert furthest(distorted("zoom-blur", x, level), expected) < ROUNDING


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_pixelation_is_pillows_by_boxes_but_for_its_rounding(severity, level, levels):
    share = (0.95, 0.9, 0.85, 0.75, 0.65)[severity]
    height, width = levels.shape[1:3]
    fewer = int(width * share), int(height * share)
    images = [Image.fromarray(each).resize(fewer, Image.Resampling.BOX) for each in levels]
    expected = np.stack([np.asarray(each.resize((width, height), Image.Resampling.BOX)) for each in images])
    ours = 255 * distorted("pixelate", as_tensor(levels), level).permute(0, 2, 3, 1)
    # Means of 2 and 4 pixels are rounded twice, by half a level at most.
    assert furthest(ours, expected) <= 1 + ROUNDING * 255


def test_pixelation_at_the_highest_level_leaves_as_many_rows_and_columns_as_its_share_of_them():
    image = distorted("pixelate", as_tensor(smooth(40, 20, 1)), 1.0)[0]
    assert image.unique_consecutive(dim=1).shape[1] == 26
    assert image.unique_consecutive(dim=2).shape[2] == 13


def along_a_line(image, angle, weights):
    """Weighted mean of an image's pixels along a line, pixel by pixel: (C, H, W)."""
    _, height, width = image.shape
    result = np.zeros_like(image)
    for distance, weight in enumerate(weights):
        down, right = round(distance * math.sin(angle)), round(distance * math.cos(angle))
        rows = np.clip(np.arange(height) + down, 0, height - 1)
        columns = np.clip(np.arange(width) + right, 0, width - 1)
        result += weight * image[:, rows][:, :, columns]
    return result


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_motion_blur_is_the_gaussian_mean_along_each_images_line(severity, level, levels):
    radius, sigma = [(6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)][severity]
    weights = np.exp(-0.5 * (np.arange(2 * radius + 1) / sigma) ** 2)
    for x in (as_tensor(levels), as_tensor(smooth(*ODD))):
        draw = torch.linspace(-1, 1, len(x))
        angles = iter(draw.double().numpy() * math.pi / 4)
        expected = by_image(lambda i, a=angles: along_a_line(i, next(a), weights / weights.sum()), x)
        # Taps of less than 1e-4 are left out, five at most.
        assert furthest(distorted("motion-blur", x, level, draw), expected) < 5e-4


def test_motion_blur_smears_a_point_along_its_line_only():
    x = torch.zeros(3, 1, 41, 41)
    x[:, :, 20, 20] = 1
    smeared = distorted("motion-blur", x, 1.0, torch.tensor([-1.0, 0.0, 1.0]))
    for image, slope in zip(smeared, (-1, 0, 1), strict=True):
        rows, columns = torch.nonzero(image[0], as_tuple=True)
        assert len(rows) > 5
        assert torch.equal(rows - 20, slope * (columns - 20))


@pytest.mark.parametrize("level", [1e-6, 0.1, 0.5, 0.9, 1.0])
def test_weights_along_the_line_of_motion_blur_fall_and_have_sum_one(level):
    weights = line_weights(level)
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", BLURS)
def test_blurs_keep_a_constant_image_and_stay_within_the_values_of_any(name, size):
    for level in (0.05, 0.3, 1.0):
        constant = torch.full((2, *size), 0.3, dtype=torch.float64)
        torch.testing.assert_close(distorted(name, constant, level), constant)
        x = torch.rand((2, *size), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        blurred = distorted(name, x, level)
        lowest, highest = x.amin((2, 3)), x.amax((2, 3))
        assert (blurred.amin((2, 3)) >= lowest - ROUNDING).all()
        assert (blurred.amax((2, 3)) <= highest + ROUNDING).all()


@pytest.mark.parametrize("name", ["gaussian-blur", "defocus-blur", "motion-blur"])
def test_blurs_keep_the_mean_of_what_lies_inside(name):
    x = torch.zeros(4, 3, 41, 45, dtype=torch.float64)
    x[:, :, 15:25, 15:30] = torch.rand(4, 3, 10, 15, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for level in (0.3, 1.0):
        torch.testing.assert_close(distorted(name, x, level).mean((2, 3)), x.mean((2, 3)))


@pytest.mark.parametrize("name", BLURS)
def test_channels_are_blurred_alike(name):
    x = as_tensor(smooth(channels=1)).expand(-1, 5, -1, -1)
    blurred = distorted(name, x, 1.0)
    torch.testing.assert_close(blurred, blurred[:, :1].expand_as(blurred))
    assert furthest(blurred, x) > 0.05


@pytest.mark.parametrize("name", BLURS)
def test_matrices_made_where_there_are_no_gradients_serve_where_there_are(name):
    x = as_tensor(smooth(17, 19))
    with torch.inference_mode():
        before = distorted(name, x, 0.37)
    assert torch.equal(distorted(name, x, 0.37), before)


def test_levels_of_the_pictures_survive_their_tensor():
    assert np.array_equal(as_levels(as_tensor(smooth())), smooth())
