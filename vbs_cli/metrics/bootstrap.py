"""Bootstrap intervals: how far metrics would move with other test examples and other trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.metrics.base import SCORES, Scored, measured
from vbs_cli.seeding import generator

REPLICATES = 1000
CONFIDENCE = 0.95
BLOCK = 300_000  # weights drawn at a time
MOST_KEPT = 100_000_000  # weights kept between calls, a byte each


@dataclass(frozen=True)
class Interval:
    """A value and the bounds of its confidence interval, at 95 % unless asked otherwise."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Metrics of several methods on the sample (first column) and on R replicates of it: (1 + R,) each."""

    columns: Mapping[tuple[str, str], Tensor]  # by method and metric
    confidence: float = CONFIDENCE

    def interval(self, method: str, metric: str) -> Interval:
        """Interval of a metric, mean over seeds."""
        return self._between(self.columns[method, metric])

    def difference(self, method: str, baseline: str, metric: str) -> Interval:
        """Interval of a method's metric less that of a baseline, on the same examples and seeds."""
        return self._between(self.columns[method, metric] - self.columns[baseline, metric])

    def _between(self, column: Tensor) -> Interval:
        return Interval(*(float(bound) for bound in between(column, confidence=self.confidence)))


def between(columns: Tensor, *, confidence: float = CONFIDENCE) -> Tensor:
    """Value and bounds of the interval of each row of a sample and its R replicates: (..., 1 + R) -> (3, ...).

    Percentiles of the finite replicates, moved so that their mean is the value: a calibration error is larger on a
    replicate, which has fewer distinct examples, than on the sample; without the move its interval could lie above
    its own value.
    """
    value, replicates = columns[..., 0], columns[..., 1:]
    replicates = replicates.where(replicates.isfinite(), torch.nan)
    moved = replicates - replicates.nanmean(-1, keepdim=True)
    tails = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=moved.dtype)
    return torch.cat([value[None], value + torch.nanquantile(moved, tails, dim=-1)])


def bootstrap(
    methods: Mapping[str, Sequence[Scored]],
    *,
    metrics: Sequence[str] = SCORES,
    replicates: int = REPLICATES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Bootstrap:
    """Intervals for the metrics of methods, given the predictions of each of their seeds on the same examples.

    A replicate draws examples and seeds with replacement, the same for every method, so differences are paired. A
    method with one seed among others with several (an ensemble of them) is resampled over examples alone.
    """
    check(methods, replicates, confidence)
    seeds = max(len(cells) for cells in methods.values())
    examples = len(next(iter(methods.values()))[0].labels)
    # Drawn separately, so that the examples do not depend on the number of seeds and methods can be drawn one by one.
    shares = seed_shares(seeds, replicates, generator("bootstrap", "seeds", seed))
    found: dict[str, list[Tensor]] = {method: [] for method in methods}
    start = 0
    for weights in chain([None], drawn_weights(examples, replicates, seed)):
        share = shares[start : start + (1 if weights is None else len(weights))]
        start += len(share)
        for method, cells in methods.items():
            values = torch.stack([under(weights, cell, metrics) for cell in cells], 2)
            found[method].append(values[:, :, 0] if len(cells) == 1 else (share * values).sum(2))
    columns = {method: torch.cat(parts, 1) for method, parts in found.items()}
    return Bootstrap(
        {(method, name): columns[method][i] for method in methods for i, name in enumerate(metrics)}, confidence
    )


def under(weights: Tensor | None, cell: Scored, metrics: Sequence[str]) -> Tensor:
    """Metrics of predictions under B sets of weights, (metrics, B)."""
    drawn = replace(cell, weights=weights)
    return torch.stack([measured(name, drawn).double() for name in metrics])


def seed_shares(seeds: int, replicates: int, rng: torch.Generator) -> Tensor:
    """Weights of the seeds: equal in the sample, then as drawn in each replicate, (1 + R, seeds)."""
    drawn = torch.randint(seeds, (replicates, seeds), generator=rng)
    counts = torch.nn.functional.one_hot(drawn, seeds).sum(1)
    return torch.cat([torch.ones(1, seeds), counts]).double() / seeds


def drawn_weights(examples: int, replicates: int, seed: int) -> Iterator[Tensor]:
    """Weights of the examples in blocks of (B, N), which many calls for the same examples share."""
    if examples * replicates > MOST_KEPT:
        yield from example_weights(examples, replicates, torch.Generator().manual_seed(seed))
    else:
        yield from (block.float() for block in kept_weights(examples, replicates, seed))


@lru_cache(maxsize=1)
def kept_weights(examples: int, replicates: int, seed: int) -> list[Tensor]:
    """Blocks of weights as bytes; a replicate draws no example more than 255 times."""
    rng = torch.Generator().manual_seed(seed)
    with torch.inference_mode(False):
        return [block.clamp_(max=255).byte() for block in example_weights(examples, replicates, rng)]


def example_weights(examples: int, replicates: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Weights of the examples, how often each replicate draws them, in blocks of (B, N)."""
    step = max(2, BLOCK // examples)
    for start in range(0, replicates, step):
        rows = min(step, replicates - start)
        drawn = torch.randint(examples, (rows, examples), generator=rng)
        drawn += examples * torch.arange(rows)[:, None]
        yield torch.bincount(drawn.flatten(), minlength=rows * examples).view(rows, examples).float()


def check(methods: Mapping[str, Sequence[Scored]], replicates: int, confidence: float) -> None:
    """Refuse methods that do not have the same examples and seeds."""
    if replicates < 1 or not 0 < confidence < 1:
        raise InvalidInput(f"{replicates} replicates at {confidence}", hint="at least one, confidence between 0 and 1")
    counts = {len(cells) for cells in methods.values()}
    if not counts or 0 in counts or len(counts - {1}) > 1:
        raise InvalidInput("the methods have different numbers of seeds", hint="give each the same seeds, or one")
    first = next(iter(methods.values()))[0].labels
    if any(not torch.equal(cell.labels, first) for cells in methods.values() for cell in cells):
        raise InvalidInput("the methods were scored on different examples", hint="score all on the same test split")
