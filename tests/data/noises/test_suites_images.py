"""Suites of noises for images."""

import pytest

from vbs_cli.data.noise import NOISES, SUITES, families_for, suites_for


def test_cifar10_c_has_fourteen_noises_at_five_severities():
    levels = SUITES["cifar10-c"].levels
    assert len(levels) == 14
    assert {len(each) for each in levels.values()} == {5}
    assert levels["gaussian"] == (0.04, 0.06, 0.08, 0.09, 0.10)


def test_grey_images_have_a_suite_without_the_noises_of_colour():
    grey, colour = suites_for((1, 28, 28)), suites_for((3, 32, 32))
    assert (list(grey), list(colour)) == (["images"], ["cifar10-c", "images"])
    assert colour["images"].keys() - grey["images"].keys() == {"saturate", "greyscale"}
    assert colour["cifar10-c"].items() <= colour["images"].items()


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)], ids=str)
def test_the_suite_of_images_covers_every_family_of_noises_for_them(shape):
    assert {NOISES[name].family for name in suites_for(shape)["images"]} == set(families_for(shape))
