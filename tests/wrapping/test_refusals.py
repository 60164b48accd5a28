"""Networks and data that cannot be smoothed, each with the reason and the cure."""

import pytest
import torch
from torch import nn
from torchvision import models

from tests.wrapping.classifying import CLASSES, Untraceable, Windows, ended, images, loader, own, timm_s, torchvision_s
from vbs_cli import VarianceSmoothing, wrap
from vbs_cli.errors import InvalidInput, NotFinite


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: models.mobilenet_v3_small(num_classes=CLASSES), r"non-linear \(Hardswish\) stands between"),
        (lambda: models.convnext_tiny(num_classes=CLASSES), r"non-linear \(layer_norm\) stands between"),
        (lambda: models.maxvit_t(num_classes=CLASSES), r"non-linear \(Tanh\) stands between"),
        (lambda: models.vit_b_16(num_classes=CLASSES), "VisionTransformer has no patch logits: it has no average pool"),
        (lambda: models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None), "it returns a"),
        (lambda: ended(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 5)), r"\(LayerNorm\)"),
        (lambda: ended(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)), "leaves several positions"),
        (lambda: ended(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 5)), "no average pooling over all"),
        (lambda: ended(nn.AdaptiveAvgPool2d(1), nn.Flatten()), "no linear layer or 1x1 convolution"),
        (lambda: ended(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5), nn.Softmax(1)), "it ends in Softmax"),
        (lambda: ended(), "it ends in ReLU"),
    ],
)
def test_ends_that_do_not_commute_are_refused_with_the_reason_and_the_cure(build, message):
    with torch.device("meta"):  # which saves drawing their weights
        net = build()
    with pytest.raises(InvalidInput, match=rf"{message}.*; use temperature scaling instead: TemperatureScaling\("):
        wrap(net)


@pytest.mark.parametrize("options", [{"global_pool": "avg"}, {"global_pool": "map"}, {}])
def test_token_models_with_a_norm_attention_or_a_class_token_at_the_end_are_refused(options):
    with pytest.raises(InvalidInput, match=r"has no patch logits.*TemperatureScaling"):
        wrap(timm_s("vit_tiny_patch16_224", img_size=64, **options))


class Normed(Untraceable):
    """A norm after pooling that no recording shows."""

    def forward(self, x):
        assert x.shape[1] == 3
        return self.fc(nn.functional.layer_norm(self.features(x).mean(-1), (8,)))


class Pair(Untraceable):
    def forward(self, x):
        assert x.shape[1] == 3
        return super().forward(x), x


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (Normed(), "the mean of the patch logits is not what this network returns; something non-linear"),
        (Pair(), r"its answer has type tuple, logits have \(B, K\)"),
        (Windows(window=4), "its linear layer does not fit single positions"),
        (ended(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 5, 1)), r"its answer has shape \(4, 5, 1, 1\)"),
        (nn.Sequential(nn.AvgPool2d(96), nn.Flatten(), nn.Linear(3, 1)), "there are 1 classes"),
    ],
)
def test_what_only_numbers_show_is_refused_by_fit(net, message):
    with pytest.raises(InvalidInput, match=message):
        wrap(net).fit(loader())


def test_a_hook_that_spoils_the_mean_is_noticed_at_the_first_use_without_fit():
    net = own("convolution")
    net[4].register_forward_hook(lambda layer, inputs, output: output.square())
    with pytest.raises(InvalidInput, match="is not what this network returns"):
        wrap(net, method=VarianceSmoothing(beta=0.0))(images())


def test_a_single_patch_is_refused_with_the_cure():
    message = (
        "ResNet leaves a single patch of inputs 3 x 32 x 32; the spread needs two or more: give larger inputs, or use"
    )
    with pytest.raises(InvalidInput, match=message):
        wrap(torchvision_s("resnet18")).fit(loader(32))


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([], InvalidInput, "no validation batches"),
        ([(images(), torch.tensor([0, 1, 2, CLASSES]))], InvalidInput, "labels go from 0 to 7; expected 0 to 6"),
        ([(images(), torch.tensor([0, 1, 2, -1]))], InvalidInput, "labels go from -1 to 2"),
        ([(images(), torch.tensor([0, 1]))], InvalidInput, r"labels have shape \(2,\)"),
        ([(images(), torch.rand(4))], InvalidInput, "labels are torch.float32"),
        ([(images() * torch.nan, torch.arange(4))], NotFinite, "NaN or infinite logits in 4 of 4 examples"),
        ([images()], InvalidInput, r"a validation batch is a Tensor; give fit a loader of pairs"),
        ([{"x": images()}], InvalidInput, "a validation batch is a dict"),
    ],
)
def test_validation_data_that_make_no_sense_are_refused(batches, error, message):
    with pytest.raises(error, match=message):
        wrap(own("signals")).fit(batches)


def test_what_is_no_network_is_refused():
    with pytest.raises(InvalidInput, match=r"wrap was given a function; give a torch\.nn\.Module"):
        wrap(lambda x: x)
