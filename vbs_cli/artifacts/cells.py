"""Cells of a table: one method of one seed under one condition; what was scored before is known by its fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

from torch import Tensor

from vbs_cli import files
from vbs_cli.artifacts.fits import Fitted
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass, load_records
from vbs_cli.conditions import Condition
from vbs_cli.errors import VbsError
from vbs_cli.logits import Logits
from vbs_cli.methods import METHODS, Method, TemperatureMethod
from vbs_cli.metrics import METRICS, Scored, scored
from vbs_cli.run import layout

Source = tuple[int, str]  # seed and view of a record


@dataclass(frozen=True)
class Cell:
    """One method of one seed, or of all seeds together, under one condition."""

    at: Condition
    seed: int
    method: str
    view: str
    passes: tuple[Pass, ...]  # behind the record that it reads

    @property
    def source(self) -> Source:
        return self.seed, self.view

    @property
    def name(self) -> str:
        return f"{self.at.noise} {self.at.level!r} {self.seed} {self.method}"


def by_condition(passes: Iterable[Pass]) -> Iterator[tuple[Condition, list[Pass]]]:
    """Group passes over the same inputs."""

    def key(p: Pass) -> tuple[str, float]:
        return p.noise, p.level

    for (noise, level), group in groupby(sorted(passes, key=key), key=key):
        yield Condition(noise, level), list(group)


def sources(job: Job, passes: Iterable[Pass]) -> dict[Source, tuple[Pass, ...]]:
    """Records that passes under one condition give, and the passes behind each."""
    found: dict[Source, tuple[Pass, ...]] = {(p.seed, p.view): (p,) for p in passes}
    for name, view in job.joining.items():
        members = [p for seed in job.seeds for p in found.get((seed, view.source), ())]
        if len(members) == len(job.seeds):
            found[layout.TOGETHER, name] = tuple(members)
    return found


def cells_of(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> list[Cell]:
    """All that can be scored from some passes, condition by condition, in the order of the run's methods."""
    return [
        Cell(at, seed, name, pair.view, found[seed, pair.view])
        for at, group in by_condition(passes)
        for found in [sources(job, group)]
        for name, pair in job.pairs.items()
        for seed, methods in fitted.items()
        if name in methods and (seed, pair.view) in found
    ]


def fingerprints(job: Job, fitted: Fitted, cells: Iterable[Cell]) -> dict[str, str]:
    """Fingerprint of each cell's inputs and code, keyed by cell name."""
    methods = {
        (seed, name): files.sha256_of_json([asdict(method), METHODS.revisions([job.pairs[name].method])])
        for seed, of_seed in fitted.items()
        for name, method in of_seed.items()
    }
    metrics = METRICS.revisions(METRICS)
    marks = {}
    for cell in cells:
        made_from = [job.run.store.sha256(p.name) for p in cell.passes]
        marks[cell.name] = files.sha256_of_json([metrics, methods[cell.seed, cell.method], made_from])[:16]
    return marks


def scored_cells(job: Job, fitted: Fitted, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Scored]]:
    """Predictions of cells that are grouped by condition; one record is in memory at a time, and read once."""
    names = list(dict.fromkeys(p.name for cell in cells for p in cell.passes))
    job.make(names, to_read=names)
    for _, group in groupby(cells, key=lambda cell: cell.at):
        wanted: dict[Source, list[Cell]] = {}
        for cell in group:
            wanted.setdefault(cell.source, []).append(cell)
        behind = dict.fromkeys(p for some in wanted.values() for p in some[0].passes)
        joined = any(seed == layout.TOGETHER for seed, _ in wanted)
        for source, record in load_records(job, behind, joined=joined):
            for cell in wanted.get(source, ()):
                yield cell, score_record(fitted[cell.seed][cell.method], record)


def score_record(method: Method, record: Logits) -> Scored:
    """Predictions of a method, with what the sub-predictions behind them did."""
    probs = method.predict_proba(record)
    if isinstance(method, TemperatureMethod):
        check_class_kept(probs, method.scores(record))
    predictions = scored(probs, record.labels, sigma=record.sigma, part_accuracy=record.part_accuracy)
    return replace(predictions, partial=True)  # plain logits have no sub-predictions


def check_class_kept(probs: Tensor, scores: Tensor) -> None:
    """Refuse a temperature that changed the predicted class; the accuracy of a table would be wrong."""
    changed = int((probs.argmax(1) != scores.argmax(1)).sum())
    if changed:
        raise VbsError(f"a temperature changed {changed} predictions", hint="the logits are beyond double precision")
