"""Suites of noises for images."""

import pytest

from vbs_cli.data.noise import NOISES, SUITES, kind_of, suites_for


def test_cifar10_c_has_fourteen_noises_at_five_severities():
    levels = SUITES["cifar10-c"].levels
    assert len(levels) == 14
    assert {len(each) for each in levels.values()} == {5}
    assert levels["gaussian"] == (0.04, 0.06, 0.08, 0.09, 0.10)


def test_images_of_every_kind_have_a_suite_and_colour_images_have_more():
    assert "images" in suites_for((1, 28, 28))
    assert "cifar10-c" not in suites_for((1, 28, 28))
    assert {"cifar10-c", "images", "colour-images"} <= set(suites_for((3, 32, 32)))
    more = SUITES["colour-images"].levels.keys() - SUITES["images"].levels.keys()
    assert more == {"saturate", "greyscale"}


@pytest.mark.parametrize("suite", ["images", "colour-images"])
def test_suites_of_images_cover_every_family_of_noises_for_them(suite):
    of_images = {
        noise.family
        for noise in (each for _, each in NOISES.items())
        if kind_of((1, 28, 28)) in noise.kinds and noise.most == 1
    }
    assert of_images - {"mixture"} <= {NOISES[name].family for name in SUITES[suite].levels}
