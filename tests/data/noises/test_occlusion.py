"""Images of which a part is hidden."""

import itertools

import pytest
import torch

from vbs_cli.data.noises.occlusion import AREAS

from .pictures import NUMBERED, distorted


def hidden(size, level, count=50):
    """Whether pixels are hidden, by image: (N, H, W)."""
    noisy = distorted("occlusion", torch.ones(count, 3, *size), level)
    assert set(noisy.unique().tolist()) == {0.5, 1}
    assert torch.equal(noisy[:, 0], noisy[:, 2])
    return noisy[:, 0] == 0.5


@pytest.mark.parametrize(("severity", "level"), NUMBERED)
@pytest.mark.parametrize("size", [(32, 32), (30, 75), (224, 224)])
def test_the_given_share_is_hidden_by_one_rectangle_inside_the_image(severity, level, size):
    for each in hidden(size, level):
        rows, columns = each.any(1), each.any(0)
        assert torch.equal(each, rows.unsqueeze(1) & columns)
        for axis, length in ((rows, size[0]), (columns, size[1])):
            places = axis.nonzero().flatten()
            assert len(places) == places[-1] - places[0] + 1 == round(AREAS[severity] ** 0.5 * length)


def test_what_is_hidden_stays_hidden_at_higher_levels():
    for before, after in itertools.pairwise(hidden((32, 27), level / 50) for level in range(3, 51)):
        assert (after | ~before).all()


def test_every_part_of_images_is_hidden_in_some():
    assert hidden((16, 16), 0.2, count=5000).any(0).all()
