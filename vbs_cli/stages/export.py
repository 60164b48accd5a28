"""`vbs export`: the calibrated network of a seed as one file, checked against the Python model, with a model card."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vbs_cli import files
from vbs_cli.artifacts.exports import ExportChoice, artifacts, card_files
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.plan import with_plan

__all__ = ["ExportChoice", "aims", "export"]


def aims(job: Job, choice: ExportChoice) -> tuple[Job, list[str]]:
    """Job with an export in its graph, and the names of the file and its cards."""
    job = with_plan(job)
    wanted = artifacts(job, choice)
    job.graph.add(wanted)
    return job, [each.name for each in wanted]


def export(job: Job, choice: ExportChoice, output: Path | None = None) -> dict[str, Any]:
    """Make the file and cards that are not up to date, copy them to `output` if given, and return a row about them."""
    job, names = aims(job, choice)
    due = job.graph.make_alone(job, names, forced=names if job.force else ())
    store, (name, card_name, *_) = job.run.store, names
    card, path = json.loads(store.read(card_name)), job.run.path / name
    if output is not None:
        path, card = output, {**card, "file": output.name}
        files.write_bytes(path, store.read(name))
        for kind, data in card_files(card).items():
            files.write_bytes(path.with_name(f"{path.name}.{kind}"), data)
    apart = card["differences"]
    return {
        "artifact": str(path),
        "state": "made" if due else "up to date",
        **asdict(choice),
        "bytes": card["bytes"],
        "sha256": card["sha256"]["file"],
        **{f"{output_name}_difference": apart[output_name] for output_name in card["outputs"]},
        "random_inputs": apart["random"],
        "test_inputs": apart["real"],
        "card": f"{path}.md",
    }
