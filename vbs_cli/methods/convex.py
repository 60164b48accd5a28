"""Affine map before a softmax, fitted by least NLL: softmax(W x + b), W diagonal or full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from scipy.optimize import Bounds, minimize
from torch import Tensor
from torch.nn.functional import cross_entropy

from vbs_cli.methods.temperature import fit_temperature

# If the optimum lies at infinity (every validation example is right), the search ends at about this weight at the
# latest, as temperature scaling does at COLDEST, and `converged` is False.
LARGEST = 100.0
STEPS = 400  # of L-BFGS-B; some tens are usual, a full matrix of 251 classes takes them all in 15 seconds
SHORT = 1e-4  # a Newton step below this counts as none; one of a weight is multiplied by its feature's scale

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Affine:
    """Affine map: W, (K,) if it is diagonal or (K, K), and b (K,)."""

    weights: Tensor
    biases: Tensor
    converged: bool


def affine_scores(x: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    """Scores W x + b of each row: (N, K), (K,) or (K, K), (K,) -> (N, K)."""
    if weights.ndim == 1:
        return x * weights + biases
    # In a BLAS product the rounding of a row depends on its position; einsum sums every row in the same order.
    return torch.from_numpy(np.einsum("nj,kj->nk", x.numpy(), weights.numpy())) + biases


def fit_affine(
    x: Tensor, labels: Tensor, *, full: bool, odir: float = 0.0, mu: float = 0.0, steps: int = STEPS
) -> Affine:
    """Fit by least NLL, never above that of the identity: (N, K), (N,) -> Affine.

    `odir` and `mu` are the weights of the penalties of a full matrix, which are zero at the identity.
    """
    x = x.double()
    problem = Problem.of(x, labels, full=full, odir=odir, mu=mu)
    options = {"maxiter": steps, "maxfun": 2 * steps, "gtol": 1e-10, "ftol": 1e-16}
    start, bounds = problem.start(milder(x, labels)), problem.bounds()
    found = minimize(problem.value_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    point = torch.from_numpy(found.x)
    weights, biases = problem.raw(*problem.split(point))
    if not cross_entropy(affine_scores(x, weights, biases), labels) <= cross_entropy(x, labels):
        ones = torch.ones_like(biases)
        return Affine(ones.diag() if full else ones, torch.zeros_like(biases), converged=False)
    return Affine(weights, biases, converged=problem.stationary(point))


def milder(x: Tensor, labels: Tensor) -> float:
    """Temperature to start at: the best one from 1 on, which shortens the search if logits are huge."""
    temperature = max(1.0, fit_temperature(x, labels)[0])
    return temperature if cross_entropy(x / temperature, labels) < cross_entropy(x, labels) else 1.0


@dataclass(frozen=True, eq=False)
class Problem:
    """Objective over U = W * scale and c = b + W shift, which standardised features make well conditioned.

    A vector added to all rows of W, or a number to all of b, changes no probability. Of such equivalent points `split`
    and `raw` take the one with the least penalties, whose off-diagonal columns and b have mean zero; otherwise the
    search is slow along a valley in which the penalties alone vary.
    """

    x: Tensor  # (N, K), the features less shift, over scale
    labels: Tensor  # (N,)
    shift: Tensor  # (K,)
    scale: Tensor  # (K,)
    stretch: Tensor  # scale of the point that the search varies, U followed by c
    full: bool
    odir: float
    mu: float

    @classmethod
    def of(cls, x: Tensor, labels: Tensor, *, full: bool, odir: float, mu: float) -> Self:
        mean, spread = x.mean(0), x.std(0, correction=0)
        # The NLL pulls b towards minus W mean, its penalty towards zero; this share of the mean decouples W from both.
        shift = mean / (1 + 2 * mu)
        scale = (spread.square() + (mean - shift) * mean).sqrt()
        # The spread of a constant feature is rounding alone.
        scale = torch.where(scale > 1e-12 * (1 + mean.abs()), scale, torch.ones_like(scale))
        classes = len(mean)
        # Otherwise, with a penalty far heavier than the NLL, the axes without one would be flat in comparison.
        stretch_u = (1 + 2 * odir / (classes - 1) / scale.square()).sqrt().repeat(classes, 1).fill_diagonal_(1.0)
        stretch_c = torch.full_like(mean, (1 + 2 * mu) ** 0.5)
        stretch = torch.cat([stretch_u.flatten() if full else torch.ones_like(mean), stretch_c])
        return cls((x - shift) / scale, labels, shift, scale, stretch, full, odir, mu)

    def start(self, temperature: float) -> Array:
        """Point at which the search starts: W = I / T, b = 0."""
        u = (self.scale.diag() if self.full else self.scale) / temperature
        return (torch.cat([u.flatten(), self.shift / temperature]) * self.stretch).numpy()

    def bounds(self) -> Bounds:
        """Bounds of U and c: a box around zero that contains the start."""
        u = LARGEST * self.scale.repeat(len(self.scale) if self.full else 1)
        c = LARGEST * (1 + self.scale + self.shift.abs())
        box = (torch.cat([u, c]) * self.stretch).numpy()
        return Bounds(-box, box)

    def split(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """U, each column less the mean of its off-diagonal entries, and c."""
        classes = len(self.shift)
        point = point / self.stretch
        u, c = point[:-classes], point[-classes:]
        if not self.full:
            return u, c
        u = u.view(classes, classes)
        return u - (u.sum(0) - u.diag()) / (classes - 1), c

    def raw(self, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """W and b for the features before they were standardised."""
        weights = u / self.scale
        biases = c - (weights @ self.shift if self.full else weights * self.shift)
        return weights, biases - biases.mean()

    def pull(self, residual: Tensor, x: Tensor) -> Tensor:
        """Sums over examples of slopes in the scores times features, in the shape of W: (N, K), (N, K) -> W."""
        return residual.T @ x if self.full else (residual * x).sum(0)

    def probabilities(self, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Softmax and its mean NLL: -> (N, K), ()."""
        scores = (self.x @ u.T if self.full else self.x * u) + c
        scores -= scores.amax(1, keepdim=True)
        of_label = scores.gather(1, self.labels[:, None])
        p = scores.exp_()
        total = p.sum(1, keepdim=True)
        return p.div_(total), (total.log() - of_label).mean()

    def penalty(self, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Penalty, odir * mean of w_ij^2 over i != j + mu * mean of b^2, and its slopes in U and c."""
        weights, biases = self.raw(u, c)
        classes = len(biases)
        off = weights - weights.diag().diag()
        by_weight, by_bias = self.odir / (classes * (classes - 1)), self.mu / classes
        value = by_weight * off.square().sum() + by_bias * biases.square().sum()
        slope_c = 2 * by_bias * biases
        return value, (2 * by_weight * off - torch.outer(slope_c, self.shift)) / self.scale, slope_c

    def slopes(self, u: Tensor, c: Tensor) -> tuple[float, Tensor, Tensor]:
        """Objective and its slopes in U and c."""
        residual, value = self.probabilities(u, c)
        residual[torch.arange(len(residual)), self.labels] -= 1
        residual /= len(residual)
        slope_u, slope_c = self.pull(residual, self.x), residual.sum(0)
        if self.full:
            extra, extra_u, extra_c = self.penalty(u, c)
            value, slope_u, slope_c = value + extra, slope_u + extra_u, slope_c + extra_c
        return float(value), slope_u, slope_c

    def value_and_slope(self, point: Array) -> tuple[float, Array]:
        """Objective and its slope in the point of the search, which is that in U and c carried back through `split`."""
        value, slope_u, slope_c = self.slopes(*self.split(torch.from_numpy(point)))
        if self.full:
            shared = slope_u.sum(0) / (len(slope_u) - 1)
            slope_u = slope_u - (shared - shared.diag())
        return value, (torch.cat([slope_u.flatten(), slope_c]) / self.stretch).numpy()

    def stationary(self, point: Tensor) -> bool:
        """Whether a Newton step along each axis of W and b is short.

        A small slope does not suffice: towards an optimum at infinity it vanishes, but so does the curvature.
        """
        u, c = self.split(point)
        _, slope_u, slope_c = self.slopes(u, c)
        p, _ = self.probabilities(u, c)
        spread = p * (1 - p) / len(p)
        classes = len(c)
        bend_b = spread.sum(0) + 2 * self.mu / classes
        bend_w = self.pull(spread, (self.x * self.scale + self.shift).square())
        slope_w = slope_u * self.scale + (torch.outer(slope_c, self.shift) if self.full else slope_c * self.shift)
        if self.full:
            bend_w += 2 * self.odir / (classes * (classes - 1)) * (1 - torch.eye(classes, dtype=u.dtype))
        short = (slope_w.abs() * self.scale <= SHORT * bend_w).all() and (slope_c.abs() <= SHORT * bend_b).all()
        return bool(short and (spread.sum(0) > 0).all())
