"""Choice of an architecture by the shape of the inputs, for data without a protocol."""

from __future__ import annotations

from torch import nn

from vbs_cli.models.base import FITTING, MODELS

LONG = 6_000  # samples; from this length on the speech network's longer strides leave enough patches


def fitting_name(shape: tuple[int, ...]) -> str:
    """Name of the architecture for this shape: network in network for images, a signal network by length otherwise."""
    if len(shape) == 3:
        return "nin"
    return "conv1d-speech" if shape[-1] >= LONG else "conv1d-radio"


@MODELS.register(FITTING)
def fitting_network(*, shape: tuple[int, ...], classes: int, width: int, dropout: float) -> nn.Module:
    return MODELS[fitting_name(shape)](shape=shape, classes=classes, width=width, dropout=dropout)
