"""Cached logits and fitted methods -> predictions, cell by cell; what was scored before is known by its fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

from torch import Tensor

from vbs_cli import __version__, files
from vbs_cli.errors import VbsError
from vbs_cli.logits import Logits
from vbs_cli.methods import Method, TemperatureMethod
from vbs_cli.metrics import METRICS, Scored, scored
from vbs_cli.report.tables import Condition
from vbs_cli.run import layout
from vbs_cli.stages import passes as caches
from vbs_cli.stages import work as networks
from vbs_cli.stages.base import Job
from vbs_cli.stages.passes import Pass

Fitted = Mapping[int, Mapping[str, Method]]
Source = tuple[int, str]  # seed and role of a record


@dataclass(frozen=True)
class Cell:
    """One method of one seed, or of all seeds together, under one condition."""

    at: Condition
    seed: int
    method: str
    source: Source
    passes: tuple[Pass, ...]  # behind the record that it reads

    @property
    def name(self) -> str:
        return f"{self.at.noise} {self.at.level!r} {self.seed} {self.method}"


def by_condition(passes: Iterable[Pass]) -> Iterator[tuple[Condition, list[Pass]]]:
    """Passes over the same inputs together."""

    def key(p: Pass) -> tuple[str, float]:
        return p.noise, p.level

    for (noise, level), group in groupby(sorted(passes, key=key), key=key):
        yield Condition(noise, level), list(group)


def sources(job: Job, passes: Iterable[Pass]) -> dict[Source, tuple[Pass, ...]]:
    """The records that passes under one condition give, and the passes behind each."""
    found: dict[Source, tuple[Pass, ...]] = {(p.seed, p.role): (p,) for p in passes}
    members = [p for seed in job.seeds for p in found.get((seed, "conventional"), ())]
    if job.has_ensemble and len(members) == len(job.seeds):
        found[layout.TOGETHER, layout.ENSEMBLE] = tuple(members)
    return found


def cells_of(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> list[Cell]:
    """All that can be scored from some passes, condition by condition, in the order of the run's methods."""
    return [
        Cell(at, seed, name, (seed, method.model), found[seed, method.model])
        for at, group in by_condition(passes)
        for found in [sources(job, group)]
        for name in job.run.settings.methods
        for seed, methods in fitted.items()
        for method in [methods.get(name)]
        if method is not None and (seed, method.model) in found
    ]


def fingerprints(job: Job, fitted: Fitted, cells: Iterable[Cell]) -> dict[str, str]:
    """Of everything that a cell's scores depend on, by its name."""
    methods = {
        (seed, name): files.sha256_of_json(asdict(method))
        for seed, of_seed in fitted.items()
        for name, method in of_seed.items()
    }
    shared = [__version__, list(METRICS)]
    marks = {}
    for cell in cells:
        made_from = [job.run.store.sha256(p.name) for p in cell.passes]
        marks[cell.name] = files.sha256_of_json([*shared, methods[cell.seed, cell.method], made_from])[:16]
    return marks


def scored_cells(job: Job, fitted: Fitted, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Scored]]:
    """The predictions of cells that are grouped by condition; one record is in memory at a time, and read once."""
    passes = list(dict.fromkeys(p for cell in cells for p in cell.passes))
    networks.ensure(replace(job, force=False), passes, to_read=True)
    for _, group in groupby(cells, key=lambda cell: cell.at):
        wanted: dict[Source, list[Cell]] = {}
        for cell in group:
            wanted.setdefault(cell.source, []).append(cell)
        behind = dict.fromkeys(p for some in wanted.values() for p in some[0].passes)
        together = (layout.TOGETHER, layout.ENSEMBLE) in wanted
        for source, record in caches.records(job, behind, together=together):
            for cell in wanted.get(source, ()):
                yield cell, scored_record(fitted[cell.seed][cell.method], record)


def scored_record(method: Method, record: Logits) -> Scored:
    """The predictions of a method, with what the sub-predictions behind them did."""
    probs = method.predict_proba(record)
    if isinstance(method, TemperatureMethod):
        check_class_kept(probs, method.scores(record))
    predictions = scored(probs, record.labels, sigma=record.sigma, part_accuracy=record.part_accuracy)
    return replace(predictions, partial=True)  # plain logits have no sub-predictions


def check_class_kept(probs: Tensor, scores: Tensor) -> None:
    """A temperature never changes the predicted class; if it did, the accuracy of a table would be wrong."""
    changed = int((probs.argmax(1) != scores.argmax(1)).sum())
    if changed:
        raise VbsError(f"a temperature changed {changed} predictions", hint="the logits are beyond double precision")
