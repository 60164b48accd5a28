"""Search for settings: the kernel, alpha and beta of least NLL on validation records, clean and noisy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from vbs_cli.diagnosis.base import Windowed, side
from vbs_cli.diagnosis.evidence import REPLICATES, SHARE, VISIBLE_DIFFERENCE, mean_scores
from vbs_cli.logits import Logits, sigma_bar
from vbs_cli.methods.variance import LEARNED, VarianceSmoothing
from vbs_cli.metrics import Interval, Scored, score, scored


@dataclass(frozen=True)
class Grid:
    """Settings to try. Windows that leave fewer than two sub-predictions are skipped."""

    kernels: tuple[int, ...] = (1, 2, 5, 10, 20, 40)
    alphas: tuple[float, ...] = (1.0, 2.0, 3.0, 5.0)
    betas: tuple[str, ...] = ("mean+0.5", "mean", "q50", "q75", "q95")  # besides a learned one


GRID = Grid()


@dataclass(frozen=True)
class Candidate:
    """Settings and their NLL, mean over records and seeds. A beta that was learned is a number."""

    kernel: int | None  # None is that of the records as they are
    alpha: float
    beta: float | str
    nll: float = math.nan

    def __str__(self) -> str:
        beta = self.beta if isinstance(self.beta, str) else f"{self.beta:.3g}"
        window = "" if self.kernel is None else f"kernel {self.kernel}, "
        return f"{window}alpha {self.alpha:.3g}, beta {beta}"

    def of(self, method: VarianceSmoothing) -> VarianceSmoothing:
        """Method with these settings, for windowed records, whose sigma is already the spread of the method."""
        return replace(method, alpha=self.alpha, beta=self.beta, spread="logits")


def windowed(record: Logits, spread: str, *, grid: Grid = GRID) -> Windowed:
    """Copies of a record by kernel: as it is, and, if it keeps its patches, with each kernel of the grid that fits."""
    stands = Logits(record.logits, sigma=record.sigma_of(spread), labels=record.labels)
    found: dict[int | None, Logits] = {None: stands}
    if record.parts is not None:
        for kernel in grid.kernels:
            if kernel < min(record.parts.shape[2:]):
                found[kernel] = replace(stands, sigma=sigma_bar(record.parts, kernel, spread=spread))
    return found


def search(seeds: Sequence[Sequence[Windowed]], method: VarianceSmoothing, *, grid: Grid = GRID) -> list[Candidate]:
    """Candidates that were tried, best first, given the validation records of each seed: clean first, then noisy.

    Rules for beta are resolved on the clean record of each seed, as in later use; a learned candidate is one alpha and
    one beta for the records of all seeds together.
    """
    found = []
    for kernel in kernels_of(seeds):
        at_kernel = [[record[kernel] for record in seed] for seed in seeds]
        for choice in candidates(at_kernel, method, kernel, grid):
            fitted = [choice.of(method).fit(seed[0]) for seed in at_kernel]
            nlls = [nll(each, record) for each, seed in zip(fitted, at_kernel, strict=True) for record in seed]
            found.append(replace(choice, nll=sum(nlls) / len(nlls)))
    return sorted(found, key=lambda choice: choice.nll)


def kernels_of(seeds: Sequence[Sequence[Windowed]]) -> list[int | None]:
    """Kernels that all records have; None, for the records as they are, only if there are no others."""
    common = set.intersection(*(set(record) for seed in seeds for record in seed))
    others = sorted(kernel for kernel in common if kernel is not None)
    return [*others] or [None]


def candidates(
    seeds: Sequence[Sequence[Logits]], method: VarianceSmoothing, kernel: int | None, grid: Grid
) -> Iterator[Candidate]:
    for alpha, beta in product(grid.alphas, grid.betas):
        yield Candidate(kernel, alpha, beta)
    together = Logits.concat([record for seed in seeds for record in seed])
    learned = Candidate(kernel, method.alpha, LEARNED).of(method).fit(together)
    yield Candidate(kernel, learned.alpha, learned.beta)


def better_settings(
    seeds: Sequence[Sequence[Windowed]], method: VarianceSmoothing, *, grid: Grid = GRID, replicates: int = REPLICATES
) -> tuple[Candidate, Interval, bool]:
    """Best other settings, their NLL less that of the method as it is, and whether they are clearly better.

    They are chosen on every second example and compared on the rest, so that a choice among many does not flatter.
    """
    chosen_on, told_on = ([[some(r, slice(start, None, 2)) for r in seed] for seed in seeds] for start in (0, 1))
    best = search(chosen_on, method, grid=grid)[0]
    gain, before = gain_of(best, method, [seed[0] for seed in chosen_on], told_on, replicates=replicates)
    return best, gain, side(gain, 0.0, wanted="below", visible=max(VISIBLE_DIFFERENCE, SHARE * before)) == "for"


def gain_of(
    choice: Candidate,
    method: VarianceSmoothing,
    fit_on: Sequence[Windowed],
    told_on: Sequence[Sequence[Windowed]],
    *,
    replicates: int = REPLICATES,
) -> tuple[Interval, float]:
    """NLL of other settings less that of the method as it is, mean over records and seeds; and the NLL of the latter.

    Both are fitted on the clean record of each seed.
    """
    stands = Candidate(None, method.alpha, method.beta)
    compared = {
        name: predictions_of(each, method, fit_on, told_on) for name, each in (("old", stands), ("new", choice))
    }
    levels = [{name: by_record[i] for name, by_record in compared.items()} for i in range(len(told_on[0]))]
    found = mean_scores(levels, ["nll"], replicates)
    return found.difference("new", "old", "nll"), found.interval("old", "nll").value


def predictions_of(
    choice: Candidate, method: VarianceSmoothing, fit_on: Sequence[Windowed], told_on: Sequence[Sequence[Windowed]]
) -> list[list[Scored]]:
    """Scored predictions, by record and then by seed, of settings that are fitted on one record of each seed."""
    of_seeds = []
    for clean, records in zip(fit_on, told_on, strict=True):
        fitted = choice.of(method).fit(clean[choice.kernel])
        read = [record[choice.kernel] for record in records]
        of_seeds.append([scored(fitted.predict_proba(record), record.labels) for record in read])
    return [list(of_record) for of_record in zip(*of_seeds, strict=True)]


def some(record: Windowed, index: slice) -> Windowed:
    """Record with some of its examples only."""
    return {
        kernel: Logits.from_tensors({name: values[index] for name, values in each.tensors().items()})
        for kernel, each in record.items()
    }


def nll(method: VarianceSmoothing, record: Logits) -> float:
    return score(method.predict_proba(record), record.labels, metrics=["nll"])["nll"]
