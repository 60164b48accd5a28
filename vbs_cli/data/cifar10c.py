"""CIFAR-10-C: the test images of CIFAR-10 under 19 corruptions at five severities, as official files.

A test set for runs of CIFAR-10: nothing is trained on it. Each file has the five severities one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from vbs_cli.data import archives, cifar10, signals
from vbs_cli.data.base import BLOCK, DATASETS, SEVERITY, Dataset
from vbs_cli.data.preparation import Batch, Preparation, Request, Workspace, origin_recipe
from vbs_cli.errors import InvalidInput, VbsError

NAME = "cifar10-c"
COMMAND = f"vbs download --dataset {NAME} --from DIR"
RECORD = "https://zenodo.org/records/2535967"  # where its authors published it
PIXELS = (32, 32, 3)  # as the files have them
SEVERITIES = 5
LABELS = "labels"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# By families as the noises of vbs have them.
FAMILIES = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    "blur": (
        "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur", "pixelate", "jpeg_compression",
    ),
    "photometric": ("fog", "brightness", "contrast", "saturate"),
    "weather": ("snow", "frost", "spatter"),
    "geometric": ("elastic_transform",),
}  # fmt: skip
CORRUPTIONS = tuple(name for family in FAMILIES.values() for name in family)
AGAIN = f"get the files from {RECORD}"


def recipe(request: Request) -> dict[str, Any]:
    check_origin(request)
    return origin_recipe(request)


def check_origin(request: Request) -> Path:
    if request.origin is None:
        raise InvalidInput(f"{NAME} is read from its official files", hint=f"{AGAIN}, then {COMMAND}")
    return request.origin


@contextmanager
def opened(request: Request, work: Workspace) -> Iterator[Preparation]:
    origin = check_origin(request)
    with archives.opened(origin, work.scratch, progress=work.progress) as place:
        folder = folder_of(place)
        others = [path.name for path in sorted(folder.glob("*.npy")) if path.stem not in (*CORRUPTIONS, LABELS)]
        if others:
            work.progress.say(f"{NAME}: {', '.join(others)}: no file of {NAME}, not read")
        yield preparation(folder, origin.name)


def folder_of(place: Path) -> Path:
    """Folder that has the labels, which archives often wrap in another one."""
    found = sorted(place.rglob(f"{LABELS}.npy"))
    if len(found) != 1:
        there = f"{len(found)} files" if found else "no file"
        raise VbsError(f"{place} has {there} {LABELS}.npy", hint=f"give the folder of the official files; {AGAIN}")
    return found[0].parent


def preparation(folder: Path, origin: str) -> Preparation:
    """Preparation with a split for each corruption and severity: fog@0.6 is fog at severity 3 of 5."""
    paths = {name: path for name in CORRUPTIONS if (path := folder / f"{name}.npy").is_file()}
    if not paths:
        raise VbsError(f"{folder} has no file of a corruption, such as fog.npy", hint=AGAIN)
    y = read_labels(folder / f"{LABELS}.npy")
    for path in paths.values():
        check_images(load(path), len(y), path)
    count = len(y) // SEVERITIES
    places = {
        f"{spoken(name)}{SEVERITY}{(step + 1) / SEVERITIES:g}": (path, step * count)
        for name, path in paths.items()
        for step in range(SEVERITIES)
    }

    def batches(split: str) -> Iterator[Batch]:
        path, begin = places[split]
        x = load(path)
        for start in range(begin, begin + count, BLOCK):
            some = slice(start, min(start + BLOCK, begin + count))
            yield Batch(x[some].transpose(0, 3, 1, 2), y[some])

    return Preparation(
        source=f"CIFAR-10-C, {origin}",
        licence="see its record on Zenodo; cite Hendrycks and Dietterich (2019)",
        class_names=CLASSES,
        shape=cifar10.SHAPE,
        counts=dict.fromkeys(places, count),
        batches=batches,
        dtype="uint8",
    )


def spoken(name: str) -> str:
    """Name of a corruption as noises are named: gaussian_noise -> gaussian-noise."""
    return name.replace("_", "-")


def load(path: Path) -> np.ndarray:
    """Array in a .npy file, memory-mapped."""
    return signals.load(path)[path.stem]


def read_labels(path: Path) -> np.ndarray:
    """Labels of all severities (N,), the same for each of them."""
    y = load(path)
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise VbsError(f"{path} has {y.dtype} of shape {y.shape}", hint=f"it must be whole numbers (N,); {AGAIN}")
    if not len(y) or len(y) % SEVERITIES:
        raise VbsError(
            f"{path} has {len(y):,} labels", hint=f"their number must be a multiple of {SEVERITIES}; {AGAIN}"
        )
    if y.min() < 0 or y.max() >= len(CLASSES):
        wrong = y[(y < 0) | (y >= len(CLASSES))][0]
        raise VbsError(f"{path} has the label {wrong}", hint=f"labels are 0 to {len(CLASSES) - 1}; {AGAIN}")
    by_severity = y.reshape(SEVERITIES, -1)
    if (by_severity != by_severity[0]).any():
        raise VbsError(f"{path} has other labels for one severity than for another", hint=AGAIN)
    return np.array(y, np.int64)


def check_images(x: np.ndarray, count: int, path: Path) -> None:
    if x.dtype != np.uint8 or x.shape[1:] != PIXELS:
        hint = f"it must be uint8 of shape (N, {', '.join(map(str, PIXELS))}); {AGAIN}"
        raise VbsError(f"{path} has {x.dtype} of shape {x.shape}", hint=hint)
    if len(x) != count:
        raise VbsError(
            f"{path} has {len(x):,} images, {LABELS}.npy {count:,} labels", hint=f"give files of one set; {AGAIN}"
        )


DATASETS.register(NAME)(
    Dataset(
        summary="CIFAR-10's test images, corrupted",
        command=COMMAND,
        takes=frozenset({"origin"}),
        recipe=recipe,
        open=opened,
        scaling=DATASETS[cifar10.NAME].scaling,
        protocols={},
        inputs=(cifar10.SHAPE, len(CLASSES)),
        tests=cifar10.NAME,
        families={spoken(name): family for family, names in FAMILIES.items() for name in names},
    )
)
