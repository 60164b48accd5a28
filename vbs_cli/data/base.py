"""A prepared dataset: a folder with one array of inputs and one of labels per split, and `dataset.json`.

`dataset.json` is written last and holds the hash of every file, so half a dataset is never taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.errors import DamagedArtifact, MissingArtifact
from vbs_cli.registry import Registry

SIMULATED = "simulated"  # how the source of data begins that nobody measured
SPLITS = ("train", "val", "test")
# Inputs are walked in blocks of this many neighbours; random draws belong to a block, never to a batch.
BLOCK = 256


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs (N, C, *size), memory-mapped, and their labels (N,)."""

    dataset: str
    name: str
    x: np.ndarray
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def inputs(self, index: Any) -> Tensor:
        """Some inputs, copied into memory."""
        return torch.from_numpy(np.array(self.x[index], dtype=np.float32))

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        """All inputs in order: (number of the block, (b, C, *size))."""
        for number, start in enumerate(range(0, len(self), BLOCK)):
            yield number, self.inputs(slice(start, start + BLOCK))


@dataclass(frozen=True)
class Preparation:
    """How to make a dataset: what it comes from, and its examples split by split."""

    source: str
    licence: str
    recipe: Mapping[str, Any]  # all that the arrays depend on
    classes: int
    shape: tuple[int, ...]  # of one input
    counts: Mapping[str, int]
    batches: Callable[[str], Iterable[tuple[Tensor, Tensor]]]  # split -> inputs (b, *shape) and labels (b,)


@dataclass(frozen=True)
class Prepared:
    """A dataset on disk, as its `dataset.json` tells."""

    folder: Path
    name: str
    source: str
    licence: str
    recipe: Mapping[str, Any]
    classes: int
    shape: tuple[int, ...]
    counts: Mapping[str, int]
    files: Mapping[str, Mapping[str, Any]]  # name -> sha256, size

    @property
    def fingerprint(self) -> str:
        """Depends on the content and its source alone, not on where it lies."""
        return files.sha256_of_json(self.description())

    def description(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    @property
    def size(self) -> int:
        return sum(int(entry["size"]) for entry in self.files.values())

    def split(self, name: str) -> Split:
        """The inputs and labels of a split, after their hashes have been checked."""
        x, y = (self._array(f"{part}_{name}.npy") for part in ("x", "y"))
        return Split(dataset=self.name, name=name, x=x, y=torch.from_numpy(np.array(y)))

    def _array(self, name: str) -> np.ndarray:
        path = self.folder / name
        hint = f"vbs download --dataset {self.name} --force"
        if not path.is_file():
            raise MissingArtifact(f"{path} is missing", hint=hint)
        if files.sha256_of_file(path) != self.files[name]["sha256"]:
            raise DamagedArtifact(f"{path} is damaged: its hash is not the recorded one", hint=hint)
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


Preparer = Callable[..., Preparation]
DATASETS: Registry[Preparer] = Registry("dataset")


def open_dataset(data_dir: Path, name: str) -> Prepared:
    """A dataset that has been prepared before."""
    DATASETS[name]
    path = data_dir / name / "dataset.json"
    if not path.is_file():
        raise MissingArtifact(f"no {name} data in {data_dir}", hint=f"vbs download --dataset {name} --simulate")
    return described(files.read_json(path), path.parent)


def described(values: dict[str, Any], folder: Path) -> Prepared:
    """The inverse of `Prepared.description`."""
    try:
        return Prepared(folder=folder, **{**values, "shape": tuple(values["shape"])})
    except (KeyError, TypeError):
        raise DamagedArtifact(
            f"{folder / 'dataset.json'} is not one that vbs wrote", hint="vbs download --force makes it again"
        ) from None


def prepare(
    data_dir: Path, name: str, preparation: Preparation, *, advance: Callable[[int], None] = lambda count: None
) -> Prepared:
    """Write a dataset into a folder of its own and put that into place when it is complete."""
    folder = data_dir / f".{name}{files.TEMPORARY}"
    files.clear_folder(folder)
    for split in SPLITS:
        write_split(folder, split, preparation, advance)
    prepared = Prepared(
        folder=folder,
        name=name,
        source=preparation.source,
        licence=preparation.licence,
        recipe=preparation.recipe,
        classes=preparation.classes,
        shape=preparation.shape,
        counts=preparation.counts,
        files={
            path.name: {"sha256": files.sha256_of_file(path), "size": path.stat().st_size}
            for path in sorted(folder.iterdir())
        },
    )
    files.write_bytes(folder / "dataset.json", files.to_json(prepared.description()))
    files.replace_folder(folder, data_dir / name)
    return open_dataset(data_dir, name)


def write_split(folder: Path, split: str, preparation: Preparation, advance: Callable[[int], None]) -> None:
    """Write the two arrays of a split batch by batch, so that the inputs never have to fit in memory."""
    count = preparation.counts[split]
    labels: list[Tensor] = []

    def inputs() -> Iterator[np.ndarray]:
        for x, y in preparation.batches(split):
            labels.append(y)
            yield x.numpy().astype(np.float32, copy=False)
            advance(len(y))

    files.write_array(folder / f"x_{split}.npy", inputs(), shape=(count, *preparation.shape), dtype=np.float32)
    files.write_array(folder / f"y_{split}.npy", [torch.cat(labels).numpy()], shape=(count,), dtype=np.int64)
