"""The network in network has the shapes of the paper, and trains."""

import torch
from torch import nn

from vbs_cli.models import build_model

SHAPE = (3, 32, 32)


def convolutions(model):
    return [m for m in model if isinstance(m, nn.Conv2d)]


def test_channels_kernels_and_patches_are_those_of_the_paper():
    model = build_model("nin", shape=SHAPE, classes=10, width=192).eval()
    assert [m.out_channels for m in convolutions(model)] == [192, 160, 96, 192, 192, 192, 192, 192, 10]
    assert [m.kernel_size[0] for m in convolutions(model)] == [5, 1, 1, 5, 1, 1, 3, 1, 1]
    assert model(torch.randn(2, *SHAPE)).shape == (2, 10, 8, 8)


def test_pools_and_dropouts_stand_between_the_blocks_and_nothing_follows_the_last_convolution():
    names = [type(layer).__name__ for layer in build_model("nin", shape=SHAPE, classes=10, width=12)]
    block = ["Conv2d", "ReLU"] * 3
    assert names == [*block, "MaxPool2d", "Dropout", *block, "AvgPool2d", "Dropout", *block[:4], "Conv2d"]


def test_the_dropout_variant_drops_after_every_relu_and_nowhere_else():
    names = [type(layer).__name__ for layer in build_model("nin", shape=SHAPE, classes=10, width=12, dropout=0.5)]
    assert names.count("Dropout") == names.count("ReLU") == 8
    assert all(names[i + 1] == "Dropout" for i, name in enumerate(names) if name == "ReLU")
    assert all(names[i - 1] == "ReLU" for i, name in enumerate(names) if name == "Dropout")


def test_other_sizes_and_channels_work():
    model = build_model("nin", shape=(1, 40, 28), classes=3, width=12).eval()
    assert model(torch.randn(2, 1, 40, 28)).shape == (2, 3, 10, 7)


def test_activations_keep_their_size_through_the_network():
    """With torch's own initial weights they fade to nothing, and the network stays at chance."""
    torch.manual_seed(0)
    model = build_model("nin", shape=SHAPE, classes=10, width=96).eval()
    x = torch.randn(8, *SHAPE)
    with torch.no_grad():
        assert 0.1 < float(model(x).std() / x.std()) < 10
