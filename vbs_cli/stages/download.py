"""`vbs download`: fetch or simulate a dataset and prepare it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vbs_cli import files
from vbs_cli.data import DATASETS, SIMULATED, SPLITS, Prepared, Request, Workspace, check_request, open_dataset, prepare
from vbs_cli.data.preparation import can_stay, say_left_out
from vbs_cli.errors import MissingArtifact
from vbs_cli.locks import locked
from vbs_cli.progress import SILENT, Progress
from vbs_cli.settings import Settings

DOWNLOADS = "downloads"  # folder of fetched files, kept so that they need not be fetched again


def download(
    data_dir: Path, dataset: str, request: Request, *, force: bool = False, progress: Progress = SILENT
) -> Prepared:
    """Prepared dataset, made unless it is there already; other data are never overwritten without `force`."""
    check_request(dataset, request)
    wanted = DATASETS[dataset].recipe(request)
    with locked(data_dir, name=f".{dataset}.lock", hint="wait for it or name another folder with --data"):
        present = None if force else find(data_dir, dataset)
        hint = f"{request.command(dataset)} --force replaces it, --data names another folder"
        if present is not None and can_stay(present, wanted, hint=hint, progress=progress):
            return present
        return make(data_dir, dataset, request, wanted, progress)


def make(data_dir: Path, dataset: str, request: Request, recipe: dict[str, Any], progress: Progress) -> Prepared:
    """Fetch or simulate a dataset and prepare it, telling the user what was left out."""
    work = Workspace(data_dir / DOWNLOADS, data_dir / f".{dataset}.source{files.TEMPORARY}", progress)
    with DATASETS[dataset].open(request, work) as preparation:
        count = sum(preparation.counts.values())
        with progress.task(f"preparing {dataset}", count) as task:
            made = prepare(
                data_dir,
                dataset,
                preparation,
                recipe=recipe,
                command=request.command(dataset),
                advance=task.advance,
            )
            task.note(f"{made.examples} examples of {made.classes} classes")
    say_left_out(made, progress)
    return made


def find(data_dir: Path, dataset: str) -> Prepared | None:
    try:
        return open_dataset(data_dir, dataset)
    except MissingArtifact:
        return None


def ensure_data(data_dir: Path, settings: Settings, *, progress: Progress = SILENT) -> Prepared:
    """Prepared dataset of the settings, simulated if there is none and it can be.

    Data that were simulated for another profile are an error.
    """
    present = find(data_dir, settings.dataset)
    if present is not None and not present.source.startswith(SIMULATED):
        progress.say(f"{present.folder}: {present.name} is there already ({present.source})")
        return present
    if "simulate" not in DATASETS[settings.dataset].takes:
        return open_dataset(data_dir, settings.dataset)
    return download(data_dir, settings.dataset, Request(simulate=True, profile=settings.profile), progress=progress)


def list_datasets(data_dir: Path) -> list[dict[str, Any]]:
    """One row for every known dataset: what it is, and what is prepared of it."""
    rows = []
    for name, dataset in DATASETS.items():
        present = find(data_dir, name)
        rows.append(
            {
                "dataset": name,
                "what": dataset.summary,
                "prepared": present.source if present else None,
                "examples": present.examples if present else None,
                "bytes": present.size if present else None,
                "download_bytes": dataset.download or None,
                "command": dataset.command,
            }
        )
    return rows


def describe(data: Prepared) -> dict[str, Any]:
    """One row about a prepared dataset, with a column for each split unless there are many."""
    many = len(data.counts) > len(SPLITS)
    return {
        "dataset": data.name,
        "source": data.source,
        **({"examples": data.examples} if many else data.counts),
        "left_out": sum(data.left_out.values()),
        "classes": data.classes,
        "shape": " x ".join(map(str, data.shape)),
        "bytes": data.size,
        "folder": str(data.folder),
    }
