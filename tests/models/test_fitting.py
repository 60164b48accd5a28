"""The network for data without a protocol, and inputs that a network cannot take."""

import pytest
import torch

from vbs_cli.errors import InvalidInput
from vbs_cli.models import build_model
from vbs_cli.models.fitting import fitting_name


@pytest.mark.parametrize(
    ("shape", "name"), [((3, 32, 32), "nin"), ((2, 1580), "conv1d-radio"), ((1, 20_480), "conv1d-speech")]
)
def test_the_fitting_network_is_that_of_the_nearest_dataset(shape, name):
    assert fitting_name(shape) == name
    z = build_model("auto", shape=shape, classes=5, width=8).eval()(torch.randn(2, *shape))
    assert z.shape[:2] == (2, 5)
    assert z[0, 0].numel() >= 64


@pytest.mark.parametrize(
    ("name", "shape"), [("nin", (2, 500)), ("conv1d-radio", (3, 32, 32)), ("conv1d-speech", (1, 30))]
)
def test_inputs_that_a_network_cannot_take_are_refused_when_it_is_built(name, shape):
    given = " x ".join(map(str, shape))
    with pytest.raises(InvalidInput, match=f"{name} cannot take inputs of {given}"):
        build_model(name, shape=shape, classes=3, width=4)


def test_the_check_of_a_network_leaves_its_weights_as_they_were():
    torch.manual_seed(1)
    first = build_model("nin", shape=(3, 32, 32), classes=3, width=12)
    torch.manual_seed(1)
    second = build_model("nin", shape=(3, 64, 32), classes=3, width=12)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
