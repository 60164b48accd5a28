"""Classifiers that were trained elsewhere, as networks of patches: `torchvision:resnet50` or `my_module:build`.

Their weights keep their names. Inputs are pixels in [0, 1] or samples in [-1, 1]; a network that wants them otherwise
has to do that itself, as its first step.
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
from vbs_cli.models.base import COLON, spelled
from vbs_cli.models.classifiers import OPTIONS, ended_in_patches, replace_dropouts
from vbs_cli.models.endings import Recorder, check_commutes
from vbs_cli.registry import unknown
from vbs_cli.seeding import generator

TORCHVISION = "torchvision"
NESTED = ("state_dict", "model")  # where training scripts put the weights, beside other things
WRAPPED = "module."  # before the names of weights that DataParallel has saved


def foreign(name: str, *, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Patch logits by a classifier that somebody else has written: (B, C, *size) -> (B, K, *grid)."""
    origin, _, function = name.partition(COLON)
    net = of_torchvision(function, classes) if origin == TORCHVISION else built(origin, function)
    replace_dropouts(net, 0.0)
    try:
        graph = Recorder().trace(net)
    except Exception as error:  # whatever Python code does with a value that is not there yet
        why = f"{name} cannot be recorded: {' '.join(str(error).split())[:120]}"
        raise InvalidInput(why, hint="wrap(net) from Python takes such networks") from None
    model = ended_in_patches(fx.GraphModule(net, graph, class_name=type(net).__name__), name)
    check_answers(model, net, name, shape=shape, classes=classes)
    return model


@torch.no_grad()
def check_answers(model: nn.Module, net: nn.Module, name: str, *, shape: tuple[int, ...], classes: int) -> None:
    """Compare both on inputs of the data's shape: what commutes does so whatever the weights are."""
    x = torch.rand(2, *shape, generator=generator("foreign", "probe"))
    try:
        patches, answer = model.eval()(x), net.eval()(x)
    except RuntimeError as error:
        why = f"{name} cannot take inputs of {spelled(shape)}: {' '.join(str(error).split())[:120]}"
        raise InvalidInput(why, hint="prepare the data as it wants them (vbs download --size, --crop)") from None
    if answer.shape != (2, classes):
        told = spelled(tuple(answer.shape[1:]))
        raise InvalidInput(f"{name} answers with {told} numbers, the data have {classes} classes")
    check_commutes(patches, answer)


def of_torchvision(name: str, classes: int) -> nn.Module:
    from torchvision import models  # takes seconds

    names = models.list_models(module=models)
    if name not in names:
        raise unknown("model", f"{TORCHVISION}{COLON}{name}", [f"{TORCHVISION}{COLON}{known}" for known in names])
    net: nn.Module = models.get_model(name, weights=None, num_classes=classes, **OPTIONS.get(name, {}))
    return net


def built(module: str, function: str) -> nn.Module:
    """What a function of the user's own returns; its module is looked for in the working directory too."""
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
    """The tensors of a file by name. A pickle is read only as far as it is made of tensors alone."""
    if not path.is_file():
        raise MissingArtifact(f"there is no {path}", hint="give the file of the network's weights")
    try:
        with warnings.catch_warnings(action="ignore"):  # of pickles that are refused anyway
            safe = path.suffix == ".safetensors"
            found: Any = load_file(path) if safe else torch.load(path, "cpu", weights_only=True)
    except SafetensorError as error:
        raise InvalidInput(f"{path} cannot be read: {error}", hint="save the state_dict again") from None
    except Exception:  # UnpicklingError where it would run code, and whatever a broken file leads to
        hint = "save net.state_dict() with safetensors, or with torch.save"
        raise InvalidInput(f"{path} holds more than tensors, or is broken; it was not run", hint=hint) from None
    for name in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InvalidInput(f"{path} holds no state_dict", hint="save net.state_dict()")
    return {str(name).removeprefix(WRAPPED): value for name, value in found.items()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], *, path: Path, name: str) -> None:
    """Put weights into a network, or tell which do not match."""
    own = model.state_dict()
    missing, more = [key for key in own if key not in weights], [key for key in weights if key not in own]
    other = [key for key in own if key in weights and own[key].shape != weights[key].shape]
    if missing or more or other:
        told = [
            f"{len(keys)} {what}, such as {keys[0]}"
            for keys, what in ((missing, "missing"), (more, "unknown"), (other, "of another shape"))
            if keys
        ]
        hint = "the classes of the data must be as many as those of the network" if other else "is it this network's?"
        raise InvalidInput(f"the weights of {path} do not match {name}: {'; '.join(told)}", hint=hint)
    model.load_state_dict(weights)
