"""Arrays of the user's own: inputs `x` and labels `y` in .npz, .safetensors or .npy files."""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vbs_cli.data import splits
from vbs_cli.data.base import FULL_SCALE, SPLITS
from vbs_cli.data.preparation import Batch
from vbs_cli.errors import NotFinite, VbsError

SUFFIXES = frozenset({".npz", ".safetensors", ".npy"})
LAYOUT = "give x and y in one .npz or .safetensors, or train and test ones, or x_train.npy, y_train.npy, ..."
# Name of an array in a file, or of its file: x, X_train, y_val, ...
NAME = re.compile(r"([xy])(?:_(train|val|valid|validation|test))?", re.IGNORECASE)
BATCH_BYTES = 1 << 24
NOT_FINITE = "not finite"
# What a reader of arrays raises when a file is broken.
BROKEN = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError)


@dataclass(frozen=True)
class ArrayPart:
    """Inputs (N, C, *size), which may lie on disk, and the labels (N,) as they were given."""

    x: np.ndarray
    y: np.ndarray
    dtype: str  # that inputs are stored in

    def inputs(self, index: Any) -> np.ndarray:
        with np.errstate(over="ignore"):  # what becomes infinite is found by `without_flaws`
            return np.ascontiguousarray(self.x[index], dtype=self.dtype)

    def chunks(self, places: np.ndarray) -> Iterator[np.ndarray]:
        """Consecutive pieces of `places` whose inputs take little memory."""
        step = max(1, BATCH_BYTES // (int(np.prod(self.x.shape[1:])) * 4))
        for start in range(0, len(places), step):
            yield places[start : start + step]


@dataclass(frozen=True)
class Signals:
    """Arrays of all parts, their labels as class numbers, and the examples that are kept."""

    parts: dict[str, ArrayPart]
    labels: dict[str, np.ndarray]  # (N,) of 0 ... K-1, by part
    classes: tuple[str, ...]
    kept: dict[str, np.ndarray]  # positions of the examples that are not left out, by part

    @property
    def shape(self) -> tuple[int, ...]:
        return next(iter(self.parts.values())).x.shape[1:]

    @property
    def dtype(self) -> str:
        return next(iter(self.parts.values())).dtype

    def kept_labels(self) -> dict[str, np.ndarray]:
        return {name: self.labels[name][places] for name, places in self.kept.items()}

    def batches(self, name: str, index: np.ndarray) -> Iterator[Batch]:
        """Batches of a part's examples, given by their positions among those that are kept."""
        part = self.parts[name]
        for some in part.chunks(self.kept[name][index]):
            yield Batch(part.inputs(some), self.labels[name][some], [f"{name}-{place:05d}" for place in some])


def find(folder: Path, left_out: Counter[str], *, skip_bad: bool) -> Signals:
    """Read the arrays in a file or a folder. Examples not finite, or in two splits, are refused or left out."""
    arrays = named_arrays(folder)
    names = sorted({name for _, name in arrays}, key=[splits.ALL, *SPLITS].index)
    if not names:
        raise VbsError(f"{folder} has no arrays called x and y", hint=LAYOUT)
    if names != [splits.ALL] and not {"train", "test"} <= set(names) <= set(SPLITS):
        raise VbsError(f"{folder} has arrays for {' and '.join(names)}", hint=LAYOUT)
    parts = {name: make_part(arrays, name) for name in names}
    check_alike(parts)
    labels, classes = numbered({name: part.y for name, part in parts.items()})
    kept = without_flaws(parts, left_out, skip_bad=skip_bad)
    return Signals(parts, labels, classes, without_copies(parts, kept, left_out, skip_bad=skip_bad))


def named_arrays(folder: Path) -> dict[tuple[str, str], tuple[Path, np.ndarray]]:
    """Arrays and their paths, keyed by kind (x or y) and part."""
    folder = splits.entered(folder, SUFFIXES) if folder.is_dir() else folder
    paths = splits.usable(folder, SUFFIXES, deep=False) if folder.is_dir() else [folder]
    found: dict[tuple[str, str], tuple[Path, np.ndarray]] = {}
    for path in paths:
        own = splits.FOLDERS.get(path.stem.lower(), splits.ALL) if len(paths) > 1 else splits.ALL
        for name, array in load(path).items():
            match = NAME.fullmatch(name)
            if match is None:
                continue
            key = match[1].lower(), splits.FOLDERS[match[2].lower()] if match[2] else own
            if key in found:
                raise VbsError(f"{found[key][0]} and {path} both hold {name}", hint=LAYOUT)
            found[key] = path, array
    return found


def load(path: Path) -> Mapping[str, np.ndarray]:
    """Arrays of a file by name. Nothing is ever unpickled."""
    try:
        if path.suffix.lower() == ".safetensors":
            return load_safetensors(path)
        if path.suffix.lower() == ".npy":
            return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False)}
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if NAME.fullmatch(name)}
    except BROKEN as error:
        pickled = "allow_pickle" in str(error) or "Python objects" in str(error)
        reason = "it holds Python objects, which are not loaded" if pickled else f"damaged: {error}"
        raise VbsError(f"{path} cannot be read: {reason}", hint="save plain numbers, as numpy.savez does") from None


def load_safetensors(path: Path) -> dict[str, np.ndarray]:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = {name: tensor for name, tensor in load_file(path).items() if NAME.fullmatch(name)}
    except SafetensorError as error:
        raise ValueError(error) from None
    return {n: (t.float() if t.dtype == torch.bfloat16 else t).numpy() for n, t in tensors.items()}


def make_part(arrays: Mapping[tuple[str, str], tuple[Path, np.ndarray]], name: str) -> ArrayPart:
    for kind in ("x", "y"):
        if (kind, name) not in arrays:
            other = arrays["y" if kind == "x" else "x", name][0]
            raise VbsError(f"there is no {kind} that belongs to {other}", hint=LAYOUT)
    (path, x), (_, y) = arrays["x", name], arrays["y", name]
    dtype = stored_as(x.dtype, path)
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise VbsError(f"x in {path} has shape {x.shape}", hint="give (N, L), (N, C, L) or (N, C, H, W)")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != (len(x),):
        raise VbsError(f"{path} has {len(x):,} inputs and labels of shape {y.shape}", hint="give one label for each")
    return ArrayPart(x[:, None] if x.ndim == 2 else x, np.array(y), dtype)


def stored_as(dtype: np.dtype, path: Path) -> str:
    """Type that inputs are stored in: pixels and samples keep theirs, other numbers become float32."""
    if dtype.newbyteorder("=") in FULL_SCALE:
        return dtype.newbyteorder("=").name
    if dtype.kind in "fb":
        return "float32"
    hint = "save x as float32, or as uint8, int8, int16 or int32 of their full range"
    if dtype.kind == "c":
        hint = "save the real and the imaginary part as two channels"
    raise VbsError(f"x in {path} has the type {dtype}, whose scale is not known", hint=hint)


def check_alike(parts: Mapping[str, ArrayPart]) -> None:
    (first, one), *rest = parts.items()
    for name, part in rest:
        if (part.x.shape[1:], part.dtype) != (one.x.shape[1:], one.dtype):
            raise VbsError(
                f"{first} has {one.dtype} inputs of shape {one.x.shape[1:]}, {name} {part.dtype} of {part.x.shape[1:]}",
                hint="make them alike",
            )


def numbered(given: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Labels of any values as 0 ... K-1, in the sorted order of the training labels, and the class names."""
    for part, y in given.items():
        if y.dtype.kind not in "biuUS":
            raise VbsError(f"the labels of {part} have the type {y.dtype}", hint="give whole numbers or names")
    if len({"n" if y.dtype.kind in "biu" else y.dtype.kind for y in given.values()}) > 1:
        raise VbsError("labels are numbers in one split and names in another", hint="give one kind only")
    first, *rest = given
    values = np.unique(given[first])
    for part in rest:
        unknown = np.setdiff1d(given[part], values)
        if len(unknown):
            raise VbsError(f"{part} has the label {unknown[0]!s}, which {first} has not", hint="add it, or remove it")
    if len(values) < 2:
        raise VbsError(f"there is one class only, {values[0]!s}", hint="give examples of two at least")
    names = (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values)
    return {part: np.searchsorted(values, y) for part, y in given.items()}, tuple(map(splits.printable, names))


def without_flaws(parts: Mapping[str, ArrayPart], left_out: Counter[str], *, skip_bad: bool) -> dict[str, np.ndarray]:
    """Positions of the finite examples by part; others are refused or left out."""
    kept = {}
    for name, part in parts.items():
        every = np.arange(len(part.y))
        good = np.ones(len(every), bool)
        for some in part.chunks(every) if part.dtype == "float32" else ():
            good[some] = np.isfinite(part.inputs(some)).reshape(len(some), -1).all(1)
        count = int((~good).sum())
        if count and not skip_bad:
            raise NotFinite(
                f"{count:,} of {len(good):,} examples of {name} hold NaN or infinity, number {good.argmin()} first",
                hint="mend them, or --skip-bad leaves them out and counts them",
            )
        if count:
            left_out[NOT_FINITE] += count
        kept[name] = every[good]
    return kept


def without_copies(
    parts: Mapping[str, ArrayPart], kept: Mapping[str, np.ndarray], left_out: Counter[str], *, skip_bad: bool
) -> dict[str, np.ndarray]:
    """Positions without those of examples that could be in two splits, which are refused or left out."""
    keys = {
        name: [
            hashlib.blake2b(row.data, digest_size=16).digest()
            for some in parts[name].chunks(places)
            for row in parts[name].inputs(some)
        ]
        for name, places in kept.items()
    }
    first = splits.copies(keys)
    splits.settle(first, lambda name, place: f"example {name} {kept[name][place]}", left_out, skip_bad=skip_bad)
    return {name: places[[(name, i) not in first for i in range(len(places))]] for name, places in kept.items()}
