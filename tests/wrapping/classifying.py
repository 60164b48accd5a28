"""Classifiers to wrap, data for them, and what a wrapper must do."""

import functools

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torchvision import models

from vbs_cli import Logits, VarianceSmoothing

CLASSES = 7
METHOD = VarianceSmoothing(alpha=4.0, beta="mean+0.5")  # about 2 for typical inputs
# The layer that gives the last feature map, and the head that reads its average; None where scores are averaged.
TORCHVISION = {
    "resnet18": ("layer4", "fc"),
    "resnext50_32x4d": ("layer4", "fc"),
    "regnet_y_400mf": ("trunk_output", "fc"),
    "efficientnet_b0": ("features", "classifier.1"),
    "mobilenet_v2": ("features", "classifier.1"),
    "densenet121": ("features", "classifier"),
    "squeezenet1_1": ("classifier.2", None),
    "googlenet": ("inception5b", "fc"),
    "mnasnet0_5": ("layers", "classifier.1"),
    "shufflenet_v2_x0_5": ("conv5", "fc"),
    "swin_t": ("permute", "head"),
}
TIMM = {
    "resnet10t": ({}, 96),
    "regnetx_002": ({}, 96),
    "test_efficientnet": ({}, 96),
    "tf_efficientnetv2_b0": ({}, 96),  # pads by the size of its input, which cannot be recorded
    "dla34": ({}, 96),  # its head is a 1x1 convolution
    "mobilevit_xxs": ({}, 96),
    "pvt_v2_b0": ({}, 96),
    "vit_tiny_patch16_224": ({"img_size": 64, "global_pool": "avg", "fc_norm": False}, 64),
}


def images(count=4, size=96, seed=0):
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def loader(size=96, batches=2):
    return [(images(size=size, seed=seed), torch.arange(4) % CLASSES) for seed in range(batches)]


def randomised(net):
    """Statistics and scales of BatchNorm, and heads that start at zero, drawn at random."""
    rng = torch.Generator().manual_seed(1)
    for layer in net.modules():
        if isinstance(layer, _BatchNorm):
            layer.running_mean.normal_(0, 0.1, generator=rng)
            layer.running_var.uniform_(0.5, 1.5, generator=rng)
            nn.init.uniform_(layer.weight, 0.5, 1.5, generator=rng)
        elif isinstance(layer, nn.Linear) and layer.out_features == CLASSES:
            nn.init.normal_(layer.weight, std=0.1, generator=rng)
    return net.eval()


@functools.cache
def torchvision_s(name):
    torch.manual_seed(0)
    options = {"init_weights": False} if name == "googlenet" else {}
    return randomised(models.get_model(name, num_classes=CLASSES, **options))


def timm_s(name, **options):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    return randomised(timm.create_model(name, num_classes=CLASSES, **options))


class Signals(nn.Module):
    """A convolution over signals, averaged by a function."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv1d(3, 8, 5, stride=2)
        self.fc = nn.Linear(8, CLASSES)

    def features(self, x):
        return self.body(x.flatten(2)).relu()

    def forward(self, x):
        return self.fc(self.features(x).mean(-1))


class Tokens(Signals):
    """Averages tokens (B, T, C)."""

    def forward(self, x):
        return self.fc(self.features(x).transpose(1, 2).mean(dim=1))


class Untraceable(Signals):
    """Looks at its input, which no recording can."""

    def forward(self, x):
        if x.shape[1] != 3:
            raise ValueError("three channels, please")
        return self.fc(self.features(x).mean(-1))


class UntraceableTokens(Untraceable):
    def forward(self, x):
        assert x.shape[1] == 3
        return self.fc(self.features(x).transpose(1, 2).mean(1))


class Extra(Signals):
    """Does something linear after its head."""

    def forward(self, x):
        return super().forward(x) * 1.0


class Windows(nn.Module):
    """Pools by a window as large as the map, as many networks for CIFAR do, and reads it by a function."""

    def __init__(self, window=8):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 12, stride=12)
        self.weight = nn.Parameter(torch.randn(CLASSES, 8 * (8 // window) ** 2))
        self.window = window

    def forward(self, x):
        x = nn.functional.avg_pool2d(self.body(x), self.window)
        return nn.functional.linear(x.view(x.size(0), -1), self.weight)


def ended(*end, width=8):
    return nn.Sequential(nn.Conv2d(3, width, 8, stride=8), nn.ReLU(), *end)


def own(name):
    torch.manual_seed(0)
    builds = {
        "signals": Signals,
        "tokens": Tokens,
        "untraceable": Untraceable,
        "untraceable tokens": UntraceableTokens,
        "windows": Windows,
        "convolution": lambda: ended(nn.AdaptiveAvgPool2d(1), nn.Dropout(), nn.Conv2d(8, CLASSES, 1), nn.Flatten()),
        "scores averaged": lambda: ended(nn.Conv2d(8, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    }
    return builds[name]().eval()


@torch.no_grad()
def patches_by_hooks(net, place, head, x):
    """Patch logits (B, K, H, W), by the head of a network on the features that one of its layers gave."""
    seen = []
    hook = net.get_submodule(place).register_forward_hook(lambda layer, inputs, output: seen.append(output))
    net(x)
    hook.remove()
    features = seen[0].relu() if isinstance(net, models.DenseNet) else seen[0]
    return features if head is None else at_every_position(net.get_submodule(head), features)


def at_every_position(head, features):
    """A linear layer on (B, C, *grid), by the letter."""
    bias = head.bias.view(-1, *[1] * (features.ndim - 2))
    return torch.einsum("bc...,kc->bk...", features, head.weight.flatten(1)) + bias


@torch.no_grad()
def check_wrapped(net, x, smoothed, patches):
    """By the oracle: the methods of the library on patches that were computed apart."""
    answer = net(x)
    scale = answer.abs().max().item()
    torch.testing.assert_close(patches.flatten(2).mean(2), answer, atol=1e-4 * scale, rtol=0)
    record = Logits.from_patches(patches)
    expected = record.logits.double() / smoothed.method.temperature(record)[:, None]
    torch.testing.assert_close(smoothed(x).double(), expected, atol=1e-4 * scale, rtol=1e-4)
    torch.testing.assert_close(smoothed.sigma(x), record.sigma, atol=1e-4 * scale, rtol=1e-4)
    torch.testing.assert_close(smoothed.predict_proba(x), expected.softmax(1), atol=1e-4, rtol=1e-3)
    assert torch.equal(smoothed(x).argmax(1), answer.argmax(1))
    assert smoothed(x).dtype == torch.float32
    assert (smoothed.temperature(x) >= 1).all()
    assert (smoothed.temperature(x) > 1).any()
