"""The signal network has the shapes of the paper."""

import pytest
import torch
from torch import nn

from vbs_cli.models import build_model
from vbs_cli.models.conv1d import signal_network


@pytest.mark.parametrize(
    ("strides", "shape", "classes", "lengths"),
    [
        ((5, 4, 1, 1, 1), (2, 1580), 20, [315, 78, 79, 80, 79]),
        ((5, 4, 2, 2, 2), (1, 20480), 251, [4095, 1023, 512, 257, 128]),
    ],
)
def test_lengths_after_every_convolution_are_those_of_the_appendix(strides, shape, classes, lengths):
    model = signal_network(channels=shape[0], classes=classes, width=4, dropout=0.0, strides=strides).eval()
    x, seen = torch.randn(1, *shape), []
    for layer in model:
        x = layer(x)
        if isinstance(layer, nn.ReLU):
            seen.append(x.shape[2])
    assert seen == lengths
    assert x.shape == (1, classes, lengths[-1])


def test_the_paper_s_width_is_512_channels_in_five_layers():
    model = build_model("conv1d-radio", shape=(2, 1580), classes=20, width=512)
    assert [m.out_channels for m in model if isinstance(m, nn.Conv1d)] == [512] * 5 + [20]
    assert sum(isinstance(m, nn.BatchNorm1d) for m in model) == 5


def test_the_dropout_variant_drops_after_every_relu_and_nowhere_else():
    model = list(build_model("conv1d-radio", shape=(2, 1580), classes=20, width=4, dropout=0.5))
    names = [type(layer).__name__ for layer in model]
    assert names == ["Conv1d", "BatchNorm1d", "ReLU", "Dropout"] * 5 + ["Conv1d"]
