"""Noises of light and colour: contrast, brightness, saturation, greyscale and fewer levels of grey."""

from __future__ import annotations

import torch
from torch import Tensor

from vbs_cli.data.noise import COLOUR, PICTURES, graded, noise

# Constants of the severities 1 to 5 of CIFAR-10-C (Hendrycks and Dietterich 2019).
CONTRASTS = (0.75, 0.5, 0.4, 0.3, 0.15)
BRIGHTER = (0.05, 0.1, 0.15, 0.2, 0.3)
SATURATION_FACTORS = (0.3, 0.1, 1.5, 2.0, 2.5)
SATURATION_ADDED = (0.0, 0.0, 0.0, 0.1, 0.2)
TURN, TURNED = 0.4, 0.6  # levels between which saturation goes from less than the image's to more
BITS = (6, 5, 4, 3, 2)  # of a value; 8 bits are the least visible, 1 bit leaves nothing of most images
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue, ITU-R BT.601


@noise("contrast", family="photometric", kinds=PICTURES, most=1.0)
def contrast(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Bring the values of each channel of an image towards their mean."""
    factor = graded(level, 1.0, *CONTRASTS)
    middle = x.mean((2, 3), keepdim=True)
    return (middle * (1 - factor)).add(x, alpha=factor).clamp_(0, 1)


@noise("brightness", family="photometric", kinds=PICTURES, most=1.0)
def brightness(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Add to the value of HSV, the largest of a pixel's channels; hue and saturation stay."""
    value = x.amax(1, keepdim=True)
    raised = (value + graded(level, 0.0, *BRIGHTER)).clamp_(max=1)
    # Black has no hue, and becomes grey.
    black = value == 0
    return (x / value.masked_fill(black, 1)).mul_(raised).add_(raised * black)


# The published severities take colour away, then add to it.
@noise("saturate", family="photometric", kinds=[COLOUR], most=1.0, monotone=False)
def saturate(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Scale the saturation of HSV and add to it; hue and value stay. A grey pixel has the hue of red, as usual."""
    # Between the severities 2 and 3 the factor would pass 1, which changes nothing.
    level = TURNED if TURN < level < TURNED else level
    factor, added = graded(level, 1.0, *SATURATION_FACTORS), graded(level, 0.0, *SATURATION_ADDED)
    value = x.amax(1, keepdim=True)
    span = value - x.amin(1, keepdim=True)
    grey = span == 0
    wanted = (span / value.masked_fill(grey, 1)).mul_(factor).add_(added).clamp_(0, 1).mul_(value)
    # What each channel lacks of the value grows as the span does.
    result = (x - value).mul_((wanted / span.masked_fill(grey, 1)).masked_fill_(grey, 0)).add_(value)
    result[:, 1:] -= wanted * grey
    return result


@noise("greyscale", family="photometric", kinds=[COLOUR], most=1.0)
def greyscale(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Mix colours with their luma; at level 1 the image is grey."""
    red, green, blue = x.unbind(1)
    luma = (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue).unsqueeze(1)
    return torch.lerp(x, luma, level)


@noise("posterise", family="photometric", kinds=PICTURES, most=1.0)
def posterise(x: Tensor, _: Tensor, level: float) -> Tensor:
    """Round values to evenly spaced ones, of which severities 1 to 5 have 64, 32, 16, 8 and 4."""
    step = graded(level, 0.0, *(1 / (2**bits - 1) for bits in BITS))
    return (x / step).round_().mul_(step).clamp_(0, 1)
