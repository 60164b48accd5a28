"""Names and paths of the files in a run directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from vbs_cli.conditions import CLEAN as CLEAN

MANIFEST = "manifest.json"
SETTINGS = "run.toml"
DATASET = "dataset.json"  # description of the run's data, so that the run can be read without them
METHODS = "methods.json"
METRICS = "metrics.parquet"
RELIABILITY = "reliability.parquet"
INTERVALS = "intervals.parquet"
SHIFTS = "shifts.parquet"  # mean and worst over shifts
REPLICATES = "replicates.safetensors"  # bootstrap replicates that the intervals are taken from
PROXY = "proxy.parquet"
COVERAGE = "coverage.parquet"
EXAMPLES = "examples.parquet"
STUDY_METHODS = "studies/ensemble/methods.json"
STUDY_METRICS = "studies/ensemble/metrics.parquet"
STUDY_INTERVALS = "studies/ensemble/intervals.parquet"
STUDY_DISTRIBUTIONS = "studies/ensemble/distributions.parquet"
BENCH = "bench.parquet"
REPORT = "report.html"
TOGETHER = -1  # value of the seed column for what was made from all seeds


def second_test(name: str) -> str:
    """Path of the description of a second test set, so that the run can be read without it."""
    return f"second-tests/{name}.json"


def weights(seed: int, network: str) -> str:
    """Path of the weights of the last epoch."""
    return f"seed-{seed}/{network}.safetensors"


def best_weights(seed: int, network: str) -> str:
    """Path of the weights of the epoch with the lowest validation loss."""
    return f"seed-{seed}/{network}.best.safetensors"


def further(seed: int, network: str, name: str) -> str:
    """Path of further tensors that a network keeps at the end of its training."""
    return f"seed-{seed}/{network}.{name}.safetensors"


def board(seed: int, network: str) -> str:
    """Path of the folder with TensorBoard's events."""
    return f"tensorboard/seed-{seed}-{network}"


def checkpoint(seed: int, network: str) -> str:
    """Path of the checkpoint of an unfinished training."""
    return f"seed-{seed}/{network}.unfinished.safetensors"


def training(seed: int, network: str) -> str:
    """Path of the table with a row per epoch of a training."""
    return f"seed-{seed}/{network}.training.parquet"


def logits(seed: int, folder: str, split: str, noise: str = CLEAN, level: float = 0.0) -> str:
    """Path of the record of a pass, in the folder of its view."""
    noisy = f"{noise}-{level_label(level)}"
    name = split if noise == CLEAN else noisy if split == "test" else f"{split}-{noisy}"
    return f"logits/seed-{seed}/{folder}/{name}.safetensors"


def export(dataset: str, seed: int, method: str, suffix: str) -> str:
    """Path of an export: `export/radio-seed0.onnx`; if not of vbs, `export/radio-seed0-temperature.onnx`."""
    return f"export/{dataset}-seed{seed}{'' if method == 'vbs' else f'-{method}'}.{suffix}"


def figure(name: str, format: str, methods: Sequence[str] = ()) -> str:
    """Path of a figure: `figures/shift.svg`; if it shows some methods alone, `figures/shift.vbs+temperature.svg`."""
    return f"figures/{'.'.join([name, *filter(None, ['+'.join(methods)]), format])}"


def level_label(level: float) -> str:
    """Format a level with two digits, or more if it has more: 0.5 -> "0.50"."""
    return f"{level:.2f}" if round(level, 2) == level else f"{level:g}"


def find_run(runs_dir: Path, name: str | None = None) -> Path | None:
    """Folder of the named run, which may not exist, or of the run worked on last; None if there is no run."""
    if name is not None:
        return Path(name) if os.sep in name else runs_dir / name
    found = [settings.parent for settings in runs_dir.glob(f"*/{SETTINGS}")]
    return max(found, key=last_change) if found else None


def last_change(folder: Path) -> float:
    return max((folder / name).stat().st_mtime for name in (SETTINGS, MANIFEST) if (folder / name).is_file())
