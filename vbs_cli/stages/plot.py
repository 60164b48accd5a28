"""`vbs plot`: the run's tables as figures."""

from __future__ import annotations

from collections.abc import Sequence

from vbs_cli.artifacts.figures import TRAINING_CURVES, artifact, table_errors
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.plan import with_plan
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, FORMATS, READS
from vbs_cli.registry import unknown

USUAL = ("svg", "png")
__all__ = ["TRAINING_CURVES", "USUAL", "plot"]


def plot(
    job: Job, names: Sequence[str] = (), formats: Sequence[str] = USUAL, methods: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Draw the named figures, or all that the tables allow, of all methods or some; return a row per file.

    A figure that cannot be drawn is an error if it was named, else a row that says which command would help.
    """
    check(job, names, formats, methods)
    job = with_plan(job)
    missing = table_errors(job)
    rows = []
    for figure in names or FIGURES:
        wanted = [artifact(job, figure, format, methods) for format in formats]
        job.graph.add(wanted)
        files = [each.name for each in wanted]
        try:
            for field in READS[figure]:
                if field in missing:
                    raise missing[field]
            drawn = job.graph.make_alone(job, files, forced=files if job.force else ())
        except MissingArtifact as error:
            if names:
                raise
            rows.append({"artifact": files[0], "state": "left out", "why": str(error)})
            continue
        states = {name: "drawn" if name in drawn else "up to date" for name in files}
        rows += [{"artifact": name, "state": state, "why": ""} for name, state in states.items()]
    return rows


def check(job: Job, names: Sequence[str], formats: Sequence[str], methods: Sequence[str]) -> None:
    """Refuse unknown figures, formats and methods before anything is drawn."""
    for kind, given, known in (
        ("figure", names, FIGURES),
        ("figure format", formats, FORMATS),
        ("method", methods, job.run.settings.methods),
    ):
        for name in given:
            if name not in known:
                raise unknown(kind, name, known)
