"""Loss of JPEG files, against Pillow's encoder and decoder."""

import io

import numpy as np
import pytest
import torch
from PIL import Image, features

from vbs_cli.data.noises import jpeg

from .pictures import NUMBERED, ODD, as_levels, as_tensor, distorted, furthest, smooth

QUALITIES = (80, 65, 58, 50, 40)
MOST = 0.0 if features.check("libjpeg_turbo") else 1.0  # mean difference in levels; other libraries round otherwise


def through_pillow(levels, quality):
    """Images written as JPEG files and read: (N, H, W, C)."""
    results = []
    for image in levels:
        file = io.BytesIO()
        Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image).save(file, "JPEG", quality=quality)
        results.append(np.asarray(Image.open(file)).reshape(image.shape))
    return np.stack(results)


def mean_difference(levels, level, quality):
    ours = as_levels(distorted("jpeg", as_tensor(levels), level))
    return np.abs(ours.astype(int) - through_pillow(levels, quality)).mean()


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
def test_jpeg_is_pillows(severity, level, levels):
    assert mean_difference(levels, level, QUALITIES[severity]) <= MOST
    assert mean_difference(levels[..., :1], level, QUALITIES[severity]) <= MOST


@pytest.mark.parametrize("size", [ODD, (16, 24), (33, 47), (6, 9), (1, 1), (224, 224)], ids=str)
def test_images_of_any_size_are_pillows(size):
    for channels in (1, 3):
        assert mean_difference(smooth(*size, count=3, channels=channels), 0.6, 58) <= MOST


def test_a_quality_between_two_severities_is_pillows():
    assert mean_difference(smooth(), 0.9, 45) <= MOST


def test_the_transform_of_cosines_is_orthonormal_but_for_its_scale_and_rounding():
    matrix = jpeg.cosines() / jpeg.UNIT
    torch.testing.assert_close(matrix @ matrix.T, 8 * torch.eye(8, dtype=torch.float64), atol=2e-3, rtol=0)
    assert (matrix[0] == 1).all()


def test_every_channel_of_images_without_colour_goes_by_itself_through_the_table_of_luminance():
    x = as_tensor(smooth(channels=5))
    apart = [distorted("jpeg", channel, 1.0) for channel in x.split(1, 1)]
    assert torch.equal(distorted("jpeg", x, 1.0), torch.cat(apart, 1))


def test_grey_stays_grey_and_flat_stays_flat():
    grey = as_tensor(smooth(channels=1)).expand(-1, 3, -1, -1)
    coded = distorted("jpeg", grey, 1.0)
    assert torch.equal(coded, coded[:, :1].expand_as(coded))
    flat = as_tensor(np.broadcast_to(np.array([200, 30, 90], np.uint8), (1, 19, 23, 3)))
    assert (distorted("jpeg", flat, 1.0).flatten(2).std(2) == 0).all()
    assert furthest(distorted("jpeg", flat, 1.0), flat) < 12 / 255  # half a step of 25 / 8 in luma, 124 / 8 in chroma


def test_the_highest_quality_quantises_by_steps_of_one():
    assert (jpeg.steps(100.0, jpeg.LUMINANCE) == 1).all()
    assert jpeg.steps(50.0, jpeg.LUMINANCE).flatten()[:4].tolist() == [16, 11, 10, 16]
