"""Temperature scaling: one number for all examples, fitted on validation NLL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.methods.averaging import averaged
from vbs_cli.methods.base import METHODS, TemperatureMethod, need_fitted, need_labels
from vbs_cli.registry import unknown

# If the best temperature is zero (every validation example is right) or infinite (scores that mislead), the search ends
# at these bounds and `converged` is False.
COLDEST, HOTTEST = 1e-2, 1e3
SOLVERS, AVERAGES = ("exact", "adam"), ("logits", "softmax")
TINY = torch.finfo(torch.float64).tiny


@METHODS.register("temperature")
@dataclass(frozen=True)
class TemperatureScaling(TemperatureMethod):
    """Temperature scaling softmax(l / value).

    `solver` is "exact", or "adam" for the recipe of the paper's appendix (Baselines). `average` names what is averaged
    over the parts before the division: "logits", or "softmax" as in a deep ensemble, softmax(log p / value), where p is
    the mean of the softmaxes.
    """

    value: float | None = None
    converged: bool | None = None
    solver: str = "exact"
    average: str = "logits"

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise unknown("solver", self.solver, SOLVERS)
        if self.average not in AVERAGES:
            raise unknown("average", self.average, AVERAGES)

    @property
    def reads(self) -> tuple[str, ...]:
        return ("mean_softmax",) if self.average == "softmax" else ()

    def scores(self, record: Logits) -> Tensor:
        if self.average == "softmax":
            return averaged(record).clamp(min=TINY).log()
        return super().scores(record)

    def fit(self, val: Logits) -> Self:
        solve = fit_temperature if self.solver == "exact" else fit_by_adam
        value, converged = solve(self.scores(val), need_labels(val))
        return replace(self, value=value, converged=converged)

    def temperature(self, record: Logits) -> Tensor:
        value = need_fitted(self.value, "temperature scaling")
        return torch.full((len(record),), value, dtype=torch.float64)


def fit_temperature(logits: Tensor, labels: Tensor) -> tuple[float, bool]:
    """Temperature of least NLL and whether it lies inside the bounds: (N, K), (N,) -> (T, converged).

    A fit to every eighth example gives the starting point, so that few steps need all of them.
    """
    scores = logits.to(torch.float64, copy=True)
    scores -= scores.amax(1, keepdim=True)
    target = scores.gather(1, labels[:, None]).squeeze(1)
    if not scores.any():
        return 1.0, True
    few = slice(None, None, 8)
    work = torch.empty_like(scores)
    begin, _ = newton(scores[few].contiguous(), float(target[few].mean()), 1.0, work, tolerance=1e-2)
    b, converged = newton(scores, float(target.mean()), begin, work)
    return 1 / b, converged


def newton(
    scores: Tensor, target: float, b: float, work: Tensor, *, tolerance: float = 3e-7, max_steps: int = 100
) -> tuple[float, bool]:
    """Inverse temperature b of least NLL, from scores (N, K) with row maxima of 0 and the mean score of the labels.

    The NLL is convex in b, so Newton steps on its slope find the minimum; every slope narrows a bracket, and bisection
    in log b replaces steps that leave it. The search stops after a step of at most `tolerance` * b, which leaves a
    relative error of about the square of `tolerance`.
    """
    lowest, highest = 1 / HOTTEST, 1 / COLDEST
    low, high = lowest / 2, highest * 2
    for count in range(max_steps):
        gradient, curvature = slope(scores, target, b, work[: len(scores)])
        if gradient == 0 and curvature > 0:
            return b, True
        if (b == lowest and gradient > 0) or (b == highest and gradient <= 0):
            return b, False
        # If every example is right and p has become exact, slope and curvature are zero, and b has still to grow.
        low, high = (low, b) if gradient > 0 else (b, high)
        # Towards an optimum at infinity Newton steps never grow, so try the bound at once.
        endless = curvature == 0 or (count >= 10 and high > highest)
        step = highest if endless else min(max(b - gradient / curvature, b / 8, lowest), 8 * b, highest)
        following = step if low < step < high else (low * high) ** 0.5
        if abs(following - b) <= tolerance * b:
            return following, True
        b = following
    return b, False


def slope(scores: Tensor, target: float, b: float, work: Tensor) -> tuple[float, float]:
    """First and second derivative of the NLL in b: mean(E_p[l] - l_y) and mean(Var_p[l]), p the softmax of b * l.

    Computed in the memory of `work`, since torch's own softmax is several times slower over a few classes.
    """
    torch.mul(scores, b, out=work).exp_()
    total = work.sum(1)
    first = work.mul_(scores).sum(1) / total
    second = work.mul_(scores).sum(1) / total
    return float(first.mean()) - target, float((second - first.square()).mean())


def fit_by_adam(logits: Tensor, labels: Tensor) -> tuple[float, bool]:
    """Fit by the paper's recipe: from T = 1, ten epochs of Adam at 0.01, batches of 64: (N, K), (N,) -> (T, converged).

    `converged` is True if the last epoch moved T by less than one percent.
    """
    rng = torch.Generator().manual_seed(0)
    value = torch.ones((), dtype=logits.dtype, requires_grad=True)
    optimizer = torch.optim.Adam([value], lr=0.01)
    before = value.item()
    for _ in range(10):
        before = value.item()
        for batch in torch.split(torch.randperm(len(labels), generator=rng), 64):
            optimizer.zero_grad()
            F.cross_entropy(logits[batch] / value, labels[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                value.clamp_(COLDEST, HOTTEST)
    return value.item(), abs(value.item() - before) < 0.01 * before
