"""The registry of networks and how one is built."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from vbs_cli.errors import InvalidInput
from vbs_cli.registry import Registry

MODELS: Registry[Callable[..., nn.Module]] = Registry("model")
FITTING = "auto"  # the model that fits the inputs
COLON = ":"  # between where a network comes from and its name there


def is_foreign(name: str) -> bool:
    """Whether a name is that of a network which was trained elsewhere."""
    return COLON in name


def build_model(name: str, *, shape: tuple[int, ...], classes: int, width: int, dropout: float = 0.0) -> nn.Module:
    """A network by name for inputs of a shape; `dropout` > 0 puts one after every activation (the MC-dropout variant).

    Names that are not ours are those of torchvision's classifiers, which have a width of their own; with a colon they
    say where a network comes from that was trained elsewhere.
    """
    if is_foreign(name):
        if dropout:
            hint = "choose --methods that need no dropout, for instance conventional,temperature,vbs"
            raise InvalidInput(f"{name} was trained elsewhere and has no MC-dropout variant", hint=hint)
        from vbs_cli.models.foreign import foreign  # which imports this module

        model = foreign(name, shape=shape, classes=classes)
    elif name in MODELS:
        model = MODELS[name](shape=shape, classes=classes, width=width, dropout=dropout)
    else:
        from vbs_cli.models.classifiers import classifier  # which imports this module

        model = classifier(name, shape=shape, classes=classes, dropout=dropout)
    check_fits(model, name, shape)
    return model


def model_revision(name: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Revision of an architecture as a recipe records it; those that are not ours stay at the first.

    That of "auto" is the revision of the one which fits inputs of the shape.
    """
    from vbs_cli.models.fitting import fitting_name  # which imports this module

    chosen = fitting_name(shape) if name == FITTING else name
    found = MODELS.revisions([chosen]).values() if chosen in MODELS else (1,)
    return {f"{MODELS.kind} {name}": number for number in found}


def patch_grid(model: nn.Module, shape: tuple[int, ...]) -> torch.Size:
    """How the patches of an input lie, by a pass without arithmetic: meta tensors have shapes and no data."""
    with torch.no_grad():
        z = copy.deepcopy(model).to("meta").eval()(torch.empty(1, *shape, device="meta"))
    return torch.Size(z.shape[2:])


def check_fits(model: nn.Module, name: str, shape: tuple[int, ...]) -> None:
    """Refuse inputs that a network cannot take."""
    try:
        grid = patch_grid(model, shape)
    except RuntimeError:
        hint = "it takes larger ones, or those of another kind (signals: channels x samples, images: channels x H x W)"
        raise InvalidInput(f"{name} cannot take inputs of {spelled(shape)}", hint=hint) from None
    if grid.numel() < 2:
        larger = f"larger inputs (vbs download --dataset folder --size {2 * max(shape[1:])})"
        how = larger if len(shape) == 3 else "longer inputs"
        hint = f"the spread needs two or more: {how} or a network with shorter strides"
        raise InvalidInput(f"{name} leaves a single patch of inputs {spelled(shape)}", hint=hint)


def spelled(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
