"""Table of one example input under the noises of a run, for a figure of what the networks saw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from vbs_cli.artifacts.job import Job, Levels
from vbs_cli.artifacts.passes import Pass, source_of
from vbs_cli.conditions import evenly
from vbs_cli.data import NOISES
from vbs_cli.data.noise import distort
from vbs_cli.errors import MissingArtifact
from vbs_cli.run import Artifact, Recipe, formats, layout

STAGE = "examples"
REVISION = 2  # raised when the content of the table changes
MOST_LEVELS = 6  # of a noise, with the clean input
SPLIT, EXAMPLE = "test", 0


def artifacts(job: Job, passes: Iterable[Pass]) -> list[Artifact]:
    """Artifact of the example table, or none if the run has swept no noise."""
    swept: dict[str, set[float]] = {}
    for p in passes:
        if not (p.clean or source_of(job, p).further):
            swept.setdefault(p.noise, set()).add(p.level)
    levels = {noise: evenly([0.0, *sorted(swept[noise])], MOST_LEVELS) for noise in sorted(swept)}
    settings = {**job.labels(), "data": job.data.fingerprint, "levels": levels}
    revisions = {"examples": REVISION, **NOISES.revisions(levels)}
    return [Artifact(layout.EXAMPLES, Recipe(STAGE, settings, (), revisions), make)] if levels else []


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the table, unless the run's data are missing."""
    [artifact] = due
    try:
        table = examples(job, artifact.recipe.settings["levels"])
    except MissingArtifact as error:
        job.progress.detail(f"no example inputs: {error}")
        return
    job.run.store.write(artifact.name, formats.table_bytes(table), artifact.recipe)


def examples(job: Job, levels: Levels) -> pd.DataFrame:
    """First input of the test split under each noise at its levels, distorted with its whole block as in the passes."""
    split = job.data.split(SPLIT)
    block, inputs = next(split.blocks())
    label = int(split.y[EXAMPLE])
    rows = []
    for noise, of_noise in levels.items():
        for level in of_noise:
            x = distort(inputs, noise=noise, level=level, dataset=split.dataset, split=SPLIT, block=block)[EXAMPLE]
            keys = {"noise": noise, "family": NOISES[noise].family, "level": level, "example": EXAMPLE, "label": label}
            rows.append({**job.labels(), **keys, "shape": list(x.shape), "values": x.flatten().numpy()})
    return pd.DataFrame(rows)
