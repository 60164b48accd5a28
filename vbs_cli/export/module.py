"""A network and its fitted method as one module: one pass from inputs to probabilities, temperature and spread.

It consists of plain tensor operations without a branch on data, so it can be written to a file and run without vbs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import SPREADS, check_kernel, deviation, pool
from vbs_cli.methods.base import Method, need_fitted
from vbs_cli.methods.conventional import Conventional
from vbs_cli.methods.temperature import TemperatureScaling
from vbs_cli.methods.variance import MAPS, VarianceSmoothing, sigma_tilde
from vbs_cli.models.base import patch_grid
from vbs_cli.views.fast import Rows, fast

INPUT = "input"
OUTPUTS = ("probabilities", "temperature", "sigma")


class Smoothing(nn.Module):
    """Temperature sigma_tilde of variance-based smoothing, from sigma_bar: (B,) -> (B,)."""

    def __init__(self, method: VarianceSmoothing) -> None:
        super().__init__()
        self.curve = MAPS[method.map]
        alpha, beta = map(torch.tensor, method.numbers())
        self.alpha, self.beta = nn.Buffer(alpha), nn.Buffer(beta)

    def forward(self, sigma: Tensor) -> Tensor:
        return sigma_tilde(self.curve, sigma, self.alpha, self.beta)


class Constant(nn.Module):
    """Constant temperature, the same for every input: (B,) -> (B,)."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.temperature = nn.Buffer(torch.tensor(value))

    def forward(self, sigma: Tensor) -> Tensor:
        return self.temperature.expand_as(sigma)


class Calibrated(nn.Module):
    """A network of patch logits, x -> (B, K, *grid), with the method that was fitted on it."""

    def __init__(self, net: nn.Module, method: Method, *, kernel: int) -> None:
        super().__init__()
        self.net = net
        self.kernel = kernel
        self.spread = getattr(method, "spread", "logits")
        self.tempering = tempering(method)

    def forward(self, input: Tensor) -> dict[str, Tensor]:
        """Outputs by name: (B, C, *size) -> probabilities (B, K), temperature (B,), sigma (B,)."""
        z = self.net(input)
        sigma = deviation(SPREADS[self.spread](self.windows(z))).to(z.dtype)
        temperature = self.tempering(sigma)
        probabilities = (pool(z) / temperature[:, None]).softmax(1)
        return dict(zip(OUTPUTS, (probabilities, temperature, sigma), strict=True))

    def windows(self, z: Tensor) -> Tensor:
        """Means over neighbouring patches: (B, K, *grid) -> (B, K, S). Every runtime has average pooling."""
        if self.kernel > 1:
            z = (F.avg_pool1d if z.dim() == 3 else F.avg_pool2d)(z, self.kernel, stride=1)
        return z.flatten(2)


def calibrated(model: nn.Module, method: Method, *, shape: tuple[int, ...], kernel: int) -> Calibrated:
    """Module of a network and its fitted method for inputs of this shape, in a form that any runtime can take."""
    check_kernel(kernel, grid=patch_grid(model, shape))
    module = Calibrated(portable(fast(model, shape).net), method, kernel=kernel)
    return module.requires_grad_(False).eval()


def portable(net: nn.Module) -> nn.Module:
    """Convert a fast network to contiguous tensors, since channels last serves this machine's convolutions alone."""
    for name, layer in [*net.named_modules()]:
        if isinstance(layer, Rows):
            net.set_submodule(name, nn.Unflatten(2, (1, -1)))
    return net.to(memory_format=torch.contiguous_format)


def tempering(method: Method) -> nn.Module:
    """Module that computes each input's temperature from its spread."""
    if reason := why_not(type(method)):
        raise InvalidInput(f"{type(method).__name__} cannot be exported: {reason}")
    if isinstance(method, VarianceSmoothing):
        return Smoothing(method)
    if isinstance(method, TemperatureScaling):
        if method.average != "logits":
            why = f"its temperature divides the mean {method.average}"
            raise InvalidInput(f"{type(method).__name__} cannot be exported: {why}", hint="average the logits")
        return Constant(need_fitted(method.value, "temperature scaling"))
    return Constant(1.0)


def why_not(method: type[Method]) -> str:
    """Reason why one pass of one network cannot give what a method predicts; empty if it can."""
    known = issubclass(method, VarianceSmoothing | TemperatureScaling | Conventional)
    return "" if known else "it does more than divide the logits by a temperature"
