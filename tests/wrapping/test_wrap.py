"""What a wrapper is good for: predictions, records, saving, copying, compiling, other precisions."""

import copy
import io
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from tests.wrapping.classifying import CLASSES, METHOD, ended, images, loader, own, torchvision_s
from vbs_cli import Averaging, Logits, TemperatureScaling, VarianceSmoothing, sigma_bar, wrap
from vbs_cli.errors import InvalidInput, NotFinite
from vbs_cli.logits import spreads_named


@pytest.mark.parametrize(
    "code",
    [
        "from vbs_cli import wrap",
        "import vbs_cli; wrap = vbs_cli.wrap",
        "import vbs_cli.wrapping.watching; wrap = vbs_cli.wrap",
        "import vbs_cli.wrapping.smoothed; from vbs_cli import wrap",
    ],
)
def test_the_public_function_can_be_called_whatever_was_imported_before_it(code):
    layers = "nn.Conv1d(2, 3, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 4)"
    use = f"from torch import nn; print(wrap(nn.Sequential({layers}), kernel=2).kernel)"
    done = subprocess.run([sys.executable, "-c", f"{code}; {use}"], capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_the_network_runs_once_for_a_prediction():
    net = own("signals")
    smoothed, runs = wrap(net).fit(loader()), []
    net.body.register_forward_hook(lambda *_: runs.append(1))
    for use in (smoothed, smoothed.predict_proba, smoothed.temperature, smoothed.sigma, smoothed.record):
        use(images())
    assert len(runs) == 5


def test_fitting_again_follows_the_new_data():
    smoothed = wrap(own("signals"))
    first = smoothed.fit(loader()).method.beta
    second = smoothed.fit([(5 * x, y) for x, y in loader()]).method.beta
    assert second < first
    assert smoothed.fit(loader()).method.beta == first


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
        record = Logits.from_patches(smoothed.patches(x), kernel=kernel, spreads=spreads_named(method.reads))
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
    assert Averaging().predict_proba(record).shape == (4, CLASSES)
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


def test_nan_at_the_first_use_is_told():
    with pytest.raises(NotFinite, match="NaN or infinite logits"):
        wrap(own("signals"), method=VarianceSmoothing(beta=0.0))(images() * torch.nan)
