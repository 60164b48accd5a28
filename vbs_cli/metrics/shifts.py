"""Scores over several shifts together: their mean and the worst of them, by noise, by family and over all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vbs_cli.metrics.base import HIGHER, METRICS, NEITHER

MEAN, WORST = "mean", "worst"
NOISE, FAMILY, ALL, UNSEEN = "noise", "family", "all", "unseen"


@dataclass(frozen=True)
class Shift:
    """One noise at one level, the family of the noise, and the rank of the level among those of its noise, from 1."""

    noise: str
    family: str
    level: float
    severity: int


@dataclass(frozen=True)
class ShiftGroup:
    """Shifts that a summary takes together."""

    over: str  # NOISE, FAMILY, ALL or UNSEEN
    name: str  # of the noise, of the family, or of the family that was seen
    severity: int  # of all these shifts, or 0 if they are of all severities
    shifts: tuple[Shift, ...]


def ranked(levels: Mapping[str, Sequence[float]], families: Mapping[str, str]) -> list[Shift]:
    """Shifts of noises at their levels, each level with its rank."""
    return [
        Shift(noise, families[noise], level, severity)
        for noise, some in levels.items()
        for severity, level in enumerate(sorted(some), 1)
    ]


def shift_groups(shifts: Sequence[Shift], *, seen: str = "") -> Iterator[ShiftGroup]:
    """Yield the groups of a summary: each noise, each family, all shifts; families and all by severity too.

    `seen` is a family under which something was fitted; then what remains without that family is a group as well.
    """
    for noise in dict.fromkeys(shift.noise for shift in shifts):
        yield ShiftGroup(NOISE, noise, 0, tuple(shift for shift in shifts if shift.noise == noise))
    families = dict.fromkeys(shift.family for shift in shifts)
    for family in families:
        yield from by_severity(FAMILY, family, [shift for shift in shifts if shift.family == family])
    yield from by_severity(ALL, "", shifts)
    if seen in families and len(families) > 1:
        yield from by_severity(UNSEEN, seen, [shift for shift in shifts if shift.family != seen])


def by_severity(over: str, name: str, shifts: Sequence[Shift]) -> Iterator[ShiftGroup]:
    """Yield a group of all these shifts, then one per severity, if all noises have equally many levels."""
    yield ShiftGroup(over, name, 0, tuple(shifts))
    severities = {noise: {s.severity for s in shifts if s.noise == noise} for noise in {s.noise for s in shifts}}
    first, *others = severities.values()
    if all(other == first for other in others):
        for severity in sorted(first):
            yield ShiftGroup(over, name, severity, tuple(s for s in shifts if s.severity == severity))


def mean_over(group: ShiftGroup, columns: Mapping[Shift, Tensor]) -> Tensor:
    """Mean over the noises of a group of the mean over the levels of each, so that every noise weighs the same."""
    of_noise: dict[str, list[Tensor]] = {}
    for shift in group.shifts:
        of_noise.setdefault(shift.noise, []).append(columns[shift])
    return torch.stack([torch.stack(some).mean(0) for some in of_noise.values()]).mean(0)


def worst_over(group: ShiftGroup, columns: Mapping[Shift, Tensor], metrics: Sequence[str]) -> Tensor:
    """Worst value over the shifts of a group, one row per metric; NaN for metrics that know no better or worse."""
    values = torch.stack([columns[shift] for shift in group.shifts])
    signs = torch.tensor([METRICS[name].better for name in metrics], dtype=values.dtype)[:, None]
    worst = torch.where(signs == HIGHER, values.amin(0), values.amax(0))
    return worst.masked_fill(signs == NEITHER, torch.nan)
