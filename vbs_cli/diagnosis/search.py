"""Settings by data: the kernel, alpha and beta of least NLL on validation records, clean and noised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch

from vbs_cli.diagnosis.base import side
from vbs_cli.diagnosis.evidence import REPLICATES, SHARE, VISIBLE, mean_scores
from vbs_cli.logits import Logits, sigma_bar
from vbs_cli.methods.variance import LEARNED, VarianceSmoothing
from vbs_cli.metrics import Interval, Scored, score, scored


@dataclass(frozen=True)
class Grid:
    """What is tried. Windows that leave fewer than two sub-predictions are passed over."""

    kernels: tuple[int, ...] = (1, 2, 5, 10, 20, 40)
    alphas: tuple[float, ...] = (1.0, 2.0, 3.0, 5.0)
    betas: tuple[str, ...] = ("mean+0.5", "mean", "q50", "q75", "q95")  # and those that are learned


GRID = Grid()


@dataclass(frozen=True)
class Choice:
    """Settings and their NLL, mean over records and seeds. A beta that was learned is a number."""

    kernel: int | None  # None where the records keep no patches, so that it is as it was
    alpha: float
    beta: float | str
    nll: float = torch.nan

    def __str__(self) -> str:
        beta = self.beta if isinstance(self.beta, str) else f"{self.beta:.3g}"
        window = "" if self.kernel is None else f"kernel {self.kernel}, "
        return f"{window}alpha {self.alpha:.3g}, beta {beta}"

    def of(self, method: VarianceSmoothing) -> VarianceSmoothing:
        """The method with these settings, for records whose sigma is the spread to be read."""
        return replace(method, alpha=self.alpha, beta=self.beta, spread="logits")


def search(seeds: Sequence[Sequence[Logits]], method: VarianceSmoothing, *, grid: Grid = GRID) -> list[Choice]:
    """All that was tried, best first, given the records of each seed: clean first, then noised.

    Rules for beta are resolved on the clean record of each seed, as they will be later; what is learned is one alpha
    and one beta for the records of all seeds together.
    """
    found = []
    for kernel in kernels_for(seeds, grid):
        at_kernel = [[summary(record, kernel, method.spread) for record in seed] for seed in seeds]
        for choice in candidates(at_kernel, method, kernel, grid):
            fitted = [choice.of(method).fit(seed[0]) for seed in at_kernel]
            nlls = [nll(each, r) for each, seed in zip(fitted, at_kernel, strict=True) for r in seed]
            found.append(replace(choice, nll=sum(nlls) / len(nlls)))
    return sorted(found, key=lambda choice: choice.nll)


def candidates(
    seeds: Sequence[Sequence[Logits]], method: VarianceSmoothing, kernel: int | None, grid: Grid
) -> Iterator[Choice]:
    for alpha, beta in product(grid.alphas, grid.betas):
        yield Choice(kernel, alpha, beta)
    together = Logits.concat([record for seed in seeds for record in seed])
    learned = replace(method, beta=LEARNED, spread="logits").fit(together)
    yield Choice(kernel, learned.alpha, learned.beta)


def better_settings(
    seeds: Sequence[Sequence[Logits]], method: VarianceSmoothing, *, grid: Grid = GRID, replicates: int = REPLICATES
) -> tuple[Choice, Interval, bool]:
    """The best other settings, their NLL less that of the method as it stands, and whether they are clearly better.

    They are chosen on every second example and compared on the rest, so that a choice among many does not flatter.
    """
    chosen_on, told_on = ([[some(r, slice(start, None, 2)) for r in seed] for seed in seeds] for start in (0, 1))
    best = search(chosen_on, method, grid=grid)[0]
    compared = {
        "old": predictions_of(Choice(None, method.alpha, method.beta), method, chosen_on, told_on),
        "new": predictions_of(best, method, chosen_on, told_on),
    }
    levels = [{name: by_record[i] for name, by_record in compared.items()} for i in range(len(seeds[0]))]
    found = mean_scores(levels, ["nll"], replicates)
    gain, before = found.difference("new", "old", "nll"), found.interval("old", "nll").value
    return best, gain, side(gain, 0.0, wanted="below", visible=max(VISIBLE, SHARE * before)) == "for"


def predictions_of(
    choice: Choice, method: VarianceSmoothing, fit_on: Sequence[Sequence[Logits]], told_on: Sequence[Sequence[Logits]]
) -> list[list[Scored]]:
    """Of settings that were fitted on one half of the examples on the other: by record, then by seed."""
    of_seeds = []
    for fit_records, records in zip(fit_on, told_on, strict=True):
        fitted = choice.of(method).fit(summary(fit_records[0], choice.kernel, method.spread))
        read = [summary(record, choice.kernel, method.spread) for record in records]
        of_seeds.append([scored(fitted.predict_proba(record), record.labels) for record in read])
    return [list(of_record) for of_record in zip(*of_seeds, strict=True)]


def kernels_for(seeds: Sequence[Sequence[Logits]], grid: Grid) -> list[int | None]:
    """Those of the grid that fit the patches; none but the records' own where some keep no patches."""
    records = [record for seed in seeds for record in seed]
    sizes = [min(record.parts.shape[2:]) for record in records if record.parts is not None]
    if len(sizes) < len(records):
        return [None]
    return [kernel for kernel in grid.kernels if kernel < min(sizes)] or [None]


def summary(record: Logits, kernel: int | None, spread: str) -> Logits:
    """A record whose sigma is the spread that the method reads, over another window if one is named."""
    if kernel is None:
        return Logits(record.logits, sigma=record.sigma_of(spread), labels=record.labels)
    return Logits(record.logits, sigma=sigma_bar(record.parts, kernel, spread=spread), labels=record.labels)


def some(record: Logits, index: slice) -> Logits:
    return Logits.from_tensors({name: values[index] for name, values in record.tensors().items()})


def nll(method: VarianceSmoothing, record: Logits) -> float:
    return score(method.predict_proba(record), record.labels, metrics=["nll"])["nll"]
