"""Table that shows whether the spread between sub-predictions is a proxy for uncertainty: its course as errors grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.artifacts.cells import Source, by_condition, score_record, sources
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass, read_records
from vbs_cli.logits import Logits
from vbs_cli.methods import METHODS
from vbs_cli.metrics.proxy import Course, proxy
from vbs_cli.run import layout
from vbs_cli.seeding import threads
from vbs_cli.views import VIEWS

COLUMNS = ("noise", "view", "quantity", "value", "low", "high")
REVISION = 1  # of the table; methods and views have their own
Seen = tuple[Tensor, Tensor, Tensor, Tensor]  # sigma, error, confidence and part accuracy of each example at a level


def code(job: Job) -> dict[str, int]:
    """Revisions of the table, of the methods that predict without calibration, and of the views that join records."""
    plain = METHODS.revisions(sorted({view.plain for view in job.views.values()}))
    return {"proxy": REVISION, **plain, **VIEWS.revisions(job.joining)}


def proxy_table(
    job: Job, passes: Iterable[Pass], earlier: pd.DataFrame, known: Mapping[str, str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Table with a row per noise, view and quantity, and a fingerprint per noise; rows of unchanged noises are kept."""
    passes = list(passes)
    clean = [p for p in passes if p.clean]
    groups = {noise: [*clean, *(p for p in passes if p.noise == noise)] for noise in sorted({p.noise for p in passes})}
    groups.pop(layout.CLEAN, None)
    shared = [code(job), list(job.views), job.joins]
    marks = {
        noise: files.sha256_of_json([shared, [job.run.store.sha256(p.name) for p in group]])[:16]
        for noise, group in groups.items()
    }
    todo = [noise for noise in groups if known.get(noise) != marks[noise]]
    names = list(dict.fromkeys(p.name for noise in todo for p in groups[noise]))
    job.make(names, to_read=names)
    rows: list[dict[str, Any]] = []
    with threads(1), job.progress.task("spread and errors", len(todo)) as task:
        for noise in todo:
            task.note(noise)
            for view, courses in courses_of(job, groups[noise]):
                keys = {"noise": noise, "view": view}
                rows += [{**keys, "quantity": name, **asdict(found)} for name, found in proxy(courses).items()]
            task.advance(1)
    kept = earlier[earlier["noise"].isin(set(groups) - set(todo))]
    made = pd.DataFrame(rows, columns=list(COLUMNS))
    table = pd.concat([kept, made]) if len(kept) and rows else kept if len(kept) else made
    return table.sort_values("noise", kind="stable", ignore_index=True), marks


def courses_of(job: Job, passes: Sequence[Pass]) -> Iterator[tuple[str, list[Course]]]:
    """Yield each view with the course of spread and errors of every seed, from clean data to the strongest level.

    Records without a spread are left out, and so are those of other examples than the clean ones, as of a second test
    set: between them nothing grows.
    """
    conditions = sorted(by_condition(passes), key=lambda pair: pair[0].level)
    everywhere = set.intersection(*(set(sources(job, group)) for _, group in conditions))
    order = {name: place for place, name in enumerate(job.views)}
    in_order = sorted(everywhere, key=lambda source: (source[0], order[source[1]]))
    seen: dict[Source, list[Seen]] = {source: [] for source in in_order}
    labels: dict[Source, Tensor] = {}
    for _, group in conditions:
        for source, record in read_records(job, group):
            if source in seen and not (record.sigma is not None and same_labels(labels, source, record)):
                del seen[source]
            if source in seen:
                s = score_record(METHODS[job.views[source[1]].plain](), record)
                columns = (s.need("sigma"), 1 - s.correct, s.confidence, s.need("part_accuracy"))
                seen[source].append(tuple(column.float() for column in columns))  # type: ignore[arg-type]
    for view in dict.fromkeys(name for _, name in seen):
        of_view = [levels for (_, name), levels in seen.items() if name == view]
        yield view, [Course(*(torch.stack(column) for column in zip(*levels, strict=True))) for levels in of_view]


def same_labels(known: dict[Source, Tensor], source: Source, record: Logits) -> bool:
    """Whether a record has the labels of the first one of its source."""
    return record.labels is not None and torch.equal(known.setdefault(source, record.labels), record.labels)
