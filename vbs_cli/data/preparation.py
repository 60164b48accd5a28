"""How a dataset is made: what the user asked for, the examples split by split, and the folder that they end in."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vbs_cli import files
from vbs_cli.data.base import DATASETS, SPLITS, Prepared, open_dataset
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.progress import SILENT, Progress


@dataclass(frozen=True)
class Request:
    """What the user asked `vbs download` for; what is left at its default was not asked for."""

    origin: Path | None = None  # files of the user's own, instead of the official ones
    simulate: bool = False
    profile: str = "quick"
    seed: int = 0  # of simulations and of splits that are drawn
    size: int | None = None  # pixels of an image's shorter side, to which it is resized
    crop: float | None = None  # pixels of an image's middle; seconds of a recording
    resample: bool = False  # recordings of another rate or with more channels
    skip_bad: bool = False  # leave out what cannot be read, and count it

    def given(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    def command(self, dataset: str) -> str:
        """The command line that asks for this."""
        words = ["vbs", "download", "--dataset", dataset]
        for name, value in self.given().items():
            words += [flag_of(name)] if value is True else [flag_of(name), str(value)]
        return shlex.join(words)


def flag_of(option: str) -> str:
    return "--from" if option == "origin" else f"--{option.replace('_', '-')}"


@dataclass(frozen=True)
class Workspace:
    """Where a dataset is brought and taken apart."""

    downloads: Path  # kept for the next time
    scratch: Path  # removed in the end
    progress: Progress = SILENT


SKIP_HINT = "--skip-bad leaves such files out and counts them"


@dataclass(frozen=True)
class Example:
    """A file with one input, its class, and what it is called."""

    path: Path
    label: int
    name: str


class Batch(NamedTuple):
    """Some neighbouring examples of a split."""

    x: Any  # inputs (b, *shape), or b recordings (samples,)
    y: Any  # labels (b,)
    ids: Sequence[str] = ()  # what they are called where they come from


@dataclass(frozen=True)
class Preparation:
    """A dataset that is ready to be read: what it comes from, and its examples split by split."""

    source: str
    licence: str
    class_names: tuple[str, ...]
    shape: tuple[int, ...]  # of one input
    counts: Mapping[str, int]  # of the examples that `batches` gives or, reading them, leaves out
    batches: Callable[[str], Iterable[Batch]]
    dtype: str = "float32"  # of the inputs on disk; whole numbers are scaled when they are read
    recordings: tuple[str, ...] = ()  # splits that are kept whole, to be cut anew in every epoch
    left_out: Counter[str] = field(default_factory=Counter)  # so far, by reason; grows while `batches` is read


def check_request(name: str, request: Request) -> None:
    """Refuse options that mean nothing to a dataset rather than passing them over."""
    dataset = DATASETS[name]
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
    """The user's own files by their content, wherever they lie."""
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
    """Write a dataset into a folder of its own and put that into place when it is complete."""
    folder = data_dir / f".{name}{files.TEMPORARY}"
    files.clear_folder(folder)
    seen: dict[bytes, str] = {}
    before = preparation.left_out.total()
    counts = {split: write_split(folder, split, preparation, seen, advance) for split in SPLITS}
    lost = sum(preparation.counts.values()) - sum(counts.values()) - (preparation.left_out.total() - before)
    if lost:
        raise VbsError(f"{lost} examples of {name} are neither there nor known to be left out")
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
    return open_dataset(data_dir, name)


def write_split(
    folder: Path, split: str, preparation: Preparation, seen: dict[bytes, str], advance: Callable[[int], None]
) -> int:
    """Write the arrays of a split batch by batch, so that they never have to fit in memory. Returns its length."""
    labels: list[int] = []
    lengths: list[int] = []
    ids: list[str] = []
    whole = split in preparation.recordings

    def inputs() -> Iterator[np.ndarray]:
        for batch in preparation.batches(split):
            if not preparation.recordings:  # windows may be alike, such as silence; files are compared by their readers
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
    """Every split has examples, and the training split has some of every class."""
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
    """The same example in two splits would make every score on the later one a lie."""
    for position, example in enumerate(x, start):
        content = hashlib.blake2b(np.ascontiguousarray(example).data, digest_size=16).digest()
        other = seen.setdefault(content, f"{split} {position}")
        if not other.startswith(f"{split} "):
            raise VbsError(
                f"example {other} and example {split} {position} are the same", hint="keep it in one split only"
            )
