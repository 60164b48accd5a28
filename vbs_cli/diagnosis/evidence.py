"""Findings: what records of one or several networks say for and against the method, each with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from vbs_cli.diagnosis.base import CLEAN, Finding, Records, Speaks, same_labels, side
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.methods.base import TemperatureMethod, need_labels
from vbs_cli.methods.conventional import Conventional
from vbs_cli.methods.temperature import TemperatureScaling
from vbs_cli.methods.variance import VarianceSmoothing
from vbs_cli.metrics import Bootstrap, Interval, Scored, bootstrap, scored
from vbs_cli.metrics.bootstrap import example_weights, seed_shares
from vbs_cli.metrics.proxy import over_levels, rank_correlation
from vbs_cli.seeding import generator

REPLICATES = 400
SMOOTHED, OTHERS = "vbs", ("conventional", "temperature")
SCORES = ("nll", "ece")
VISIBLE_DIFFERENCE = 0.001  # a smaller difference of scores counts as none,
SHARE = 0.01  # and so does one below this share of the score itself
DIP = 0.9  # of the clean sigma_bar: only a fall below this share of it is a dip
Fitted = Mapping[str, TemperatureMethod]


Draws = Sequence[Tensor]  # weights of N examples in the sample and in R replicates: (B, N) each, 1 + R rows in all
# Groups of places along a course whose records have the same examples, and so the same draws.
Grouped = Sequence[tuple[Sequence[int], Draws]]


@dataclass(frozen=True, eq=False)
class Resamples:
    """Weights of the clean test examples and of the seeds in the sample itself and in R replicates of it."""

    draws: Draws
    shares: Tensor  # (1 + R, seeds)

    @classmethod
    def drawn(cls, examples: int, seeds: int, replicates: int) -> Self:
        shares = seed_shares(seeds, replicates, generator("bootstrap", "seeds", 0))
        return cls(draws_of(examples, replicates, torch.Generator().manual_seed(0)), shares)

    def along(self, noise: str, course: Sequence[Logits]) -> Grouped:
        """Draws for the records of a course, the clean one first; those with other labels have draws of their own.

        So what is the same example is drawn together at all levels, and other examples independently of it.
        """
        groups: list[tuple[list[int], Draws]] = [([0], self.draws)]
        for place, record in enumerate(course[1:], 1):
            known = next((places for places, _ in groups if same_labels(course[places[0]], record)), None)
            if known is not None:
                known.append(place)
            else:
                rng = generator("bootstrap", "examples", noise, place)
                groups.append(([place], draws_of(len(record), len(self.shares) - 1, rng)))
        return groups

    def of_seeds(self, columns: Sequence[Tensor]) -> Tensor:
        """Mean over seeds: (1 + R, ...) each -> (1 + R, ...)."""
        stacked = torch.stack(list(columns), -1)
        return (stacked * self.shares.view(len(stacked), *(1 for _ in stacked.shape[1:-1]), -1)).sum(-1)

    def means(self, values: Sequence[Sequence[Tensor]], grouped: Grouped) -> Tensor:
        """Mean over examples and seeds at each place of a course: (N,) at each of L places, by seed -> (1 + R, L)."""
        return self.of_seeds([over_course(each, grouped) for each in values])


def draws_of(examples: int, replicates: int, rng: torch.Generator) -> Draws:
    """Weights of the examples in the sample, one each, and in the replicates."""
    return [torch.ones(1, examples, dtype=torch.float64), *example_weights(examples, replicates, rng)]


def over_course(values: Sequence[Tensor], grouped: Grouped) -> Tensor:
    """Weighted mean at each place of a course: (N,) at each of L places -> (1 + R, L)."""
    columns: dict[int, Tensor] = {}
    for places, draws in grouped:
        means = over_levels(torch.stack([values[place] for place in places]), draws)
        columns |= dict(zip(places, means.unbind(1), strict=True))
    return torch.stack([columns[place] for place in range(len(values))], 1)


def findings(seeds: Sequence[Records], method: VarianceSmoothing, *, replicates: int = REPLICATES) -> Iterator[Finding]:
    """Findings on the clean data and then on each noise; the one on other settings is made elsewhere."""
    resamples = Resamples.drawn(len(seeds[0].clean), len(seeds), replicates)
    fitted: list[Fitted] = [
        {"conventional": Conventional(), "temperature": TemperatureScaling().fit(r.val), SMOOTHED: method.fit(r.val)}
        for r in seeds
    ]
    clean = [records.clean for records in seeds]
    alone = resamples.along(CLEAN, clean[:1])
    yield patch_accuracy(clean, resamples, alone)
    yield auroc_of_sigma(clean, method, replicates)
    yield share_smoothed(CLEAN, [[record] for record in clean], fitted, resamples, alone)
    yield from score_differences(CLEAN, [clean], fitted, replicates)
    for noise in seeds[0].noisy:
        courses = [records.course(noise) for records in seeds]
        grouped = resamples.along(noise, courses[0])
        yield from sigma_findings(noise, courses, method, resamples, grouped)
        yield share_smoothed(noise, courses, fitted, resamples, grouped)
        yield from score_differences(noise, list(zip(*courses, strict=True))[1:], fitted, replicates)


def patch_accuracy(clean: Sequence[Logits], resamples: Resamples, grouped: Grouped) -> Finding:
    """Finding on the accuracy of single patches: at chance level their disagreement means nothing."""
    parts = [record.part_accuracy for record in clean]
    if any(part is None for part in parts):
        raise InvalidInput("a record has no accuracy of its parts", hint="make it with from_patches, with labels")
    found = interval(resamples.means([[part.double()] for part in parts if part is not None], grouped)[:, 0])
    chance = 1 / clean[0].classes
    speaks: Speaks = "for" if found.low > chance else "against"
    return Finding("patch_accuracy", CLEAN, **vars(found), speaks=speaks, reference=chance)


def auroc_of_sigma(clean: Sequence[Logits], method: VarianceSmoothing, replicates: int) -> Finding:
    """Finding on whether wrong predictions have a larger spread than right ones on clean data; NaN without errors."""
    cells = [scored(Conventional().predict_proba(r), r.labels, sigma=r.sigma_of(method.spread)) for r in clean]
    found = bootstrap({SMOOTHED: cells}, metrics=["auroc_sigma"], replicates=replicates)
    auroc = found.interval(SMOOTHED, "auroc_sigma")
    return Finding("auroc_sigma", CLEAN, **vars(auroc), speaks=side(auroc, 0.5, wanted="above"), reference=0.5)


def sigma_findings(
    noise: str,
    courses: Sequence[Sequence[Logits]],
    method: VarianceSmoothing,
    resamples: Resamples,
    grouped: Grouped,
) -> Iterator[Finding]:
    """Findings on how sigma_bar changes while a noise makes predictions wrong."""
    sigmas = [over_course([r.sigma_of(method.spread).double() for r in course], grouped) for course in courses]
    wrong = [over_course([errors(r) for r in course], grouped) for course in courses]
    error, sigma = resamples.of_seeds(wrong), resamples.of_seeds(sigmas)
    gain = interval(error[:, -1] - error[:, 0])
    correlations = [rank_correlation(*pair) for pair in zip(sigmas, wrong, strict=True)]
    correlation = within(interval(resamples.of_seeds(correlations)), -1.0, 1.0)
    strongest = interval(sigma[:, -1] / sigma[:, 0])
    lowest = interval(sigma[:, 1:].min(1).values / sigma[:, 0])
    dips: Speaks = "against" if lowest.high < 1 and lowest.value < DIP else "neutral"
    yield Finding("error_gain", noise, **vars(gain))
    yield Finding("rank_correlation", noise, **vars(correlation), speaks=side(correlation, 0.0, wanted="above"))
    speaks = side(strongest, 1.0, wanted="above")
    yield Finding("sigma_ratio", noise, **vars(strongest), speaks=speaks, reference=1.0)
    yield Finding("sigma_lowest", noise, **vars(lowest), speaks=dips, reference=1.0)


def within(found: Interval, least: float, most: float) -> Interval:
    """Interval whose bounds are moved to the ends of a range where they lie beyond."""
    low, high = (min(max(bound, least), most) for bound in (found.low, found.high))
    return Interval(found.value, low, high)


def share_smoothed(
    noise: str,
    courses: Sequence[Sequence[Logits]],
    fitted: Sequence[Fitted],
    resamples: Resamples,
    grouped: Grouped,
) -> Finding:
    """Finding on the share of examples with a temperature above one, mean over levels, against the clean share."""
    hot = [
        [(of_seed[SMOOTHED].temperature(r) > 1).double() for r in course]
        for course, of_seed in zip(courses, fitted, strict=True)
    ]
    shares = resamples.means(hot, grouped)
    if noise == CLEAN:
        return Finding("smoothed", CLEAN, **vars(interval(shares[:, 0])))
    under = shares[:, 1:].mean(1)
    speaks = side(interval(under - shares[:, 0]), 0.0, wanted="above")
    return Finding("smoothed", noise, **vars(interval(under)), speaks=speaks, reference=float(shares[0, 0]))


def score_differences(
    noise: str, levels: Sequence[Sequence[Logits]], fitted: Sequence[Fitted], replicates: int
) -> Iterator[Finding]:
    """Findings on NLL and ECE less those of the other methods, mean over levels; each level has a record per seed."""
    found = mean_scores([predictions(level, fitted) for level in levels], SCORES, replicates)
    for score in SCORES:
        for other in OTHERS:
            difference = found.difference(SMOOTHED, other, score)
            visible = max(VISIBLE_DIFFERENCE, SHARE * found.interval(other, score).value)
            speaks = side(difference, 0.0, wanted="below", visible=visible)
            yield Finding(f"{score}_{other}", noise, **vars(difference), speaks=speaks)
    yield Finding("temperature_nll", noise, **vars(found.difference("temperature", "conventional", "nll")))


def predictions(level: Sequence[Logits], fitted: Sequence[Fitted]) -> dict[str, list[Scored]]:
    """Scored predictions of each method on the record of each seed."""
    pairs = list(zip(level, fitted, strict=True))
    return {
        name: [scored(of_seed[name].predict_proba(record), record.labels) for record, of_seed in pairs]
        for name in fitted[0]
    }


def mean_scores(levels: Sequence[Mapping[str, Sequence[Scored]]], metrics: Sequence[str], replicates: int) -> Bootstrap:
    """Metrics of the methods, mean over levels; a replicate has the same examples and seeds at all levels."""
    drawn = [bootstrap(level, metrics=metrics, replicates=replicates).columns for level in levels]
    return Bootstrap({key: torch.stack([each[key] for each in drawn]).mean(0) for key in drawn[0]})


def errors(record: Logits) -> Tensor:
    """Errors, 1 where the prediction is wrong, else 0: (N,)."""
    return record.logits.argmax(1).ne(need_labels(record)).double()


def interval(column: Tensor) -> Interval:
    """Interval of a quantity from its values on the sample and on its replicates, (1 + R,)."""
    return Bootstrap({("", ""): column}).interval("", "")
