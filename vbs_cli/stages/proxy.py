"""Whether the spread between sub-predictions is a proxy for uncertainty: what it did as predictions became wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from vbs_cli import __version__, files
from vbs_cli.methods import METHODS
from vbs_cli.metrics.proxy import Course, proxy
from vbs_cli.run import layout
from vbs_cli.seeding import threads
from vbs_cli.stages import passes as caches
from vbs_cli.stages import work as networks
from vbs_cli.stages.base import Job
from vbs_cli.stages.cells import Source, by_condition, scored_record, sources
from vbs_cli.stages.passes import Pass

COLUMNS = ("noise", "model", "quantity", "value", "low", "high")
# The plain prediction of each record, whose errors the spread is to tell.
PLAIN = {"conventional": "conventional", "dropout": "mc-dropout", layout.ENSEMBLE: "ensemble"}
Seen = tuple[Tensor, Tensor, Tensor, Tensor]  # the columns of a course at one level


def proxy_table(
    job: Job, passes: Iterable[Pass], earlier: pd.DataFrame, known: Mapping[str, str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """One row per noise, network and quantity, and a fingerprint per noise; what is known from earlier is taken over.

    Networks are those whose patches (conventional), draws (dropout) or members (ensemble) differ.
    """
    passes = list(passes)
    clean = [p for p in passes if p.clean]
    groups = {noise: [*clean, *(p for p in passes if p.noise == noise)] for noise in sorted({p.noise for p in passes})}
    groups.pop(layout.CLEAN, None)
    marks = {
        noise: files.sha256_of_json([__version__, job.has_ensemble, [job.run.store.sha256(p.name) for p in group]])[:16]
        for noise, group in groups.items()
    }
    todo = [noise for noise in groups if known.get(noise) != marks[noise]]
    networks.ensure(replace(job, force=False), [p for noise in todo for p in groups[noise]], to_read=True)
    rows: list[dict[str, Any]] = []
    with threads(1), job.progress.task("spread and errors", len(todo)) as task:
        for noise in todo:
            task.note(noise)
            for model, courses in courses_of(job, groups[noise]):
                keys = {"noise": noise, "model": model}
                rows += [{**keys, "quantity": name, **asdict(found)} for name, found in proxy(courses).items()]
            task.advance(1)
    kept = earlier[earlier["noise"].isin(set(groups) - set(todo))]
    made = pd.DataFrame(rows, columns=list(COLUMNS))
    table = pd.concat([kept, made]) if len(kept) and rows else kept if len(kept) else made
    return table.sort_values("noise", kind="stable", ignore_index=True), marks


def courses_of(job: Job, passes: Sequence[Pass]) -> Iterator[tuple[str, list[Course]]]:
    """What every seed went through from the clean data to the strongest noise, by network."""
    conditions = sorted(by_condition(passes), key=lambda pair: pair[0].level)
    everywhere = set.intersection(*(set(sources(job, group)) for _, group in conditions))
    seen: dict[Source, list[Seen]] = {source: [] for source in sorted(everywhere)}
    for _, group in conditions:
        for source, record in caches.records(job, group, together=job.has_ensemble):
            if source in seen:
                s = scored_record(METHODS[PLAIN[source[1]]](), record)
                columns = (s.need("sigma"), 1 - s.correct, s.confidence, s.need("part_accuracy"))
                seen[source].append(tuple(column.float() for column in columns))  # type: ignore[arg-type]
    for model in dict.fromkeys(role for _, role in seen):
        of_model = [levels for (_, role), levels in seen.items() if role == model]
        yield model, [Course(*(torch.stack(column) for column in zip(*levels, strict=True))) for levels in of_model]
