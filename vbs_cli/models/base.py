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


def build_model(name: str, *, shape: tuple[int, ...], classes: int, width: int, dropout: float = 0.0) -> nn.Module:
    """A network by name for inputs of a shape; `dropout` > 0 puts one after every ReLU (the MC-dropout variant)."""
    model = MODELS[name](shape=shape, classes=classes, width=width, dropout=dropout)
    check_fits(model, name, shape)
    return model


def check_fits(model: nn.Module, name: str, shape: tuple[int, ...]) -> None:
    """Refuse inputs that a network cannot take, by a pass without arithmetic: meta tensors have shapes and no data."""
    try:
        with torch.no_grad():
            copy.deepcopy(model).to("meta").eval()(torch.empty(1, *shape, device="meta"))
    except RuntimeError:
        given = " x ".join(map(str, shape))
        hint = "it takes larger ones, or those of another kind (signals: channels x samples, images: channels x H x W)"
        raise InvalidInput(f"{name} cannot take inputs of {given}", hint=hint) from None
