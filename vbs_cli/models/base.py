"""The registry of networks and how one is built."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from vbs_cli.registry import Registry

MODELS: Registry[Callable[..., nn.Module]] = Registry("model")


def build_model(name: str, *, channels: int, classes: int, width: int, dropout: float = 0.0) -> nn.Module:
    """A network by name; `dropout` > 0 puts one after every ReLU (the MC-dropout variant)."""
    return MODELS[name](channels=channels, classes=classes, width=width, dropout=dropout)
