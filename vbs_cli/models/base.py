"""Registry of architectures, and the function that builds a network by name."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from vbs_cli.errors import InvalidInput
from vbs_cli.registry import Registry

MODELS: Registry[Callable[..., nn.Module]] = Registry("model")
FITTING = "auto"  # the architecture is chosen by the shape of the inputs
COLON = ":"  # between the origin of a network and its name there: torchvision:resnet50


def is_foreign(name: str) -> bool:
    """Whether a name stands for a network that was trained elsewhere."""
    return COLON in name


def build_model(name: str, *, shape: tuple[int, ...], classes: int, width: int, dropout: float = 0.0) -> nn.Module:
    """Build a network by name for inputs of this shape; `dropout` > 0 adds one after every activation (MC-dropout).

    Names that are not in MODELS are those of torchvision's classifiers, which have a fixed width; a name with a colon,
    ORIGIN:NAME, is that of a network that was trained elsewhere.
    """
    if is_foreign(name):
        if dropout:
            hint = "choose --methods that need no dropout, for instance conventional,temperature,vbs"
            raise InvalidInput(f"{name} was trained elsewhere and has no MC-dropout variant", hint=hint)
        from vbs_cli.models.foreign import foreign  # here, as that module imports this one

        model = foreign(name, shape=shape, classes=classes)
    elif name in MODELS:
        model = MODELS[name](shape=shape, classes=classes, width=width, dropout=dropout)
    else:
        from vbs_cli.models.classifiers import classifier  # here, as that module imports this one

        model = classifier(name, shape=shape, classes=classes, dropout=dropout)
    check_fits(model, name, shape)
    return model


def model_revision(name: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Revision of an architecture as a recipe records it; 1 for those that are not in MODELS.

    For "auto" it is the revision of the architecture that fits inputs of this shape.
    """
    from vbs_cli.models.fitting import fitting_name  # here, as that module imports this one

    chosen = fitting_name(shape) if name == FITTING else name
    found = MODELS.revisions([chosen]).values() if chosen in MODELS else (1,)
    return {f"{MODELS.kind} {name}": number for number in found}


def patch_grid(model: nn.Module, shape: tuple[int, ...]) -> torch.Size:
    """Shape of the patches of an input, (T,) or (h, w), by a pass on meta tensors, which have no data."""
    with torch.no_grad():
        z = copy.deepcopy(model).to("meta").eval()(torch.empty(1, *shape, device="meta"))
    return torch.Size(z.shape[2:])


def check_fits(model: nn.Module, name: str, shape: tuple[int, ...]) -> None:
    """Refuse inputs that a network cannot take, or of which it leaves a single patch."""
    try:
        grid = patch_grid(model, shape)
    except RuntimeError:
        hint = "it takes larger ones, or those of another kind (signals: channels x samples, images: channels x H x W)"
        raise InvalidInput(f"{name} cannot take inputs of {format_shape(shape)}", hint=hint) from None
    if grid.numel() < 2:
        larger = f"larger inputs (vbs download --dataset folder --size {2 * max(shape[1:])})"
        how = larger if len(shape) == 3 else "longer inputs"
        hint = f"the spread needs two or more: {how} or a network with shorter strides"
        raise InvalidInput(f"{name} leaves a single patch of inputs {format_shape(shape)}", hint=hint)


def format_shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
