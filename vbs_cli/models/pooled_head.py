"""Variance-based smoothing around a trained classifier that ends in average pooling and a linear layer.

Both are linear and so commute: the linear layer applied at every position of the last feature map gives patch logits
whose mean is exactly what the classifier returns. That is checked on real inputs before anything relies on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits, pool
from vbs_cli.methods.variance import VarianceSmoothing

POOLS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)


def wrap(net: nn.Module, *, kernel: int = 1, method: VarianceSmoothing | None = None) -> Smoothed:
    """`wrap(net).fit(val_loader)` is the classifier with a temperature of its own for each input."""
    return Smoothed(net, kernel=kernel, method=method or VarianceSmoothing())


@dataclass
class Seen:
    """What passed through the network on the way to its answer."""

    features: Tensor | None = None  # into the last average pooling, (B, C, *grid)
    head: nn.Linear | None = None  # the last linear layer


class Smoothed(nn.Module):
    """A classifier whose logits are divided by sigma_tilde: the predicted class stays, the confidence is softened."""

    def __init__(self, net: nn.Module, *, kernel: int, method: VarianceSmoothing) -> None:
        super().__init__()
        self.net = net
        self.kernel = kernel
        self.method = method

    @torch.inference_mode()
    def fit(self, batches: Iterable[Any]) -> Self:
        """Resolve the method's rule on batches (inputs, labels) of validation data, with the network in eval mode."""
        self.net.eval()
        device = next(self.net.parameters()).device
        records = [self.record(x.to(device), y) for x, y, *_ in batches]
        if not records:
            raise InvalidInput("there are no validation batches", hint="give fit a loader that is not empty")
        self.method = self.method.fit(Logits.concat(records))
        return self

    def record(self, x: Tensor, labels: Tensor | None = None) -> Logits:
        """What the methods read, from one pass of the network."""
        return Logits.from_patches(self.patches(x).float().cpu(), labels=labels, kernel=self.kernel)

    def patches(self, x: Tensor) -> Tensor:
        """Patch logits (B, K, *grid), whose mean has been compared with the network's own answer."""
        seen = Seen()
        hooks = [
            module.register_forward_pre_hook(note(seen)) for module in self.net.modules() if not [*module.children()]
        ]
        try:
            answer = self.net(x)
        finally:
            for hook in hooks:
                hook.remove()
        if seen.features is None or seen.head is None:
            missing = "average pooling layer" if seen.features is None else "linear layer"
            raise InvalidInput(
                f"{type(self.net).__name__} has no {missing}", hint="variance-based smoothing needs both"
            )
        if seen.features.shape[1] != seen.head.in_features:
            raise InvalidInput("the last average pooling does not feed the last linear layer of this network")
        patches = F.linear(seen.features.movedim(1, -1), seen.head.weight, seen.head.bias).movedim(-1, 1)
        check_commutes(patches, answer)
        return patches

    def forward(self, x: Tensor) -> Tensor:
        """Calibrated logits (B, K)."""
        record = self.record(x)
        return (record.logits.double() / self.method.temperature(record)[:, None]).to(x.device, torch.float32)

    def predict_proba(self, x: Tensor) -> Tensor:
        """Probabilities (B, K), in float64."""
        return self.method.predict_proba(self.record(x))

    def temperature(self, x: Tensor) -> Tensor:
        """sigma_tilde of each input, (B,)."""
        return self.method.temperature(self.record(x))


def note(seen: Seen) -> Any:
    """A hook that remembers the last pooling's input and the last linear layer after it."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(module, POOLS):
            seen.features, seen.head = inputs[0], None
        elif isinstance(module, nn.Linear):
            seen.head = module

    return hook


def check_commutes(patches: Tensor, answer: Tensor) -> None:
    """Refuse a network whose answer is not the mean of its patch logits."""
    if answer.shape != patches.shape[:2] or not torch.allclose(pool(patches), answer, rtol=1e-3, atol=1e-3):
        raise InvalidInput(
            "the mean of the patch logits is not what this network returns",
            hint="something non-linear stands between its average pooling and its linear layer",
        )
