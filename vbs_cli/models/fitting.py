"""The network that fits inputs of a given shape, for data that nobody has a protocol for."""

from __future__ import annotations

from torch import nn

from vbs_cli.models.base import FITTING, MODELS

LONG = 6_000  # samples from which the speech network's longer strides leave enough patches


def fitting_name(shape: tuple[int, ...]) -> str:
    """Images take the network in network, signals the signal network with the strides for their length."""
    if len(shape) == 3:
        return "nin"
    return "conv1d-speech" if shape[-1] >= LONG else "conv1d-radio"


@MODELS.register(FITTING)
def fitting_network(*, shape: tuple[int, ...], classes: int, width: int, dropout: float) -> nn.Module:
    return MODELS[fitting_name(shape)](shape=shape, classes=classes, width=width, dropout=dropout)
