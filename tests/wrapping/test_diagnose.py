"""A wrapped network asks whether smoothing fits it."""

import pytest
import torch
from torch import nn

from vbs_cli import diagnose, wrap
from vbs_cli.data.noise import distort
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits

LEVELS = (0.5, 1.0)


@pytest.fixture(scope="module")
def data():
    """Two classes of images that differ by which half of them is bright, in batches of 40."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (160,), generator=rng)
    x = 0.3 * torch.rand(160, 1, 16, 16, generator=rng)
    for image, label in zip(x, labels, strict=True):
        image[:, 8 * label : 8 * label + 8] += 0.5
    return [*zip(x.split(40), labels.split(40), strict=True)]


@pytest.fixture(scope="module")
def net(data):
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, stride=2, padding=2), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    adam = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(15):
        for x, y in data:
            adam.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            adam.step()
    return net.eval()


def test_it_is_the_diagnosis_of_the_same_records(net, data):
    val, test = data[:2], data[2:]
    smoothed = wrap(net).fit(val)
    found = smoothed.diagnose(test, noises=["gaussian"], levels=LEVELS)

    def record(batches, level=0.0):
        return Logits.concat(
            [
                smoothed.record(
                    distort(x, noise="gaussian", level=level, dataset="wrapped", split="test", block=block), y
                )
                for block, (x, y) in enumerate(batches)
            ]
        )

    with torch.no_grad():
        noisy = {"gaussian": [(level, record(test, level)) for level in LEVELS]}
        expected = diagnose(record(test), noisy, record(val), method=smoothed.method)
    assert found.verdict == expected.verdict
    assert found.advice == expected.advice
    assert [*map(repr, found.findings)] == [*map(repr, expected.findings)]  # some are NaN


def test_all_noises_that_suit_the_inputs_are_asked_by_default(net, data):
    found = wrap(net).fit(data[:2]).diagnose(data[2:], levels=LEVELS)
    assert {"gaussian", "speckle", "affine", "elastic"} <= {finding.noise for finding in found.findings}


def test_it_is_fitted_first_and_given_something_to_judge_by(net, data):
    with pytest.raises(InvalidInput, match="call fit"):
        wrap(net).diagnose(data)
    with pytest.raises(InvalidInput, match="no test batches"):
        wrap(net).fit(data[:2]).diagnose([])
