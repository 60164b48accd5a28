"""The bench of noises: its rivals make the same images."""

import math

import pytest
import torch

from vbs_cli.bench.kernels import Duel, bench_kernels
from vbs_cli.bench.noises import noise_duels, share_apart

COUNT = 300  # more than a block, and a last block that is not full


@pytest.fixture(scope="module")
def duels() -> dict[str, Duel]:
    return {duel.kernel: duel for duel in noise_duels(COUNT)}


def test_each_duel_tells_its_size_and_rival(duels):
    assert {duel.size for duel in duels.values()} == {"300 x 3 x 32 x 32"}
    assert {name: duel.rival for name, duel in duels.items()} == {
        "affine noise": "torchvision, by image",
        "elastic noise": "torchvision, by image",
        "gaussian noise, a further level": "drawn anew",
        "speckle noise, a further level": "drawn anew",
        "gaussian-blur": "scipy, by image",
        "defocus-blur": "scipy, by image",
        "jpeg": "Pillow, by image",
        "pixelate": "Pillow, by image",
        "brightness": "scikit-image, by image",
        "saturate": "scikit-image, by image",
        "shot": "numpy, by image",
        "contrast": "numpy, by image",
    }


@pytest.mark.parametrize(
    ("kernel", "most"),
    [
        ("affine noise", 0.0),
        ("elastic noise", 1e-5),  # of a single precision that rounds differently at a tie
        ("gaussian noise, a further level", 0.0),
        ("speckle noise, a further level", 0.0),
        ("gaussian-blur", 1e-6),
        ("defocus-blur", 1e-6),
        ("jpeg", 8 / 255),  # of a library that rounds differently; libjpeg-turbo does not
        ("pixelate", 1.01 / 255),  # Pillow rounds twice
        ("brightness", 1e-6),
        ("saturate", 1e-6),
        ("contrast", 1e-6),
    ],
)
def test_rivals_make_the_same_images(duels, kernel, most):
    duel = duels[kernel]
    for _ in range(2):  # with the draws made, then with the draws kept
        assert duel.max_diff(duel.ours(), duel.theirs()) <= most


def test_both_kinds_of_shot_noise_are_as_strong(duels):
    shot = duels["shot"]
    ours, theirs = shot.ours(), shot.theirs()
    assert math.isnan(shot.max_diff(ours, theirs))
    clean = torch.rand((COUNT, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    spread = [(noisy - clean).square().mean().item() for noisy in (ours, theirs)]
    assert spread[0] == pytest.approx(spread[1], rel=0.02)


def test_the_share_apart_counts_pixels_and_not_channels():
    a = torch.zeros(2, 3, 4, 5)
    b = a.clone()
    b[0, :, 1, 1] = 1
    b[1, 2, 3, 4] = 1
    assert share_apart(a, b) == pytest.approx(2 / 40)


def test_rows_are_those_of_the_kernels_bench(duels):
    rows = list(bench_kernels([duels["gaussian noise, a further level"]]))
    assert list(rows[0]) == ["kernel", "size", "rival", "ours_ms", "rival_ms", "ratio", "max_diff"]
