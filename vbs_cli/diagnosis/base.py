"""Records that a diagnosis reads, and the findings and the verdict that it consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.metrics import Interval

Speaks = Literal["for", "against", "neutral"]
Word = Literal["fits", "fits-with-settings", "does-not-fit"]
# Copies of a record without its patches, keyed by the kernel of their sigma; under None with the record's own sigma.
Windowed = Mapping[int | None, Logits]

CLEAN, VALIDATION = "clean", "validation"  # conditions of findings that are not made under a noise
# Heading of each question, keyed by its name in the rows, in the order of the table.
QUESTIONS = {
    "patch_accuracy": "accuracy of single patches",
    "auroc_sigma": "AUROC of sigma_bar for errors",
    "error_gain": "Δ error rate at the strongest level vs clean",
    "rank_correlation": "rank correlation of sigma_bar with the error rate",
    "sigma_ratio": "sigma_bar at the strongest level over clean",
    "sigma_lowest": "sigma_bar at its lowest over clean",
    "smoothed": "share of examples smoothed",
    "nll_conventional": "Δ NLL vs conventional",
    "nll_temperature": "Δ NLL vs temperature scaling",
    "ece_conventional": "Δ ECE vs conventional",
    "ece_temperature": "Δ ECE vs temperature scaling",
    "temperature_nll": "Δ NLL of temperature scaling vs conventional",
    "other_settings": "Δ NLL of the best other settings vs these",
}


@dataclass(frozen=True)
class Finding:
    """The answer to one question with its 95 % interval, and whether it speaks for the method or against it."""

    question: str  # a key of QUESTIONS
    noise: str  # name of a noise, CLEAN or VALIDATION
    value: float
    low: float
    high: float
    speaks: Speaks = "neutral"
    reference: float = 0.0  # what the value is compared with


@dataclass(frozen=True)
class Diagnosis:
    """Verdict, advice in words, and the findings that both rest on."""

    verdict: Word
    advice: str
    findings: Sequence[Finding]


@dataclass(frozen=True, eq=False)
class Records:
    """Records of one network on validation data, on test data, and on the same or other test data that are harder."""

    val: Logits
    clean: Logits
    noisy: Mapping[str, Sequence[tuple[float, Logits]]]  # by noise: (level, record) for levels above zero
    validation: Sequence[Windowed]  # validation data, clean and then under some noise, for the choice of settings
    second_sets: frozenset[str] = frozenset()  # names in `noisy` that are other test data rather than a noise

    def course(self, noise: str) -> list[Logits]:
        """Records from the clean data to the strongest level of a noise."""
        return [self.clean, *(record for _, record in sorted(self.noisy[noise], key=lambda pair: pair[0]))]

    def levels(self, noise: str) -> list[float]:
        """Levels of a noise above zero, ascending."""
        return sorted(level for level, _ in self.noisy[noise])


def side(found: Interval, reference: float, *, wanted: Literal["above", "below"], visible: float = 0.0) -> Speaks:
    """For or against if the interval excludes the reference and the value differs visibly from it, else neutral."""
    above, below = found.low > reference, found.high < reference
    if abs(found.value - reference) < visible or not (above or below):
        return "neutral"
    return "for" if above == (wanted == "above") else "against"


def check(seeds: Sequence[Records]) -> None:
    """Refuse records that cannot be judged, or seeds that are not on the same examples at the same place."""
    if not seeds:
        raise InvalidInput("there are no records", hint="give those of at least one network")
    first = seeds[0]
    if not first.noisy or not all(first.noisy.values()):
        raise InvalidInput("there is no noise to judge by", hint="give records of the test data under growing noise")
    if taken := {CLEAN, VALIDATION} & set(first.noisy):
        raise InvalidInput(f"{min(taken)!r} cannot name a noise", hint="it names other findings, choose another")
    for records in seeds:
        every = [record for noise in records.noisy for record in records.course(noise)]
        if any(record.sigma is None for record in every):
            raise InvalidInput("a record has no sigma_bar", hint="make it with from_patches or from_members")
        if any(record.labels is None for record in every):
            raise InvalidInput("a record has no labels", hint="make it with labels=...")
        if any(record.classes != records.val.classes for record in every):
            raise InvalidInput("the records are of different classes", hint="pass outputs of the same network")
        if not same_examples(records, first):
            hint = "pass the same test data at the same levels for every seed"
            raise InvalidInput("the seeds are on different examples", hint=hint)


def same_examples(one: Records, other: Records) -> bool:
    """Whether two seeds have records at the same places, with the same labels there."""
    if list(one.noisy) != list(other.noisy) or any(one.levels(name) != other.levels(name) for name in one.noisy):
        return False
    pairs = [pair for name in one.noisy for pair in zip(one.course(name), other.course(name), strict=True)]
    return all(same_labels(*pair) for pair in pairs)


def same_labels(one: Logits, other: Logits) -> bool:
    """Whether two records have the same labels: then their examples count as the same."""
    return one.labels is not None and other.labels is not None and torch.equal(one.labels, other.labels)
