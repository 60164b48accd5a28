"""Signal network: five convolutions with BatchNorm and ReLU, then a 1x1 convolution to the classes.

Kernels, strides and paddings are those of the paper's appendix A; the paper's width is 512.
"""

from __future__ import annotations

from torch import nn

from vbs_cli.models.base import MODELS
from vbs_cli.models.dropout import Dropout

KERNELS = (10, 8, 4, 4, 4)
PADDINGS = (2, 2, 2, 2, 1)
STRIDES_RADIO = (5, 4, 1, 1, 1)
STRIDES_SPEECH = (5, 4, 2, 2, 2)


def signal_network(
    *, channels: int, classes: int, width: int, dropout: float, strides: tuple[int, ...] = STRIDES_RADIO
) -> nn.Sequential:
    """Build a network for patch logits of signals: (B, C, L) -> (B, K, T)."""
    layers: list[nn.Module] = []
    for kernel, stride, padding in zip(KERNELS, strides, PADDINGS, strict=True):
        layers += [
            nn.Conv1d(channels, width, kernel, stride, padding),
            nn.BatchNorm1d(width),
            nn.ReLU(inplace=True),
        ]
        if dropout:
            layers.append(Dropout(dropout))
        channels = width
    layers.append(nn.Conv1d(width, classes, 1))
    return nn.Sequential(*layers)


@MODELS.register("conv1d-radio")
def radio_network(*, shape: tuple[int, ...], classes: int, width: int, dropout: float) -> nn.Sequential:
    """Build the signal network for radio: 79 patches of a window of 2 x 1580 samples."""
    return signal_network(channels=shape[0], classes=classes, width=width, dropout=dropout)


@MODELS.register("conv1d-speech")
def speech_network(*, shape: tuple[int, ...], classes: int, width: int, dropout: float) -> nn.Sequential:
    """Build the signal network for speech: 128 patches of 20,480 samples of sound."""
    return signal_network(channels=shape[0], classes=classes, width=width, dropout=dropout, strides=STRIDES_SPEECH)
