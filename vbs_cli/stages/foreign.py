"""`vbs calibrate --model NAME --weights FILE`: a run of a network that was trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vbs_cli import files
from vbs_cli.artifacts import training
from vbs_cli.artifacts.job import Job
from vbs_cli.data import Request
from vbs_cli.errors import InvalidInput
from vbs_cli.models.base import COLON, is_foreign
from vbs_cli.models.foreign import load_weights, read_weights
from vbs_cli.progress import Progress
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.stages.download import download

METHODS = ("conventional", "temperature", "vbs", "naive")  # methods that need one network and one pass
SEED, NETWORK = 0, "conventional"  # seed and network that the weights are stored as
DATASET = "folder"  # dataset of the user's own files, unless another is named


def settings_of(model: str | None, weights: Path) -> dict[str, Any]:
    """Settings of the run in addition to those that the user gives."""
    if model is None or not is_foreign(model):
        hint = "for instance --model torchvision:resnet50 or --model my_module:build"
        raise InvalidInput(f"--weights need the network that they belong to, not {model}", hint=hint)
    read_weights(weights)
    return {"model": model, "weights": files.sha256_of_file(weights), "seeds": 1}


def run_name(model: str) -> str:
    return model.rpartition(COLON)[2]


def data_folder(given: Path, usual: Path, dataset: str, progress: Progress) -> Path:
    """Folder of the prepared data; a folder of the user's own files is prepared first."""
    if dataset != DATASET or (given / dataset / "dataset.json").is_file() or not given.is_dir():
        return given
    if given.resolve() == usual.resolve():
        return given
    download(usual, DATASET, Request(origin=given), progress=progress)
    return usual


def adopt(job: Job, weights: Path) -> None:
    """Write the weights into the run, as the artifact that a training would have made."""
    job.run.store.write_if_changed(layout.DATASET, files.to_json(job.data.description()), Recipe("download", {}))
    recipe = training.recipe(job, SEED, NETWORK)
    [name] = training.artifact_names(job, SEED, NETWORK)
    if job.force or not job.run.store.is_current(name, recipe):
        model = training.untrained(job, NETWORK)
        load_weights(model, read_weights(weights), path=weights, name=job.run.settings.model)
        job.run.store.write(name, formats.tensors_bytes(model.state_dict()), recipe)
