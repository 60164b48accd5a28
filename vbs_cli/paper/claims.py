"""The paper's claims, and which of them a run shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from vbs_cli.paper import checks as check
from vbs_cli.paper.numbers import NotTested, Results
from vbs_cli.plots.base import Tables
from vbs_cli.registry import join_names
from vbs_cli.summary import count_seeds

State = Literal["seen", "not seen", "not tested"]
ALL = ("radio", "librispeech", "cifar10")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, whether a run shows it, and the evidence."""

    number: str  # parts of a claim have letters: 1a, 1b
    text: str
    state: State
    evidence: str


@dataclass(frozen=True)
class ClaimPart:
    """Part of a claim: its text, the datasets that it is about, and the check that decides it."""

    number: str
    text: str
    datasets: tuple[str, ...]
    decide: Callable[[Results], check.Found]
    per_seed: bool = True  # whether the numbers are means over seeds


RADIO, SPEECH, IMAGES = ("radio",), ("librispeech",), ("cifar10",)
PARTS = (
    ClaimPart(
        "1a",
        "Radio, clean: VBS is better calibrated than the conventional prediction.",
        RADIO,
        partial(check.clean_difference, method="vbs", sign=-1),
    ),
    ClaimPart(
        "1b",
        "CIFAR-10, clean: VBS is better calibrated than the conventional prediction.",
        IMAGES,
        partial(check.clean_difference, method="vbs", sign=-1),
    ),
    ClaimPart(
        "1c",
        "CIFAR-10: temperature scaling sharpens, with a temperature below 1.",
        IMAGES,
        check.sharpens,
        per_seed=False,
    ),
    ClaimPart(
        "1d",
        "CIFAR-10, clean: temperature scaling is worse calibrated than the conventional prediction.",
        IMAGES,
        partial(check.clean_difference, method="temperature", sign=1),
    ),
    ClaimPart(
        "2a",
        "Radio: sigma_bar grows monotonically with gaussian noise, in line with the drop in accuracy.",
        RADIO,
        partial(check.sigma_heads, noise="gaussian", monotone=True, in_line=True),
    ),
    ClaimPart(
        "2b",
        "Radio: sigma_bar grows monotonically with speckle noise, in line with the drop in accuracy.",
        RADIO,
        partial(check.sigma_heads, noise="speckle", monotone=True, in_line=True),
    ),
    ClaimPart(
        "3a", "LibriSpeech: sigma_bar grows with speckle noise.", SPEECH, partial(check.sigma_heads, noise="speckle")
    ),
    ClaimPart(
        "3b",
        "LibriSpeech: with gaussian noise sigma_bar first dips and then recovers.",
        SPEECH,
        partial(check.sigma_dips, noise="gaussian"),
    ),
    ClaimPart(
        "4a", "CIFAR-10: sigma_bar grows with gaussian noise.", IMAGES, partial(check.sigma_heads, noise="gaussian")
    ),
    ClaimPart(
        "4b", "CIFAR-10: sigma_bar grows with elastic noise.", IMAGES, partial(check.sigma_heads, noise="elastic")
    ),
    ClaimPart(
        "4c",
        "CIFAR-10: sigma_bar falls with affine noise.",
        IMAGES,
        partial(check.sigma_heads, noise="affine", sign=-1),
    ),
    ClaimPart(
        "4d", "CIFAR-10: single patches are classified with an accuracy of 0.27 ± 0.013.", IMAGES, check.patch_accuracy
    ),
    ClaimPart(
        "5a",
        "All datasets: conventional and temperature scaling get overconfident under strong gaussian noise "
        "(their entropy stays flat or falls).",
        ALL,
        partial(check.overconfident, gaussian=True),
    ),
    ClaimPart(
        "5b",
        "All datasets: conventional and temperature scaling get overconfident under strong speckle noise, "
        "on CIFAR-10 elastic noise.",
        ALL,
        partial(check.overconfident, gaussian=False),
    ),
    ClaimPart(
        "5c",
        "All datasets: the entropy of VBS keeps rising under strong gaussian noise.",
        ALL,
        partial(check.keeps_rising, gaussian=True),
    ),
    ClaimPart(
        "5d",
        "All datasets: the entropy of VBS keeps rising under strong speckle noise, on CIFAR-10 elastic noise.",
        ALL,
        partial(check.keeps_rising, gaussian=False),
    ),
    ClaimPart(
        "5e",
        "Under gaussian noise the entropy of VBS is on a par with MC-dropout's on radio, above it on CIFAR-10 "
        "and below it on LibriSpeech.",
        ALL,
        partial(check.beside_dropout, gaussian=True),
    ),
    ClaimPart(
        "5f",
        "Under speckle noise the entropy of VBS is on a par with MC-dropout's on radio and below it on LibriSpeech, "
        "under elastic noise above it on CIFAR-10.",
        ALL,
        partial(check.beside_dropout, gaussian=False),
    ),
    ClaimPart(
        "6",
        "LibriSpeech, clean: VBS makes many unconfident but right predictions (high accuracy in the lowest bin).",
        SPEECH,
        check.lowest_bin,
    ),
    ClaimPart(
        "7a",
        "LibriSpeech: under gaussian noise the VBS ensemble comes down to the uniform distribution (KL 0), "
        "where the deep ensemble stalls at a KL of about 3.5.",
        SPEECH,
        check.reaches_uniform,
        per_seed=False,
    ),
    ClaimPart(
        "7b",
        "LibriSpeech: the VBS ensemble has a lower ECE than the deep ensemble beyond a gaussian noise of about 0.05.",
        SPEECH,
        partial(check.lower_beyond, metric="ece", level=0.05),
        per_seed=False,
    ),
    ClaimPart(
        "7c",
        "LibriSpeech: the VBS ensemble generally has a lower Brier score than the deep ensemble under gaussian noise.",
        SPEECH,
        partial(check.lower_beyond, metric="brier", level=0.0),
        per_seed=False,
    ),
    ClaimPart(
        "8a",
        "CIFAR-10 at batch 128: temperature scaling costs what the conventional prediction does (0.35 GB).",
        IMAGES,
        partial(check.costs, method="temperature", memory=1, flops=1, slack=1.1),
        per_seed=False,
    ),
    ClaimPart(
        "8b",
        "CIFAR-10 at batch 128: VBS costs the same memory (0.35 GB) and hardly more FLOPs.",
        IMAGES,
        partial(check.costs, method="vbs", memory=1, flops=1, slack=1.1),
        per_seed=False,
    ),
    ClaimPart(
        "8c",
        "CIFAR-10 at batch 128: MC-dropout of 10 costs 4.04 GB (11.5 times) and 10 times the FLOPs.",
        IMAGES,
        partial(check.costs, method="mc-dropout", memory=11.5, flops=10, slack=2),
        per_seed=False,
    ),
    ClaimPart(
        "8d",
        "CIFAR-10 at batch 128: an ensemble of 10 costs 3.34 GB (9.5 times) and 10 times the FLOPs.",
        IMAGES,
        partial(check.costs, method="ensemble", memory=9.5, flops=10, slack=2),
        per_seed=False,
    ),
)


def claims(tables: Tables, *, dataset: str, fitted: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Claim]:
    """Judge every claim of the paper in order; `fitted` is parameters by seed ("-1": all seeds together) and method."""
    run = Results(tables, dataset, fitted)
    return [judged(part, run) for part in PARTS]


def judged(part: ClaimPart, run: Results) -> Claim:
    """Judge one part of a claim by a run."""

    def became(state: State, evidence: str) -> Claim:
        return Claim(part.number, part.text, state, f"{evidence[:1].upper()}{evidence[1:]}.")

    if run.dataset not in part.datasets:
        return became("not tested", f"about {join_names(part.datasets)}; this run is of {run.dataset}")
    try:
        shown, evidence = part.decide(run)
    except NotTested as lacking:
        return became("not tested", str(lacking))
    seeds = f" ({seeds_of(run)})" if part.per_seed and "seed" in run.tables.metrics else ""
    return became("seen" if shown else "not seen", evidence + seeds)


def seeds_of(run: Results) -> str:
    count = count_seeds(run.tables.metrics)
    return "one seed" if count == 1 else f"{count} seeds"
