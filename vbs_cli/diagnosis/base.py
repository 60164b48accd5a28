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
    """Records of one network on validation data, on test data, and on the same test data under growing noise."""

    val: Logits
    clean: Logits
    noisy: Mapping[str, Sequence[tuple[float, Logits]]]  # by noise: (level, record) for levels above zero
    validation: Sequence[Windowed]  # validation data, clean and then under some noise, for the choice of settings

    def course(self, noise: str) -> list[Logits]:
        """Records from the clean data to the strongest level of a noise."""
        return [self.clean, *(record for _, record in sorted(self.noisy[noise], key=lambda pair: pair[0]))]


def side(found: Interval, reference: float, *, wanted: Literal["above", "below"], visible: float = 0.0) -> Speaks:
    """For or against if the interval excludes the reference and the value differs visibly from it, else neutral."""
    above, below = found.low > reference, found.high < reference
    if abs(found.value - reference) < visible or not (above or below):
        return "neutral"
    return "for" if above == (wanted == "above") else "against"


def check(seeds: Sequence[Records]) -> None:
    """Refuse records that cannot be judged, or are of different examples."""
    if not seeds:
        raise InvalidInput("there are no records", hint="give those of at least one network")
    if not seeds[0].noisy or not all(seeds[0].noisy.values()):
        raise InvalidInput("there is no noise to judge by", hint="give records of the test data under growing noise")
    first = seeds[0].clean.labels
    for records in seeds:
        every = [record for noise in records.noisy for record in records.course(noise)]
        if any(record.sigma is None for record in every):
            raise InvalidInput("a record has no sigma_bar", hint="make it with from_patches or from_members")
        if first is None or any(r.labels is None or not torch.equal(r.labels, first) for r in every):
            raise InvalidInput("the records are of different examples", hint="pass the same test data, with labels")
