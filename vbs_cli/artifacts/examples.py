"""Table of one example input under the noises of a run, for a figure of what the networks saw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass
from vbs_cli.data import NOISES
from vbs_cli.data.noise import distort
from vbs_cli.errors import MissingArtifact
from vbs_cli.run import Artifact, Recipe, formats, layout

STAGE = "examples"
REVISION = 1  # raised when the content of the table changes
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SPLIT, EXAMPLE = "test", 0


def artifacts(job: Job, passes: Iterable[Pass]) -> list[Artifact]:
    """Artifact of the example table, or none if the run has swept no noise."""
    noises = sorted({p.noise for p in passes} - {layout.CLEAN})
    settings = {**job.labels(), "data": job.data.fingerprint, "noises": noises, "levels": list(LEVELS)}
    revisions = {"examples": REVISION, **NOISES.revisions(noises)}
    return [Artifact(layout.EXAMPLES, Recipe(STAGE, settings, (), revisions), make)] if noises else []


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the table, unless the run's data are missing."""
    [artifact] = due
    try:
        table = examples(job, artifact.recipe.settings["noises"])
    except MissingArtifact as error:
        job.progress.detail(f"no example inputs: {error}")
        return
    job.run.store.write(artifact.name, formats.table_bytes(table), artifact.recipe)


def examples(job: Job, noises: list[str]) -> pd.DataFrame:
    """First input of the test split under each noise and level, distorted with its whole block as in the passes."""
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
