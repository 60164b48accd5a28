"""`vbs download`: bring or make a dataset and prepare it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vbs_cli.data import DATASETS, SIMULATED, Prepared, open_dataset, prepare
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.progress import SILENT, Progress
from vbs_cli.settings import Settings


def download(
    data_dir: Path,
    dataset: str,
    *,
    simulate: bool = False,
    profile: str = "quick",
    seed: int = 0,
    force: bool = False,
    progress: Progress = SILENT,
) -> Prepared:
    """The prepared dataset, made unless it is there; another is never overwritten without `force`."""
    try:
        present = open_dataset(data_dir, dataset)
    except MissingArtifact:
        present = None
    if present is not None and not simulate and not force:
        return there(present, progress)
    preparation = DATASETS[dataset](simulate=simulate, profile=profile, seed=seed)
    if present is not None and not force:
        if present.recipe == preparation.recipe:
            return there(present, progress)
        raise InvalidInput(
            f"{present.folder} holds other data: {present.source}, {counts_of(present)} examples",
            hint=f"vbs download --dataset {dataset} --simulate --profile {profile} --force replaces it, --data names "
            "another folder",
        )
    with progress.task(f"preparing {dataset}", sum(preparation.counts.values())) as task:
        return prepare(data_dir, dataset, preparation, advance=task.advance)


def there(present: Prepared, progress: Progress) -> Prepared:
    progress.say(f"{present.folder}: {present.name} is there already")
    return present


def ensure_data(data_dir: Path, settings: Settings, *, progress: Progress = SILENT) -> Prepared:
    """Data to work with: what is there, unless it was simulated for another profile; simulated where there is none."""
    try:
        present = open_dataset(data_dir, settings.dataset)
    except MissingArtifact:
        present = None
    if present is not None and not present.source.startswith(SIMULATED):
        return there(present, progress)
    return download(data_dir, settings.dataset, simulate=True, profile=settings.profile, progress=progress)


def counts_of(data: Prepared) -> str:
    return " / ".join(f"{count:,}" for count in data.counts.values())


def describe(data: Prepared) -> dict[str, Any]:
    """One row about a prepared dataset."""
    return {
        "dataset": data.name,
        "source": data.source,
        **data.counts,
        "classes": data.classes,
        "shape": " x ".join(map(str, data.shape)),
        "bytes": data.size,
        "folder": str(data.folder),
    }
