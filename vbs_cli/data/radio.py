"""Radio fingerprinting: which transmitter sent this window of 2 x 2080 IQ samples?

Read from the authors' captures of 20 devices or from other captures in such files, or simulated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vbs_cli.data import archives, fetch, radio_sim
from vbs_cli.data.base import BLOCK, DATASETS, SIMULATED, SPLITS, Dataset
from vbs_cli.data.preparation import Batch, Preparation, Request, Workspace, origin_recipe
from vbs_cli.errors import InvalidInput, NotFinite, VbsError
from vbs_cli.settings import PAPER

NAME = "radio"
COMMAND = f"vbs download --dataset {NAME}"
CLASSES = 20
SIMULATOR = 1  # raised when the simulator makes other data from the same seed
DROPPED = 500  # samples of the turn-on transient, which the paper leaves out
SIZES = {
    "quick": {"train": 6_000, "val": 1_500, "test": 3_000},
    "paper": {"train": 70_000, "val": 9_900, "test": 20_100},
}
DRIVE = "14_K8s2uzS8qTCoZv9reSJ9M3M2GNAeVm"  # the authors' folder on Google Drive
FILES = {split: (f"X_{split}.pth", f"y_{split}.pth") for split in SPLITS}


def recipe(request: Request) -> dict[str, Any]:
    if request.simulate:
        counts = SIZES[request.profile]
        return {"simulator": SIMULATOR, "seed": request.seed, "dropped": DROPPED, "counts": counts}
    for option in ("profile", "seed"):
        if option in request.given():
            raise InvalidInput(f"--{option} means nothing to captures", hint=f"{COMMAND} --simulate takes it")
    origin = {"drive": DRIVE} if request.origin is None else origin_recipe(request)
    return {**origin, "dropped": DROPPED}


@contextmanager
def opened(request: Request, work: Workspace) -> Iterator[Preparation]:
    if request.simulate:
        yield simulated(request)
        return
    origin, source = request.origin, f"captures, {request.origin.name if request.origin else ''}"
    if origin is None:
        names = [name for pair in FILES.values() for name in pair]
        hint = f"{COMMAND} --from DIR, or {COMMAND} --simulate"
        origin = fetch.fetch_drive_folder(DRIVE, names, work.downloads / NAME, origin_hint=hint, progress=work.progress)
        source = "captures of the paper's authors"
    with archives.opened(origin, work.scratch, progress=work.progress) as folder:
        found = sorted(folder.rglob(FILES["train"][0]))  # archives often hold a folder
        yield captured(found[0].parent if found else folder, source)


def simulated(request: Request) -> Preparation:
    counts = SIZES[request.profile]

    def batches(split: str) -> Iterator[Batch]:
        for x, y in radio_sim.batches(split, counts[split], seed=request.seed, classes=CLASSES):
            yield Batch(scale(x[:, :, DROPPED:]), y)

    return Preparation(
        source=f"{SIMULATED} (vbs radio simulator, seed {request.seed})",
        licence="none needed: made by vbs",
        class_names=tuple(f"transmitter {i}" for i in range(CLASSES)),
        shape=(2, radio_sim.SAMPLES - DROPPED),
        counts=counts,
        batches=batches,
    )


def captured(folder: Path, source: str) -> Preparation:
    """Preparation from files like the authors': X (N, 2, samples) of any numeric type, y (N,) of any whole numbers."""
    x = {split: load(folder / FILES[split][0]) for split in SPLITS}
    y = {split: load(folder / FILES[split][1]) for split in SPLITS}
    for split in SPLITS:
        check_shapes(x[split], y[split], x["train"].shape[-1], folder / FILES[split][0])
    devices = torch.unique(y["train"]).tolist()
    labels = {split: positions(y[split], devices, folder / FILES[split][1]) for split in SPLITS}

    def batches(split: str) -> Iterator[Batch]:
        return windows(x[split], labels[split], folder / FILES[split][0])

    return Preparation(
        source=source,
        licence="unknown; ask those who recorded them",
        class_names=tuple(str(int(device)) for device in devices),
        shape=(2, x["train"].shape[-1] - DROPPED),
        counts={split: len(x[split]) for split in SPLITS},
        batches=batches,
    )


def windows(x: Tensor, labels: Tensor, path: Path) -> Iterator[Batch]:
    """Batches of captured windows as a network sees them: without the turn-on transient, each scaled on its own."""
    for start in range(0, len(x), BLOCK):
        window = x[start : start + BLOCK, :, DROPPED:].float()
        check_finite(window, start, path)
        yield Batch(scale(window), labels[start : start + BLOCK])


def load(path: Path) -> Tensor:
    """Load the tensor in a .pth file, memory-mapped where the file allows it. No code in it is ever run."""
    if not path.is_file():
        names = ", ".join(name for pair in FILES.values() for name in pair)
        raise VbsError(f"{path} is missing", hint=f"--from takes a folder with {names}")
    for mmap in (True, False):  # files of old versions of torch cannot be mapped
        try:
            with warnings.catch_warnings(action="ignore"):
                found = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            continue
        if isinstance(found, Tensor):
            return found
        reason = f"it holds a {type(found).__name__}"
    raise VbsError(f"{path} is not a tensor that can be read safely: {reason}", hint="write it with torch.save(tensor)")


def check_shapes(x: Tensor, y: Tensor, samples: int, path: Path) -> None:
    if x.ndim != 3 or x.shape[1] != 2 or x.is_complex() or not DROPPED < x.shape[2] == samples:
        raise VbsError(
            f"{path} has {x.dtype} of shape {tuple(x.shape)}",
            hint=f"it must be (windows, 2, samples), real, of more than {DROPPED} samples, as many as in training",
        )
    if y.shape != (len(x),):
        raise VbsError(f"{path} has {len(x)} windows and labels of shape {tuple(y.shape)}", hint="one label a window")


def positions(y: Tensor, devices: list[float], path: Path) -> Tensor:
    """Map labels of any whole numbers to classes 0 to K - 1."""
    classes = torch.searchsorted(torch.tensor(devices).double(), y.double()).clamp(max=len(devices) - 1)
    unknown = y[torch.tensor(devices)[classes] != y]
    if len(unknown):
        raise VbsError(f"{path} has a device {unknown[0].item()} that training lacks", hint="leave its windows out")
    return classes


def check_finite(window: Tensor, start: int, path: Path) -> None:
    bad = ~torch.isfinite(window).all(2).all(1)
    if bad.any():
        first = start + int(bad.nonzero()[0])
        raise NotFinite(f"{path} has NaN or infinite samples, first in window {first}", hint="leave such windows out")


def scale(x: Tensor) -> Tensor:
    """Scale each example to [-1, 1] by its own minimum and maximum over both channels: (B, C, L) -> (B, C, L)."""
    low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
    return 2 * (x - low) / (high - low).clamp(min=1e-12) - 1


PROTOCOL = replace(PAPER, dataset=NAME, model="conv1d-radio", kernel=10)
# Training both networks of a seed takes a minute on two CPU cores: 44 times fewer steps than in the paper, which a
# higher learning rate makes up for.
QUICK = replace(PROTOCOL, profile="quick", seeds=3, width=32, epochs=8, lr=3e-3, levels=5)

DATASETS.register(NAME)(
    Dataset(
        summary="20 radio transmitters",
        command=f"{COMMAND} --simulate",
        takes=frozenset({"origin", "simulate", "profile", "seed"}),
        recipe=recipe,
        open=opened,
        scaling=f"I and Q samples of a window, the first {DROPPED} dropped; each window on its own to [-1, 1] by its "
        "minimum and maximum over both channels",
        protocols={each.profile: each for each in (PROTOCOL, QUICK)},
        inputs=((2, 1_580), CLASSES),
    )
)
