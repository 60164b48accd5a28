"""The bench of noises: its rivals make the same images."""

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
    }


@pytest.mark.parametrize(
    ("kernel", "most"),
    [
        ("affine noise", 0.0),
        ("elastic noise", 1e-5),  # of a single precision that rounds differently at a tie
        ("gaussian noise, a further level", 0.0),
        ("speckle noise, a further level", 0.0),
    ],
)
def test_rivals_make_the_same_images(duels, kernel, most):
    duel = duels[kernel]
    for _ in range(2):  # with the draws made, then with the draws kept
        assert duel.max_diff(duel.ours(), duel.theirs()) <= most


def test_the_share_apart_counts_pixels_and_not_channels():
    a = torch.zeros(2, 3, 4, 5)
    b = a.clone()
    b[0, :, 1, 1] = 1
    b[1, 2, 3, 4] = 1
    assert share_apart(a, b) == pytest.approx(2 / 40)


def test_rows_are_those_of_the_kernels_bench(duels):
    rows = list(bench_kernels([duels["gaussian noise, a further level"]]))
    assert list(rows[0]) == ["kernel", "size", "rival", "ours_ms", "rival_ms", "ratio", "max_diff"]
