"""Preparing a dataset: the user's request, the examples of each split, and the folder that they are written to."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vbs_cli import files
from vbs_cli.data.base import DATASETS, SPLITS, Prepared, open_folder
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.progress import SILENT, Progress
from vbs_cli.registry import unknown


@dataclass(frozen=True)
class Request:
    """Options that the user gave `vbs download`; those left at their defaults were not given."""

    origin: Path | None = None  # the user's own files, instead of the official ones
    simulate: bool = False
    profile: str = "quick"
    seed: int = 0  # for simulations and for splits that are drawn
    size: int | None = None  # pixels that an image's shorter side is resized to
    crop: float | None = None  # pixels of the square in an image's middle; seconds of a recording
    resample: bool = False  # convert recordings of another rate or with more channels
    skip_bad: bool = False  # leave out what cannot be read, and count it

    def given(self) -> dict[str, Any]:
        """Options that differ from their defaults."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    def command(self, dataset: str) -> str:
        """Command line that makes this request."""
        words = ["vbs", "download", "--dataset", dataset]
        for name, value in self.given().items():
            words += [flag_of(name)] if value is True else [flag_of(name), str(value)]
        return shlex.join(words)


def flag_of(option: str) -> str:
    return "--from" if option == "origin" else f"--{option.replace('_', '-')}"


@dataclass(frozen=True)
class Workspace:
    """Folders to download and unpack a dataset in."""

    downloads: Path  # kept for later commands
    scratch: Path  # removed at the end
    progress: Progress = SILENT


SKIP_HINT = "--skip-bad leaves such files out and counts them"


@dataclass(frozen=True)
class Example:
    """A file with one input, its class and its name."""

    path: Path
    label: int
    name: str


class Batch(NamedTuple):
    """Consecutive examples of a split."""

    x: Any  # inputs (b, *shape), or b recordings (samples,)
    y: Any  # labels (b,)
    ids: Sequence[str] = ()  # names in their source


@dataclass(frozen=True)
class Preparation:
    """A dataset that is ready to be read: its source, its classes and its examples by split."""

    source: str
    licence: str
    class_names: tuple[str, ...]
    shape: tuple[int, ...]  # of one input
    counts: Mapping[str, int]  # of the examples that `batches` yields or leaves out, by split
    batches: Callable[[str], Iterable[Batch]]
    dtype: str = "float32"  # of the inputs on disk; whole numbers are scaled when they are read
    recordings: tuple[str, ...] = ()  # splits of whole recordings, to be cut anew in every epoch
    left_out: Counter[str] = field(default_factory=Counter)  # so far, by reason; grows while `batches` is read


def check_request(name: str, request: Request) -> None:
    """Refuse options that a dataset does not take, rather than ignoring them."""
    dataset = DATASETS[name]
    if dataset.protocols and request.profile not in dataset.protocols:
        raise unknown("profile", request.profile, dataset.protocols)
    for option in request.given():
        if option not in dataset.takes:
            raise InvalidInput(f"{flag_of(option)} means nothing to {name}", hint=f"see {dataset.command}")
    if request.crop is not None and not 0 < request.crop < math.inf:
        raise InvalidInput(f"--crop is {request.crop}", hint="it must be above 0")
    if request.simulate and request.origin is not None:
        raise InvalidInput("--simulate and --from exclude each other", hint="leave one of them out")
    if request.origin is not None and not request.origin.exists():
        raise InvalidInput(f"there is nothing at {request.origin}", hint="--from takes a file or a folder")


NOTHING: Mapping[str, Any] = {}


def origin_recipe(request: Request) -> dict[str, Any]:
    """Recipe entry of the user's own files: a hash of their content."""
    assert request.origin is not None
    return {"origin": files.sha256_of_path(request.origin)}


def prepare(
    data_dir: Path,
    name: str,
    preparation: Preparation,
    *,
    recipe: Mapping[str, Any] = NOTHING,
    command: str = "",
    advance: Callable[[int], None] = lambda count: None,
) -> Prepared:
    """Write a dataset into a temporary folder and put it in place when it is complete."""
    folder = data_dir / f".{name}{files.TEMPORARY}"
    files.clear_folder(folder)
    seen: dict[bytes, str] = {}
    before = preparation.left_out.total()
    counts = {split: write_split(folder, split, preparation, seen, advance) for split in in_order(preparation.counts)}
    lost = sum(preparation.counts.values()) - sum(counts.values()) - (preparation.left_out.total() - before)
    if lost:
        raise VbsError(f"{lost} examples of {name} are missing and not counted as left out")
    prepared = Prepared(
        folder=folder,
        name=name,
        source=preparation.source,
        licence=preparation.licence,
        recipe=recipe,
        classes=len(preparation.class_names),
        shape=preparation.shape,
        counts=counts,
        files={
            path.name: {"sha256": files.sha256_of_file(path), "size": path.stat().st_size}
            for path in sorted(folder.iterdir())
        },
        class_names=preparation.class_names,
        left_out=dict(preparation.left_out),
        command=command,
    )
    files.write_bytes(folder / "dataset.json", files.to_json(prepared.description()))
    files.replace_folder(folder, data_dir / name)
    return open_folder(data_dir / name, hint=command)


def can_stay(present: Prepared, recipe: Mapping[str, Any], *, hint: str, progress: Progress = SILENT) -> bool:
    """Whether data that are there are those of a recipe, and undamaged; other data are refused with this hint."""
    if present.recipe != json.loads(json.dumps(recipe)):
        raise InvalidInput(
            f"{present.folder} holds other data: {present.source}, {present.examples} examples", hint=hint
        )
    damage = damage_of(present)
    there = f"{present.name} is there already ({present.source})"
    progress.say(f"{present.folder}: {f'{damage}; made again' if damage else there}")
    return not damage


def damage_of(data: Prepared) -> str:
    """Damage that the sizes of a dataset's files show, or ""; hashes are compared whenever files are read."""
    for name, entry in data.files.items():
        path = data.folder / name
        if not path.is_file() or path.stat().st_size != entry["size"]:
            return f"{name} is {'damaged' if path.is_file() else 'missing'}"
    return ""


def say_left_out(data: Prepared, progress: Progress) -> None:
    for reason, count in data.left_out.items():
        progress.say(f"{data.name}: left out {count:,} examples: {reason}")


def in_order(splits: Iterable[str]) -> list[str]:
    """Splits as they are named, but train, val and test first and in this order."""
    given = list(splits)
    usual = [split for split in SPLITS if split in given]
    return usual + [split for split in given if split not in usual]


def write_split(
    folder: Path, split: str, preparation: Preparation, seen: dict[bytes, str], advance: Callable[[int], None]
) -> int:
    """Write the arrays of a split batch by batch, so that they never have to fit in memory. Returns its length."""
    labels: list[int] = []
    lengths: list[int] = []
    ids: list[str] = []
    whole = split in preparation.recordings
    # Windows of recordings may be equal, such as silence: readers compare files instead. One image may be in many sets
    # that are for tests alone.
    comparable = "train" in preparation.counts and not preparation.recordings

    def inputs() -> Iterator[np.ndarray]:
        for batch in preparation.batches(split):
            if comparable:
                refuse_overlap(batch.x, split, len(labels), seen)
            labels.extend(map(int, batch.y))
            ids.extend(batch.ids)
            lengths.extend(map(len, batch.x) if whole else ())
            if len(batch.y):
                yield np.concatenate(batch.x) if whole else np.asarray(batch.x)
            advance(len(batch.y))

    def write(part: str, array: np.ndarray) -> None:
        files.write_array(folder / f"{part}_{split}.npy", [array], row=array.shape[1:], dtype="int64")

    row = () if whole else preparation.shape
    files.write_array(folder / f"x_{split}.npy", inputs(), row=row, dtype=preparation.dtype)
    write("y", np.array(labels, np.int64))
    check_labels(labels, split, preparation)
    if whole:
        length = np.array(lengths, np.int64)
        write("clips", np.stack([np.cumsum(length) - length, length, np.zeros_like(length)], 1))
    if ids:
        files.write_bytes(folder / f"ids_{split}.txt", "".join(f"{name}\n" for name in ids).encode())
    return len(labels)


def check_labels(y: Sequence[int], split: str, preparation: Preparation) -> None:
    """Refuse an empty split, and a training split that lacks a class."""
    if not y:
        raise VbsError(f"the {split} split is empty", hint="give it more examples")
    missing = sorted(set(range(len(preparation.class_names))) - set(y))
    if split == "train" and missing:
        names = ", ".join(preparation.class_names[i] for i in missing[:3])
        raise VbsError(
            f"{len(missing)} of {len(preparation.class_names)} classes have no training example ({names})",
            hint="add some, or leave the classes out",
        )


def refuse_overlap(x: Iterable[Any], split: str, start: int, seen: dict[bytes, str]) -> None:
    """Refuse an example that another split has too, as it would falsify every score on the later one."""
    for position, example in enumerate(x, start):
        content = hashlib.blake2b(np.ascontiguousarray(example).data, digest_size=16).digest()
        other = seen.setdefault(content, f"{split} {position}")
        if not other.startswith(f"{split} "):
            raise VbsError(
                f"example {other} and example {split} {position} are the same", hint="keep it in one split only"
            )
