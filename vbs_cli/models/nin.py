"""Network in network for images: three blocks of a convolution and two of 1x1, then average pooling.

Channels are those of the paper's appendix A at width 192. The network has no normalisation: with torch's own initial
weights it can stay at chance, with He's it trains.
"""

from __future__ import annotations

from torch import nn

from vbs_cli.models.base import MODELS
from vbs_cli.models.dropout import Dropout

PAPER_WIDTH = 192
BLOCKS = ((5, (192, 160, 96)), (5, (192, 192, 192)), (3, (192, 192)))  # kernel of the first convolution, channels


@MODELS.register("nin")
def network_in_network(*, shape: tuple[int, ...], classes: int, width: int, dropout: float) -> nn.Sequential:
    """Build a network for patch logits of images: (B, C, H, W) -> (B, K, H / 4, W / 4).

    The conventional network drops half of each pooled map; the MC-dropout variant has dropout after every ReLU instead.
    """
    layers: list[nn.Module] = []
    channels = shape[0]
    pools = (nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1))
    for number, (kernel, block) in enumerate(BLOCKS):
        if number:
            layers += [pools[number - 1], *([] if dropout else [Dropout(0.5)])]
        for depth, full in enumerate(block):
            out = max(1, round(full * width / PAPER_WIDTH))
            size = 1 if depth else kernel
            layers += [nn.Conv2d(channels, out, size, padding=size // 2), nn.ReLU(inplace=True)]
            layers += [Dropout(dropout)] if dropout else []
            channels = out
    layers.append(nn.Conv2d(channels, classes, 1))
    network = nn.Sequential(*layers)
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return network
