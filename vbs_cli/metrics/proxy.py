"""Spread between sub-predictions as a proxy of uncertainty: how it and the errors change as a noise grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.metrics.bootstrap import BLOCK, Bootstrap, Interval, example_weights, seed_shares
from vbs_cli.metrics.detection import Places, area_under_roc, weighed
from vbs_cli.seeding import generator

REPLICATES = 400  # fewer than for metrics, since each weighs the examples of all levels
EXACT = 2**24  # up to here whole numbers, and so sums of weights, are exact in float32


@dataclass(frozen=True, eq=False)
class Course:
    """Values of N examples at L levels of a noise, from level 0 on: (L, N) each."""

    sigma: Tensor  # sigma_bar
    wrong: Tensor  # 1 where the prediction was wrong
    confidence: Tensor  # of the network's own softmax
    part_accuracy: Tensor  # share of right sub-predictions


def proxy(
    courses: Sequence[Course], *, replicates: int = REPLICATES, confidence: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Measure how sigma_bar follows the errors, given the course of each seed over the same examples and levels.

    "sigma_clean", "sigma_most", "error_clean", "error_most": mean sigma_bar and error rate at the first and last level.
    "rank_correlation": Spearman's correlation of mean sigma_bar with the error rate over the levels.
    "auroc_sigma", "auroc_confidence": of high sigma_bar and of low confidence for errors among the examples of all
    levels together, as in a stream of unknown noise; "auroc_gain" is the first less the second.
    "patch_accuracy": share of right sub-predictions at the first level.

    All are means over seeds. A replicate draws examples and seeds with replacement, the same examples at every level
    and for every seed, so the gain is paired. Undefined values, like an AUROC without errors, are NaN.
    """
    if replicates < 1 or not 0 < confidence < 1:
        raise InvalidInput(f"{replicates} replicates at {confidence}", hint="at least one, confidence between 0 and 1")
    courses = checked(courses)
    examples = courses[0].sigma.shape[1]
    rng = torch.Generator().manual_seed(seed)
    shares = seed_shares(len(courses), replicates, generator("bootstrap", "seeds", seed))
    sample = torch.ones(1, examples, dtype=torch.float64)
    draws = [sample, *example_weights(examples, replicates, rng)]
    seeds = [quantities(course, draws) for course in courses]
    columns = {name: (shares * torch.stack([found[name] for found in seeds], 1)).sum(1) for name in seeds[0]}
    intervals = Bootstrap({("sigma", name): column for name, column in columns.items()}, confidence)
    return {name: intervals.interval("sigma", name) for name in columns}


def quantities(course: Course, draws: Sequence[Tensor]) -> dict[str, Tensor]:
    """Quantities of one seed by name, under blocks of weights that make up 1 + R sets: (B, N) each -> (1 + R,)."""
    sigma, error = over_levels(course.sigma, draws), over_levels(course.wrong, draws)
    by_sigma = pooled_auroc(course.sigma, course.wrong, draws)
    by_confidence = pooled_auroc(-course.confidence, course.wrong, draws)
    return {
        "sigma_clean": sigma[:, 0],
        "sigma_most": sigma[:, -1],
        "error_clean": error[:, 0],
        "error_most": error[:, -1],
        "rank_correlation": rank_correlation(sigma, error),
        "auroc_sigma": by_sigma,
        "auroc_confidence": by_confidence,
        "auroc_gain": by_sigma - by_confidence,
        "patch_accuracy": over_levels(course.part_accuracy[:1], draws)[:, 0],
    }


def over_levels(values: Tensor, draws: Sequence[Tensor]) -> Tensor:
    """Weighted mean at each level: (L, N), blocks of (B, N) -> (1 + R, L).

    Equal means must be equal to the last digit, or rounding would rank them. So the values are rounded to steps of a
    power of two such that every sum of N of them is a whole number of steps below 2^53, exact in any order.
    """
    examples = values.shape[1]
    step = 2.0 ** (math.frexp(examples * float(values.abs().max()))[1] - 52)
    steps = (values / step).round().T
    return torch.cat([weights.double() @ steps for weights in draws]) * step / examples


def pooled_auroc(doubt: Tensor, wrong: Tensor, draws: Sequence[Tensor]) -> Tensor:
    """AUROC of a doubt for errors among the examples of all levels: (L, N), (L, N), blocks of (B, N) -> (1 + R,)."""
    places = Places.of(doubt.flatten(), wrong.flatten() == 1)
    # An example weighs the same at every level, so the places need not point beyond the N weights.
    examples = doubt.shape[1]
    places = replace(places, order=places.order % examples, errors=places.errors % examples)
    rows = max(1, BLOCK // doubt.numel())
    parts = (part for weights in draws for part in torch.split(weights, rows))
    if doubt.numel() > EXACT:
        parts = (part.double() for part in parts)
    return torch.cat([area_under_roc(weighed(places, part)).double() for part in parts])


def rank_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Spearman's correlation over the last axis, equal values sharing their mean rank: (B, L), (B, L) -> (B,).

    NaN where one is constant.
    """
    a, b = from_middle(x), from_middle(y)
    return (a * b).sum(-1) / (a.square().sum(-1) * b.square().sum(-1)).sqrt()


def from_middle(values: Tensor) -> Tensor:
    """Twice the distance of each rank from the middle one, a whole number: (B, L) -> (B, L)."""
    values = values.contiguous()
    ordered = values.sort(-1).values
    below, up_to = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (below + up_to - values.shape[-1]).double().masked_fill(values.isnan(), torch.nan)


def checked(courses: Sequence[Course]) -> list[Course]:
    """Courses in float64; those of different shapes or with invalid values are refused."""
    if not courses:
        raise InvalidInput("there are no courses", hint="give one per seed")
    found = [
        {field.name: torch.as_tensor(getattr(course, field.name)).detach().double() for field in fields(course)}
        for course in courses
    ]
    columns = [column for course in found for column in course.values()]
    shapes = {tuple(column.shape) for column in columns}
    if len(shapes) > 1:
        raise InvalidInput(
            f"the courses have shapes {sorted(shapes)}", hint="give the same examples at the same levels"
        )
    shape = shapes.pop()
    if len(shape) != 2 or shape[0] < 2 or shape[1] < 1:
        raise InvalidInput(f"the courses have shape {shape}", hint="expected (L, N), L >= 2 levels, N >= 1 examples")
    if not all(torch.isfinite(column).all() for column in columns):
        raise InvalidInput("NaN or infinity in a course", hint="leave out what the network could not predict")
    if not all(((course["wrong"] == 0) | (course["wrong"] == 1)).all() for course in found):
        raise InvalidInput("wrong is not 0 and 1", hint="give 1 where the prediction was wrong")
    return [Course(**course) for course in found]
