"""Families of classifiers that can be wrapped, those that cannot, and what a wrapper is good for."""

import copy
import functools
import io
import pickle
import warnings

import pytest
import torch
from safetensors.torch import load, save
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torchvision import models

from vbs_cli import Logits, PatchAveraging, TemperatureScaling, VarianceSmoothing, sigma_bar, wrap
from vbs_cli.errors import InvalidInput, NotFinite
from vbs_cli.models.pooled_head import watched

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


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_s_classifiers_are_smoothed_by_their_patches(name):
    net, x = torchvision_s(name), images(seed=5)
    smoothed = wrap(net, method=METHOD).fit(loader())
    check_wrapped(net, x, smoothed, patches_by_hooks(net, *TORCHVISION[name], x))


@pytest.mark.parametrize("name", TIMM)
def test_timm_s_classifiers_are_smoothed_by_their_patches(name):
    options, size = TIMM[name]
    net, x = timm_s(name, **options), images(size=size, seed=5)
    smoothed = wrap(net, method=METHOD).fit(loader(size))
    with torch.no_grad():
        before = net.forward_features(x)
        if before.ndim == 3:
            before = before[:, net.num_prefix_tokens :].transpose(1, 2)
        patches = at_every_position(net.get_classifier(), before)
    check_wrapped(net, x, smoothed, patches)


@pytest.mark.parametrize(
    "name", ["signals", "tokens", "untraceable", "untraceable tokens", "windows", "convolution", "scores averaged"]
)
def test_other_ways_to_average_are_found(name):
    net, x = own(name), images(seed=5)
    smoothed = wrap(net, method=METHOD).fit(loader())
    with torch.no_grad():
        patches = smoothed.patches(x)
    assert patches.shape[:2] == (4, CLASSES)
    assert (patches.flatten(2).std(2) > 0).all()
    check_wrapped(net, x, smoothed, patches)


@pytest.mark.parametrize("name", ["signals", "tokens", "untraceable", "untraceable tokens"])
def test_signals_and_tokens_have_patches_in_a_row(name):
    net, x = own(name), images()
    with torch.no_grad():
        patches = wrap(net).patches(x)
        torch.testing.assert_close(patches, at_every_position(net.fc, net.features(x)))
    assert patches.ndim == 3


def test_watching_and_recording_see_the_same_patches():
    for name in ("signals", "tokens", "windows", "convolution"):
        net, x = own(name), images()
        torch.testing.assert_close(watched(net, x)[1], wrap(net).patches(x))


def test_the_network_runs_once_for_a_prediction():
    net = own("signals")
    smoothed, runs = wrap(net).fit(loader()), []
    net.body.register_forward_hook(lambda *_: runs.append(1))
    for use in (smoothed, smoothed.predict_proba, smoothed.temperature, smoothed.sigma, smoothed.record):
        use(images())
    assert len(runs) == 5


def test_a_named_head_is_taken_where_the_last_step_is_none():
    torch.manual_seed(0)
    net, x = Extra().eval(), images()
    with pytest.raises(InvalidInput, match="it ends in mul, not in a linear layer"):
        wrap(net)
    smoothed = wrap(net, head="fc").fit(loader())
    torch.testing.assert_close(smoothed.patches(x).mean(2), net(x))
    assert torch.equal(wrap(own("signals"), head="fc").patches(x), wrap(own("signals")).patches(x))


def test_a_named_convolution_of_any_size_may_give_the_scores():
    net = ended(nn.Conv2d(8, CLASSES, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    smoothed = wrap(net, head="2").fit(loader())
    torch.testing.assert_close(smoothed.patches(images()).mean((2, 3)), net(images()))


def test_a_name_that_is_no_layer_is_answered_with_those_that_are():
    with pytest.raises(InvalidInput, match="Signals has no layer 'classifier'; its linear layers: fc"):
        wrap(own("signals"), head="classifier")
    net = own("signals")
    net.spare = nn.Linear(8, CLASSES)
    with pytest.raises(InvalidInput, match="the layer that was named is not used; name the linear layer"):
        wrap(net, head="spare")


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


def test_an_unfitted_wrapper_asks_to_be_fitted():
    for use in ("__call__", "predict_proba", "temperature"):
        with pytest.raises(InvalidInput, match=r"beta is still the rule 'mean\+0.5'; call fit with a loader"):
            getattr(wrap(own("signals")), use)(images())
    assert wrap(own("signals"), method=VarianceSmoothing(beta=0.0))(images()).shape == (4, CLASSES)


@pytest.mark.parametrize("spread", ["logits", "softmax", "exp"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_kernel_spread_and_map_are_those_of_the_method(kernel, spread):
    method = VarianceSmoothing(alpha=1.5, beta="mean", spread=spread, map="exponential")
    smoothed, x = wrap(own("convolution"), kernel=kernel, method=method).fit(loader()), images(seed=5)
    with torch.no_grad():
        record = Logits.from_patches(smoothed.patches(x), kernel=kernel, spreads=method.spreads)
        torch.testing.assert_close(
            smoothed.temperature(x).double(), smoothed.method.temperature(record), rtol=1e-5, atol=0
        )
        torch.testing.assert_close(smoothed.sigma(x), record.sigma_of(spread).float())


def test_a_record_is_good_for_the_methods_of_the_library():
    smoothed = wrap(own("convolution"), kernel=2).fit(loader())
    x, y = images(), torch.arange(4)
    with torch.no_grad():
        record = smoothed.record(x, y)
        assert torch.equal(record.logits, own("convolution")(x))
        torch.testing.assert_close(record.sigma, sigma_bar(smoothed.patches(x), kernel=2))
        torch.testing.assert_close(
            smoothed.predict_proba(x), smoothed.method.predict_proba(record), rtol=1e-6, atol=1e-6
        )
    assert torch.equal(record.labels, y)
    assert PatchAveraging().predict_proba(record).shape == (4, CLASSES)
    assert (TemperatureScaling().fit(record).temperature(record) > 0).all()


@torch.no_grad()
def test_a_fitted_wrapper_is_restored_from_its_state():
    first = wrap(own("convolution"), kernel=2, method=METHOD).fit(loader())
    torch.manual_seed(9)
    second, x = wrap(ended(*own("convolution")[2:])), images()
    assert {name for name in first.state_dict() if not name.startswith("net.")} == {"alpha", "beta", "_extra_state"}
    bare = {f"net.{name}" for name in first.net.state_dict()}
    assert bare == {name for name in first.state_dict() if name.startswith("net.")}
    second.load_state_dict(load(save(first.state_dict())))
    assert torch.equal(first(x), second(x))
    assert (second.method, second.kernel) == (first.method, 2)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    with pytest.raises(RuntimeError, match="Missing key"):
        second.load_state_dict(first.net.state_dict())


@torch.no_grad()
def test_the_state_of_an_unfitted_wrapper_is_unfitted():
    fitted = wrap(own("signals")).fit(loader())
    fitted.load_state_dict(wrap(own("signals")).state_dict())
    with pytest.raises(InvalidInput, match="call fit"):
        fitted(images())


@torch.no_grad()
@pytest.mark.parametrize("name", ["convolution", "untraceable"])
def test_copies_and_pickles_stand_by_themselves(name):
    smoothed, x = wrap(own(name), method=METHOD).fit(loader()), images()
    expected = smoothed(x)
    for other in (copy.deepcopy(smoothed), pickle.loads(pickle.dumps(smoothed))):
        assert torch.equal(other(x), expected)
        for weight in other.parameters():
            weight.zero_()
    assert torch.equal(smoothed(x), expected)


@torch.no_grad()
@pytest.mark.parametrize("build", [lambda: torchvision_s("resnet18"), lambda: own("tokens")])
def test_it_compiles_as_one_graph(build):
    smoothed, x = wrap(build(), method=METHOD, kernel=2).fit(loader()), images()
    torch.compiler.reset()
    compiled = torch.compile(smoothed, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), smoothed(x))
    restored = wrap(copy.deepcopy(build()))
    restored.load_state_dict(smoothed.state_dict())
    torch.testing.assert_close(torch.compile(restored, backend="eager", fullgraph=True)(x), smoothed(x))


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "near"), [(torch.bfloat16, 0.1), (torch.float16, 0.02), (torch.float64, 1e-5)])
def test_other_precisions_give_nearly_the_same(dtype, near):
    net, x = torchvision_s("shufflenet_v2_x0_5"), images(size=64, seed=5)
    smoothed = wrap(net, method=METHOD).fit(loader(64))
    scale = net(x).abs().max().item()
    cast = copy.deepcopy(smoothed).to(dtype)
    assert torch.equal(cast.alpha, smoothed.alpha)
    assert torch.equal(cast.beta, smoothed.beta)
    y = cast(x.to(dtype))
    assert y.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(y.float(), smoothed(x), atol=near * scale, rtol=0)
    assert torch.equal(y.argmax(1), cast.net(x.to(dtype)).argmax(1))
    cast.fit([(inputs.to(dtype), labels) for inputs, labels in loader(64)])
    with torch.autocast("cpu", torch.bfloat16):
        assert smoothed(x).dtype == torch.float32


@torch.no_grad()
def test_weights_that_change_later_are_the_ones_that_run():
    net, x = own("convolution"), images()
    smoothed = wrap(net, method=METHOD).fit(loader())
    net[4].bias += 1
    torch.testing.assert_close(smoothed.patches(x).mean((2, 3)), net(x))
    net[4] = nn.Conv2d(8, 3, 1)
    assert smoothed(x).shape == (4, 3)
    assert smoothed.to("meta")(x.to("meta")).shape == (4, 3)


def test_the_network_stays_in_evaluation_mode():
    smoothed = wrap(own("convolution").train(), method=METHOD)
    assert not smoothed.net.training
    smoothed.fit(loader()).train()
    assert torch.equal(smoothed(images()), smoothed(images()))


def test_gradients_reach_the_input():
    x = images().requires_grad_()
    wrap(own("convolution"), method=METHOD).fit(loader())(x).logsumexp(1).sum().backward()
    assert x.grad.abs().max() > 0


def test_wrapping_says_nothing_and_leaves_nothing_behind():
    net = own("untraceable")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrap(net).fit(loader())(images())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in net.modules())
