"""Every format: written, loaded again, and the same within rounding for any number of inputs."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.fixtures.networks import trained
from vbs_cli import Conventional, TemperatureScaling, VarianceSmoothing
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.export import FORMATS
from vbs_cli.export.check import TOLERANCE, check, differences, random_inputs, reference
from vbs_cli.export.module import OUTPUTS, calibrated

NETWORKS = {"conv1d-radio": ((2, 400), 3), "nin": ((3, 32, 32), 2), "resnet18": ((3, 64, 64), 1)}
SMOOTHING = VarianceSmoothing(alpha=2.0, beta=0.6)
METHODS = [
    SMOOTHING,
    replace(SMOOTHING, spread="softmax"),
    replace(SMOOTHING, spread="relu", map="exponential"),
    replace(SMOOTHING, spread="softplus"),
    replace(SMOOTHING, spread="exp", map="exponential"),
    TemperatureScaling(value=1.7),
    Conventional(),
]


@pytest.fixture(params=list(FORMATS))
def form(request):
    """A format whose libraries are here."""
    for library in FORMATS[request.param].libraries:
        pytest.importorskip(library)
    return FORMATS[request.param]


def lively(name, shape):
    """A network whose patches differ: untrained ones answer nearly the same everywhere."""
    model = trained(name, shape, width=16)
    with torch.no_grad():
        last = [layer for layer in model.modules() if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear)][-1]
        last.weight *= 2.0 / model(torch.rand(4, *shape)).flatten(2).std(2).mean()
    return model


def file_and_reference(form, name, method):
    shape, kernel = NETWORKS[name]
    model = lively(name, shape)
    data = form.write(calibrated(model, method, shape=shape, kernel=kernel), torch.rand(2, *shape))
    return data, reference(model, method, shape=shape, kernel=kernel), shape


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_gives_what_the_model_gives_for_batches_of_any_size(form, name):
    data, expected, shape = file_and_reference(form, name, SMOOTHING)
    inputs = [*random_inputs(shape), torch.rand(33, *shape)]
    assert [len(x) for x in inputs] == [1, 2, 7, 33]
    predict = form.open(data)
    apart = differences(predict, expected, inputs)
    assert max(apart.values()) <= TOLERANCE
    check(apart)
    found = predict(inputs[2])
    assert [tuple(found[name].shape) for name in OUTPUTS] == [(7, 5), (7,), (7,)]
    assert found["temperature"].min() > 1.5
    assert found["sigma"].min() > 0.1


@pytest.mark.parametrize("method", METHODS[1:], ids=str)
def test_every_option_of_the_methods_can_be_written(form, method):
    data, expected, shape = file_and_reference(form, "conv1d-radio", method)
    assert max(differences(form.open(data), expected, random_inputs(shape)).values()) <= TOLERANCE


@pytest.mark.parametrize("form", ["onnx", "pt2"], indirect=True)
def test_files_tell_nothing_of_the_machine_that_wrote_them(form):
    """TorchScript does: torch keeps the lines of the source in it."""
    data, _, _ = file_and_reference(form, "conv1d-radio", SMOOTHING)
    assert b"vbs_cli/models/calibrated.py" not in data


def test_onnx_is_one_file_with_named_inputs_and_outputs(tmp_path):
    onnxruntime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    data, _, _ = file_and_reference(FORMATS["onnx"], "nin", SMOOTHING)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [(given.name, given.shape) for given in session.get_inputs()] == [("input", ["batch", 3, 32, 32])]
    assert {given.name: given.shape for given in session.get_outputs()} == {
        "probabilities": ["batch", 5],
        "temperature": ["batch"],
        "sigma": ["batch"],
    }


WITHOUT_VBS = """
import sys
sys.modules["vbs_cli"] = None
import torch
for module in (torch.jit.load("torchscript"), torch.export.load("pt2").module()):
    found = module(torch.rand(3, 2, 400))
    print(*(f"{name} {tuple(value.shape)}" for name, value in found.items()), sep=", ")
"""


def test_torchscript_and_pt2_answer_by_name_where_there_is_no_vbs(tmp_path):
    for name in ("torchscript", "pt2"):
        data, _, _ = file_and_reference(FORMATS[name], "conv1d-radio", SMOOTHING)
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_VBS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["probabilities (3, 5), temperature (3,), sigma (3,)"] * 2, done.stderr


@pytest.mark.parametrize("library", FORMATS["onnx"].libraries)
def test_a_missing_library_is_named_with_the_command_that_brings_it(monkeypatch, library):
    for other in FORMATS["onnx"].libraries:
        pytest.importorskip(other)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InvalidInput, match=rf"{library}.*pip install 'vbs-cli\[export\]'"):
        file_and_reference(FORMATS["onnx"], "conv1d-radio", SMOOTHING)


def test_a_file_that_differs_is_refused():
    expected = reference(lively("nin", (3, 32, 32)), SMOOTHING, shape=(3, 32, 32), kernel=1)
    inputs = list(random_inputs((3, 32, 32)))
    for name in OUTPUTS:
        for factor in (1 + 1e-4, float("nan")):
            apart = differences(lambda x, n=name, f=factor: {**expected(x), n: expected(x)[n] * f}, expected, inputs)
            with pytest.raises(VbsError, match=f"the file's {name} are apart"):
                check(apart)
    check(differences(expected, expected, inputs))


def test_a_file_with_a_frozen_batch_is_refused():
    expected = reference(lively("nin", (3, 32, 32)), SMOOTHING, shape=(3, 32, 32), kernel=1)
    with pytest.raises(VbsError, match=r"probabilities of shape \(1, 5\) instead of \(2, 5\)"):
        differences(lambda x: expected(x[:1]), expected, random_inputs((3, 32, 32)))
