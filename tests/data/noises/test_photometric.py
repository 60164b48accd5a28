"""Noises of light and colour, against scikit-image."""

import colorsys

import numpy as np
import pytest
import torch
from skimage import color

from vbs_cli.data.noises.photometric import BRIGHTER, CONTRASTS, SATURATION_ADDED, SATURATION_FACTORS

from .pictures import NUMBERED, as_tensor, distorted, furthest, smooth

ROUNDING = 1e-12  # of double precision


def by_hsv(levels, change):
    """Images whose HSV (last axis) scikit-image takes through a function: (N, C, H, W)."""
    hsv = color.rgb2hsv(levels / 255)
    change(hsv)
    return color.hsv2rgb(hsv.clip(0, 1)).transpose(0, 3, 1, 2)


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_brightness_is_scikit_images_value_of_hsv_raised(severity, level, levels):
    def raise_value(hsv):
        hsv[..., 2] += BRIGHTER[severity]

    assert furthest(distorted("brightness", as_tensor(levels), level), by_hsv(levels, raise_value)) < ROUNDING


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_saturation_is_scikit_images(severity, level, levels):
    def saturated(hsv):
        hsv[..., 1] = (hsv[..., 1] * SATURATION_FACTORS[severity] + SATURATION_ADDED[severity]).clip(0, 1)

    assert furthest(distorted("saturate", as_tensor(levels), level), by_hsv(levels, saturated)) < ROUNDING


@pytest.mark.parametrize(("name", "channel"), [("saturate", 1), ("brightness", 2)])
def test_grey_black_and_pure_colours_are_changed_as_pythons_hsv_has_them(name, channel):
    colours = [(0, 0, 0), (1, 1, 1), (0.5, 0.5, 0.5), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 0.2, 0.2)]
    x = torch.tensor(colours, dtype=torch.float64).T.reshape(1, 3, 1, -1)
    expected = []
    for rgb in colours:
        hsv = list(colorsys.rgb_to_hsv(*rgb))
        hsv[channel] = min(hsv[channel] * 2.5 + 0.2 if name == "saturate" else hsv[channel] + 0.3, 1)
        expected.append(colorsys.hsv_to_rgb(*hsv))
    assert furthest(distorted(name, x, 1.0)[0, :, 0].T, expected) < ROUNDING


def test_tiny_values_stay_finite():
    tiny = torch.finfo(torch.float32).tiny
    x = torch.tensor([[tiny / 8, 0, 0], [tiny, tiny / 2, 0], [1, 1 - 6e-8, 1]]).view(3, 3, 1, 1)
    for name in ("saturate", "brightness", "contrast"):
        noisy = distorted(name, x, 1.0)
        assert noisy.isfinite().all()
        assert noisy.min() >= -1e-6
        assert noisy.max() <= 1 + 1e-6


@pytest.mark.parametrize("level", [0.41, 0.5, 0.55, 0.6])
def test_saturation_between_its_second_and_third_severity_is_never_what_it_was(level):
    x = as_tensor(smooth())
    assert torch.equal(distorted("saturate", x, level), distorted("saturate", x, 0.6))
    assert furthest(distorted("saturate", x, level), x) > 0.05


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_contrast_scales_the_spread_of_each_channel_about_its_mean(severity, level, channels):
    x = as_tensor(smooth(27, 21, channels=channels))
    noisy = distorted("contrast", x, level)
    torch.testing.assert_close(noisy.mean((2, 3)), x.mean((2, 3)))
    torch.testing.assert_close(noisy.std((2, 3)), CONTRASTS[severity] * x.std((2, 3)))


def test_brightness_of_one_channel_is_added_and_black_becomes_grey():
    x = as_tensor(smooth(channels=1))
    torch.testing.assert_close(distorted("brightness", x, 0.4), (x + 0.1).clamp(max=1))
    assert (distorted("brightness", torch.zeros(1, 3, 2, 2), 0.6) == 0.15).all()


def test_greyscale_ends_at_the_luma_of_scikit_image_and_goes_there_in_a_line():
    x = as_tensor(smooth())
    luma = distorted("greyscale", x, 1.0)
    assert torch.equal(luma, luma[:, :1].expand_as(luma))
    theirs = color.rgb2yuv(smooth() / 255)[..., 0]
    assert furthest(luma[:, 0], theirs) < 1e-6  # scikit-image has weights of more digits
    torch.testing.assert_close(distorted("greyscale", x, 0.25), 0.75 * x + 0.25 * luma)


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_posterised_images_have_the_nearest_of_half_as_many_values_per_severity(severity, level):
    values = np.linspace(0, 1, 2 ** (6 - severity))
    x = torch.linspace(0, 1, 3000, dtype=torch.float64).view(1, 1, 30, 100)
    noisy = distorted("posterise", x, level)
    assert len(noisy.unique()) == len(values)
    distance = np.abs(noisy.flatten().numpy()[:, None] - values)
    assert distance.min(1).max() < ROUNDING
    nearest = np.abs(x.flatten().numpy()[:, None] - values).min(1)
    assert furthest((noisy - x).abs().flatten(), nearest) < ROUNDING
