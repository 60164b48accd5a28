"""Patch logits of a network that cannot be recorded as a graph, by watching the functions that it calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vbs_cli.models.endings import at_positions, channel_axis, refused

CONVOLUTIONS = (F.conv1d, F.conv2d)


@dataclass(frozen=True)
class WatchedCall:
    """Function and its arguments after the input."""

    function: Callable[..., Tensor]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def on(self, x: Tensor) -> Tensor:
        return self.function(x, *self.args, **self.kwargs)


class Watcher(TorchFunctionMode):
    """Remembers the last average over positions, and the last linear layer or 1x1 convolution after it."""

    def __init__(self, weight: Tensor | None) -> None:
        super().__init__()
        self.weight = weight  # weight of the layer to look for, if it was named
        self.features: Tensor | None = None
        self.axis = 1
        self.head: WatchedCall | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        axis = channel_axis(func, args, kwargs)
        if axis is not None:
            self.features, self.axis, self.head = args[0], axis, None
        elif self.is_head(func, args):
            self.head = WatchedCall(func, args[1:], kwargs)
        return func(*args, **kwargs)

    def is_head(self, function: Any, args: tuple[Any, ...]) -> bool:
        if function is not F.linear and function not in CONVOLUTIONS:
            return False
        x, weight = args[:2]
        single = function is F.linear or {*x.shape[2:], *weight.shape[2:]} == {1}
        return single and (self.weight is None or weight is self.weight)


def watched(net: nn.Module, x: Tensor, *, head: nn.Module | None = None) -> tuple[Tensor, Tensor]:
    """Run a network once and return its logits (B, K) and patch logits (B, K, *grid)."""
    weight = getattr(head, "weight", None)
    with Watcher(weight) as seen:
        answer = net(x)
    if seen.features is None or seen.head is None:
        missing = "average pooling" if seen.features is None else "linear layer or 1x1 convolution after its pooling"
        raise refused(net, f"it has no {missing}")
    if seen.head.function in CONVOLUTIONS:
        return answer, seen.head.on(seen.features)
    if seen.axis == 1:
        return answer, at_positions(seen.features, *seen.head.args, **seen.head.kwargs)
    return answer, seen.head.on(seen.features).movedim(-1, 1)
