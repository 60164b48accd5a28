"""Noises of single values of images: shot and impulse noise."""

from __future__ import annotations

import torch
from torch import Tensor

from vbs_cli.data.noise import PICTURES, graded, noise
from vbs_cli.data.noises.paper import salt_and_pepper, standard_normal

# Constants of the severities 1 to 5 of CIFAR-10-C (Hendrycks and Dietterich 2019).
PHOTONS = (500.0, 250.0, 100.0, 75.0, 50.0)  # in a value of 1
IMPULSES = (0.01, 0.02, 0.03, 0.05, 0.07)
# Means below which quantiles are found by sums. Above, the expansion is off by one in 4 cases of 10,000, further up in
# fewer; measured against scipy.stats.poisson.ppf.
SUMMED = 10.0


@noise("shot", draw=standard_normal, family="noise", kinds=PICTURES, most=1.0)
def shot(x: Tensor, z: Tensor, level: float) -> Tensor:
    """Count photons: values become Poisson counts of c photons per unit, divided by c. The draw chooses the quantile.

    So the same draw is the same luck at each level, of more or fewer photons.
    """
    photons = 1 / graded(level, 0.0, *(1 / count for count in PHOTONS))
    counts = poisson_quantiles((x * photons).clamp_(min=0), z.to(x.dtype))
    return counts.div_(photons).clamp_(max=1)


def poisson_quantiles(mean: Tensor, z: Tensor) -> Tensor:
    """Poisson counts at the probabilities that a standard normal has up to z, any shape: z = 0 is the median."""
    counts = expanded_quantiles(mean, z)
    few = (mean < SUMMED).flatten().nonzero().squeeze(1)
    means, wanted = (each.flatten()[few].double() for each in (mean, z))
    counts.view(-1)[few] = summed_quantiles(means, torch.special.ndtr(wanted)).to(counts.dtype)
    return counts


def expanded_quantiles(mean: Tensor, z: Tensor) -> Tensor:
    """Poisson quantiles by the Cornish-Fisher expansion to order 1 / mean, eq. 10 of Giles (2016), ACM TOMS 42."""
    square, root = z.square(), mean.sqrt()
    counts = square.mul(1 / 270).add_(7 / 810).mul_(square).sub_(8 / 405).div_(root)
    counts.sub_(square.mul(1 / 72).add_(1 / 36).mul_(z)).div_(root)
    counts.add_(square, alpha=1 / 6).add_(1 / 3)
    return counts.addcmul_(root, z).add_(mean).floor_()


def summed_quantiles(mean: Tensor, probability: Tensor) -> Tensor:
    """Poisson quantiles by the sum of the first terms, exact but for rounding: (N,), (N,) -> (N,)."""
    term = torch.exp(-mean)
    below = term.clone()
    counts = torch.zeros_like(mean)
    last = int(SUMMED + 20 * SUMMED**0.5)  # no normal number in double precision needs more
    for count in range(1, last):
        unmet = below < probability
        if not unmet.any():
            break
        counts.add_(unmet)
        below.add_(term.mul_(mean).div_(count))
    return counts


def uniform(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draws from U(0, 1), one per value."""
    return torch.rand(shape, generator=rng)


@noise("impulse", draw=uniform, family="noise", kinds=PICTURES, most=1.0)
def impulse(x: Tensor, u: Tensor, level: float) -> Tensor:
    """Replace values, each channel by itself, by 0 or 1; those replaced stay so at higher levels."""
    return salt_and_pepper(x, u, graded(level, 0.0, *IMPULSES))
