"""Images that are moved."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from .pictures import as_tensor, by_image, distorted, smooth


@pytest.mark.parametrize("size", [(32, 32), (27, 21), (8, 40)])
@pytest.mark.parametrize("level", [0.2, 0.7, 1.0])
def test_translation_is_scipys_shift_by_whole_pixels_in_the_direction_of_the_draw(size, level):
    x = as_tensor(smooth(*size))
    draw = torch.linspace(0, 1, len(x))
    angles = iter(2 * math.pi * draw.double().numpy())

    def shifted(image):
        angle = next(angles)
        by = round(math.sin(angle) * level * size[0] / 4), round(math.cos(angle) * level * size[1] / 4)
        return ndimage.shift(image, (0, *by), order=0)

    np.testing.assert_array_equal(distorted("translation", x, level, draw), by_image(shifted, x))


def test_images_move_by_a_quarter_of_a_side_at_most_in_every_direction():
    x = torch.zeros(200, 1, 41, 41)
    x[:, :, 20, 20] = 1
    _, _, rows, columns = torch.nonzero(distorted("translation", x, 1.0), as_tuple=True)
    assert len(rows) == 200
    for places in (rows, columns):
        assert (places.min(), places.max()) == (10, 30)


def test_what_comes_in_is_black():
    moved = distorted("translation", torch.ones(50, 3, 32, 32), 1.0)
    assert set(moved.unique().tolist()) == {0, 1}
    assert torch.equal(moved[:, 0], moved[:, 2])
    assert (moved == 0).any(1).flatten(1).any(1).all()
