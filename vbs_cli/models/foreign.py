"""Classifiers that were trained elsewhere, as networks of patch logits: `torchvision:resnet50`, `my_module:build`.

Their weights keep their names. Inputs are pixels in [0, 1] or samples in [-1, 1]; a network that expects another range
has to convert them itself, in its first step.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, fx, nn

from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.models.base import COLON, format_shape
from vbs_cli.models.classifiers import OPTIONS, ended_in_patches, replace_dropouts
from vbs_cli.models.endings import Recorder, check_commutes
from vbs_cli.registry import unknown
from vbs_cli.seeding import generator

TORCHVISION = "torchvision"
NESTED = ("state_dict", "model")  # keys under which training scripts save the weights, next to other things
WRAPPED = "module."  # prefix that DataParallel puts before the names of weights


def foreign(name: str, *, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build a classifier from elsewhere as a network of patch logits: (B, C, *size) -> (B, K, *grid)."""
    origin, _, function = name.partition(COLON)
    net = of_torchvision(function, classes) if origin == TORCHVISION else built(origin, function)
    replace_dropouts(net, 0.0)
    try:
        graph = Recorder().trace(net)
    except Exception as error:  # whatever the network's own code raises when it gets a value that has no data yet
        why = f"{name} cannot be recorded: {' '.join(str(error).split())[:120]}"
        raise InvalidInput(why, hint="wrap(net) from Python takes such networks") from None
    model = ended_in_patches(fx.GraphModule(net, graph, class_name=type(net).__name__), name)
    check_answers(model, net, name, shape=shape, classes=classes)
    return model


@torch.no_grad()
def check_answers(model: nn.Module, net: nn.Module, name: str, *, shape: tuple[int, ...], classes: int) -> None:
    """Refuse a model whose mean patch logits differ from the output of `net`, on random inputs of the data's shape.

    That pooling and the linear layer commute does not depend on the weights, so any will do.
    """
    x = torch.rand(2, *shape, generator=generator("foreign", "probe"))
    try:
        patches, answer = model.eval()(x), net.eval()(x)
    except RuntimeError as error:
        why = f"{name} cannot take inputs of {format_shape(shape)}: {' '.join(str(error).split())[:120]}"
        raise InvalidInput(why, hint="prepare data that it can take (vbs download --size, --crop)") from None
    if answer.shape != (2, classes):
        found_shape = format_shape(tuple(answer.shape[1:]))
        raise InvalidInput(f"{name} answers with {found_shape} numbers, the data have {classes} classes")
    check_commutes(patches, answer)


def of_torchvision(name: str, classes: int) -> nn.Module:
    from torchvision import models  # here, as it takes seconds

    names = models.list_models(module=models)
    if name not in names:
        raise unknown("model", f"{TORCHVISION}{COLON}{name}", [f"{TORCHVISION}{COLON}{known}" for known in names])
    net: nn.Module = models.get_model(name, weights=None, num_classes=classes, **OPTIONS.get(name, {}))
    return net


def built(module: str, function: str) -> nn.Module:
    """Build a network by a function of the user's; its module is also looked for in the working directory."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        build = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        hint = "write MODULE:FUNCTION, where FUNCTION() returns the network"
        raise InvalidInput(f"there is no {module}{COLON}{function}: {error}", hint=hint) from None
    net = build()
    if not isinstance(net, nn.Module):
        raise InvalidInput(f"{module}{COLON}{function} returns a {type(net).__name__}", hint="return a torch.nn.Module")
    return net


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a file by name. A pickle that holds more than tensors is refused, as reading it could run code."""
    if not path.is_file():
        raise MissingArtifact(f"there is no {path}", hint="give the file of the network's weights")
    try:
        with warnings.catch_warnings(action="ignore"):  # about pickles, which are refused anyway
            safe = path.suffix == ".safetensors"
            found: Any = load_file(path) if safe else torch.load(path, "cpu", weights_only=True)
    except SafetensorError as error:
        raise InvalidInput(f"{path} cannot be read: {error}", hint="save the state_dict again") from None
    except Exception:  # UnpicklingError if it would run code, or whatever a broken file raises
        hint = "save net.state_dict() with safetensors, or with torch.save"
        raise InvalidInput(f"{path} holds more than tensors, or is broken; it was not run", hint=hint) from None
    for name in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InvalidInput(f"{path} holds no state_dict", hint="save net.state_dict()")
    return {str(name).removeprefix(WRAPPED): value for name, value in found.items()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], *, path: Path, name: str) -> None:
    """Load weights into a network, or refuse them with an error that gives examples of those that do not match."""
    own = model.state_dict()
    missing, more = [key for key in own if key not in weights], [key for key in weights if key not in own]
    other = [key for key in own if key in weights and own[key].shape != weights[key].shape]
    if missing or more or other:
        problems = [
            f"{len(keys)} {what}, such as {keys[0]}"
            for keys, what in ((missing, "missing"), (more, "unknown"), (other, "of another shape"))
            if keys
        ]
        hint = "data and network must have equally many classes" if other else "give a file of this network's weights"
        raise InvalidInput(f"the weights of {path} do not match {name}: {'; '.join(problems)}", hint=hint)
    model.load_state_dict(weights)
