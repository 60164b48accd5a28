"""Temperature scaling: one number for all examples, fitted on validation NLL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.methods.base import METHODS, TemperatureMethod, need_labels

# Where the optimum lies at infinity (every validation example right) or at zero (scores that mislead), the search
# ends at these bounds and says so through `converged`.
COLDEST, HOTTEST = 1e-2, 1e3


@METHODS.register("temperature")
@dataclass(frozen=True)
class TemperatureScaling(TemperatureMethod):
    """softmax(l / value)."""

    value: float | None = None
    converged: bool | None = None

    def fit(self, val: Logits) -> Self:
        value, converged = fit_temperature(val.logits, need_labels(val))
        return replace(self, value=value, converged=converged)

    def temperature(self, record: Logits) -> Tensor:
        if self.value is None:
            raise InvalidInput("temperature scaling is not fitted", hint="call fit on validation logits first")
        return torch.full((len(record),), self.value, dtype=torch.float64)


def fit_temperature(logits: Tensor, labels: Tensor, *, max_steps: int = 100) -> tuple[float, bool]:
    """The temperature of least NLL and whether it lies inside the bounds: (N, K), (N,) -> (T, converged).

    With b = 1 / T the NLL is convex; its slope in b is mean(E_p[l] - l_y) and its curvature mean(Var_p[l]), p the
    softmax of b * l. Newton steps on the slope, kept inside a shrinking bracket by bisection in log b.
    """
    scores = logits.double()
    scores = scores - scores.max(1, keepdim=True).values
    target = scores.gather(1, labels[:, None]).mean()

    def slope(b: float) -> tuple[float, float]:
        p = (b * scores).softmax(1)
        mean = (p * scores).sum(1)
        variance = (p * scores.square()).sum(1) - mean.square()
        return float(mean.mean() - target), float(variance.mean())

    low, high = 1 / HOTTEST, 1 / COLDEST
    if slope(low)[0] >= 0:
        return HOTTEST, False
    if slope(high)[0] <= 0:
        return COLDEST, False
    b = 1.0
    for _ in range(max_steps):
        gradient, curvature = slope(b)
        low, high = (b, high) if gradient < 0 else (low, b)
        step = b - gradient / curvature if curvature > 0 else low
        following = step if low < step < high else (low * high) ** 0.5
        if abs(following - b) <= 4 * torch.finfo(torch.float64).eps * b:
            return 1 / following, True
        b = following
    return 1 / b, False
