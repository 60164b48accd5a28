"""Cells of a table, each one method of one seed under one condition; fingerprints tell which were scored before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import pandas as pd
from torch import Tensor

from vbs_cli import files
from vbs_cli.artifacts.fits import Fitted
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass, read_records
from vbs_cli.conditions import Condition
from vbs_cli.errors import VbsError
from vbs_cli.logits import Logits
from vbs_cli.methods import METHODS, Method, TemperatureMethod
from vbs_cli.metrics import METRICS, Scored, scored
from vbs_cli.run import layout
from vbs_cli.views import VIEWS

Row = dict[str, Any]
Source = tuple[int, str]  # seed and view of a record


@dataclass(frozen=True)
class Cell:
    """One method of one seed, or of all seeds together, under one condition."""

    at: Condition
    seed: int
    method: str
    view: str
    passes: tuple[Pass, ...]  # whose records it is scored from

    @property
    def source(self) -> Source:
        return self.seed, self.view

    @property
    def name(self) -> str:
        return f"{self.at.noise} {self.at.level!r} {self.seed} {self.method}"


def by_condition(passes: Iterable[Pass]) -> Iterator[tuple[Condition, list[Pass]]]:
    """Yield each condition with the passes under it, which have the same inputs."""

    def key(p: Pass) -> tuple[str, float]:
        return p.noise, p.level

    for (noise, level), group in groupby(sorted(passes, key=key), key=key):
        yield Condition(noise, level), list(group)


def sources(job: Job, passes: Iterable[Pass]) -> dict[Source, tuple[Pass, ...]]:
    """Passes that each record under one condition is made from, keyed by seed and view; joined records included."""
    found: dict[Source, tuple[Pass, ...]] = {(p.seed, p.view): (p,) for p in passes}
    for name, view in job.joining.items():
        members = [p for seed in job.seeds for p in found.get((seed, view.source), ())]
        if len(members) == len(job.seeds):
            found[layout.TOGETHER, name] = tuple(members)
    return found


def cells_of(job: Job, fitted: Fitted, passes: Iterable[Pass]) -> list[Cell]:
    """Cells that can be scored from these passes, condition by condition, in the order of the run's methods."""
    return [
        Cell(at, seed, name, pair.view, found[seed, pair.view])
        for at, group in by_condition(passes)
        for found in [sources(job, group)]
        for name, pair in job.pairs.items()
        for seed, methods in fitted.items()
        if name in methods and (seed, pair.view) in found
    ]


def fingerprints(job: Job, fitted: Fitted, cells: Iterable[Cell], revision: int) -> dict[str, str]:
    """Fingerprint of each cell's inputs and code, keyed by cell name; the revision is that of the table's code."""
    methods = {
        (seed, name): files.sha256_of_json([asdict(method), METHODS.revisions([job.pairs[name].method])])
        for seed, of_seed in fitted.items()
        for name, method in of_seed.items()
    }
    joined = {name: [asdict(view), VIEWS.revisions([name])] for name, view in job.joining.items()}
    code = [revision, METRICS.revisions(METRICS)]
    marks = {}
    for cell in cells:
        record = [joined.get(cell.view), *(job.run.store.sha256(p.name) for p in cell.passes)]
        marks[cell.name] = files.sha256_of_json([code, methods[cell.seed, cell.method], record])[:16]
    return marks


def scored_cells(job: Job, fitted: Fitted, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Scored]]:
    """Yield cells with their predictions; `cells` must be grouped by condition. Records are read once, one by one."""
    names = list(dict.fromkeys(p.name for cell in cells for p in cell.passes))
    job.make(names, to_read=names)
    for _, group in groupby(cells, key=lambda cell: cell.at):
        wanted: dict[Source, list[Cell]] = {}
        for cell in group:
            wanted.setdefault(cell.source, []).append(cell)
        behind = dict.fromkeys(p for some in wanted.values() for p in some[0].passes)
        joined = any(seed == layout.TOGETHER for seed, _ in wanted)
        for source, record in read_records(job, behind, joined=joined):
            for cell in wanted.get(source, ()):
                yield cell, score_record(fitted[cell.seed][cell.method], record)


def score_record(method: Method, record: Logits) -> Scored:
    """Predictions of a method for a record, with the spread and the accuracy of its sub-predictions."""
    probs = method.predict_proba(record)
    if isinstance(method, TemperatureMethod):
        check_class_kept(probs, method.scores(record))
    predictions = scored(probs, record.labels, sigma=record.sigma, part_accuracy=record.part_accuracy)
    return replace(predictions, partial=True)  # plain logits have no sub-predictions


def check_class_kept(probs: Tensor, scores: Tensor) -> None:
    """Refuse predictions whose class a temperature has changed, since the accuracy of a table would be wrong."""
    changed = int((probs.argmax(1) != scores.argmax(1)).sum())
    if changed:
        raise VbsError(f"a temperature changed {changed} predictions", hint="the logits are beyond double precision")


def with_labels(job: Job, rows: Sequence[Row] | pd.DataFrame) -> pd.DataFrame:
    """Table of these rows whose first columns say where its numbers come from."""
    table = pd.DataFrame(rows)
    labels = job.labels()
    return table.assign(**labels)[[*labels, *(column for column in table if column not in labels)]]
