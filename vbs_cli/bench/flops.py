"""Floating-point operations of a prediction after the network, which torch's counter does not count.

`FlopCounterMode` counts convolutions and matrix products, a multiply-add as two, and nothing else of a network:
normalisations, activations and dropout masks are left out. Here every addition, subtraction, multiplication,
division, comparison, root and exponential counts as one. All counts are for a single example.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Head:
    """Sizes of what is computed from the patch logits of one example."""

    classes: int  # K
    grid: tuple[int, ...]  # of patches: (T,) or (H, W)
    kernel: int = 1  # window over which patches are averaged
    passes: int = 1  # draws of MC-dropout or members of an ensemble

    @property
    def windows(self) -> int:
        """Positions of the pooling window, at stride 1 without padding."""
        return math.prod(size - self.kernel + 1 for size in self.grid)


def mean_flops(values: int) -> int:
    """FLOPs of a mean: values - 1 additions and a division."""
    return values


def std_flops(values: int) -> int:
    """FLOPs of a sample standard deviation in two passes.

    The mean; a subtraction and a square for each value; their sum (values - 1); a division and a root.
    """
    return mean_flops(values) + 2 * values + (values - 1) + 2


def softmax_flops(classes: int) -> int:
    """FLOPs of a softmax that cannot overflow.

    The maximum and the sum (classes - 1 each); for each class a subtraction, an exponential and a division.
    """
    return 2 * (classes - 1) + 3 * classes


def pooling_flops(head: Head) -> int:
    """FLOPs from patch logits to logits: a mean over the grid for each class."""
    return head.classes * mean_flops(math.prod(head.grid))


def window_flops(head: Head) -> int:
    """FLOPs of the windows of one class: subtract the mean from each patch, slide sums along each axis, divide.

    Along an axis of `size` patches, running sums take size - 1 additions and every window a subtraction. A window of
    one patch is that patch.
    """
    patches = math.prod(head.grid)
    centring = mean_flops(patches) + patches
    if head.kernel == 1:
        return centring
    sliding, shape = 0, list(head.grid)
    for axis, size in enumerate(head.grid):
        shape[axis] = 1
        left = size - head.kernel + 1
        sliding += math.prod(shape) * (size - 1 + left)
        shape[axis] = left
    return centring + sliding + head.windows


def sigma_bar_flops(head: Head) -> int:
    """FLOPs of the paper's C_std: window pooling, a standard deviation for each class, their mean."""
    return head.classes * (window_flops(head) + std_flops(head.windows)) + mean_flops(head.classes)


def conventional_flops(head: Head) -> int:
    """FLOPs of softmax(l). The library's division by a temperature of one is not counted, as it is not needed."""
    return pooling_flops(head) + softmax_flops(head.classes)


def temperature_flops(head: Head) -> int:
    """FLOPs of softmax(l / T): one more division for each class."""
    return conventional_flops(head) + head.classes


def vbs_flops(head: Head) -> int:
    """FLOPs of softmax(l / sigma_tilde); sigma_tilde is an addition, a product and a maximum beyond sigma_bar."""
    return temperature_flops(head) + sigma_bar_flops(head) + 3


def naive_flops(head: Head) -> int:
    """FLOPs of the windows with the mean added back, a softmax for each, and the mean of those."""
    windows = head.classes * (window_flops(head) + head.windows)
    return windows + head.windows * softmax_flops(head.classes) + head.classes * mean_flops(head.windows)


def average_flops(head: Head) -> int:
    """FLOPs of a conventional prediction for each draw or member, and of their mean."""
    return head.passes * conventional_flops(head) + head.classes * mean_flops(head.passes)
