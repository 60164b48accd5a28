"""One input under the noises of a run, for people to look at: what the networks saw."""

from __future__ import annotations

import pandas as pd

from vbs_cli.data.noise import distort
from vbs_cli.errors import MissingArtifact
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.stages import passes as caches
from vbs_cli.stages.base import Job, Target

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SPLIT, EXAMPLE = "test", 0


def targets(job: Job) -> list[Target]:
    """The table of the example, where the run has swept a noise."""
    noises = sorted({p.noise for p in caches.usable(job)} - {layout.CLEAN})
    settings = {**job.labels(), "data": job.data.fingerprint, "noises": noises, "levels": list(LEVELS)}
    return [(layout.EXAMPLES, Recipe("examples", settings))] if noises else []


def keep_examples(job: Job) -> None:
    """Make the table; a run without its data goes without."""
    for name, recipe in targets(job):
        if not job.needs((name, recipe)):
            continue
        try:
            table = examples(job, recipe.settings["noises"])
        except MissingArtifact as error:
            job.progress.detail(f"no example inputs: {error}")
            continue
        job.run.store.write(name, formats.table_bytes(table), recipe)


def examples(job: Job, noises: list[str]) -> pd.DataFrame:
    """The first input of the test split, distorted together with its block, as its passes had it."""
    split = job.data.split(SPLIT)
    block, inputs = next(split.blocks())
    label = int(split.y[EXAMPLE])
    rows = []
    for noise in noises:
        for level in LEVELS:
            x = distort(inputs, noise=noise, level=level, dataset=split.dataset, split=SPLIT, block=block)[EXAMPLE]
            keys = {"noise": noise, "level": level, "example": EXAMPLE, "label": label}
            rows.append({**job.labels(), **keys, "shape": list(x.shape), "values": x.flatten().numpy()})
    return pd.DataFrame(rows)
