"""A prepared dataset: a folder with the inputs and labels of each split, and `dataset.json`.

`dataset.json` is written last and holds the hash of every file, so half a dataset is never taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vbs_cli import files
from vbs_cli.errors import DamagedArtifact, MissingArtifact
from vbs_cli.registry import Registry
from vbs_cli.settings import Settings

if TYPE_CHECKING:
    from vbs_cli.data.preparation import Preparation, Request, Workspace

SIMULATED = "simulated"  # prefix of the source of data that were not measured
SPLITS = ("train", "val", "test")
SEVERITY = "@"  # between a corruption and its level in the name of a test split: fog@0.6
# Inputs are processed in blocks of this many neighbours; random draws belong to a block, never to a batch.
BLOCK = 256
# Divisors that turn whole numbers into inputs: pixels lie in [0, 1], sound and radio samples in [-1, 1).
FULL_SCALE = {np.dtype("u1"): 255.0, np.dtype("i1"): 2.0**7, np.dtype("i2"): 2.0**15, np.dtype("i4"): 2.0**31}


@dataclass(frozen=True, eq=False)
class Clips:
    """One window of each of N concatenated recordings, indexed like an array (N, 1, crop)."""

    samples: np.ndarray  # of all recordings, one after another
    first: np.ndarray  # (N,), position of each recording's first sample
    length: np.ndarray  # (N,), samples of each recording
    start: np.ndarray  # (N,), position of each window within its recording
    crop: int

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.first), 1, self.crop

    def __getitem__(self, index: Any) -> np.ndarray:
        begins = self.first[index] + self.start[index]
        return np.stack([self.samples[begin : begin + self.crop] for begin in begins])[:, None]

    def redrawn(self, rng: torch.Generator) -> Clips:
        """New random windows of the same recordings, uniform over their positions."""
        place = torch.rand(len(self.first), generator=rng, dtype=torch.float64).numpy()
        return replace(self, start=(place * (self.length - self.crop + 1)).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs (N, C, *size), memory-mapped, and their labels (N,)."""

    dataset: str
    name: str
    x: np.ndarray | Clips
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input, (C, *size)."""
        return tuple(self.x.shape[1:])

    def inputs(self, index: Any) -> Tensor:
        """Some inputs, scaled and copied into memory as float32."""
        raw = np.array(self.x[index])
        values = torch.from_numpy(raw).float()
        return values.div_(FULL_SCALE[raw.dtype]) if raw.dtype in FULL_SCALE else values

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        """Pairs of block number and inputs (b, C, *size), in order."""
        for number, start in enumerate(range(0, len(self), BLOCK)):
            yield number, self.inputs(slice(start, start + BLOCK))

    def redrawn(self, rng: torch.Generator) -> Split:
        """Split with new random windows, if its inputs are windows of recordings; else the split itself."""
        return replace(self, x=self.x.redrawn(rng)) if isinstance(self.x, Clips) else self


@dataclass(frozen=True)
class Prepared:
    """A dataset on disk, as its `dataset.json` describes it."""

    folder: Path
    name: str
    source: str
    licence: str
    recipe: Mapping[str, Any]
    classes: int
    shape: tuple[int, ...]
    counts: Mapping[str, int]
    files: Mapping[str, Mapping[str, Any]]  # name -> sha256, size
    class_names: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> number of examples
    command: str = ""  # command line that makes it again

    @property
    def fingerprint(self) -> str:
        """Hash of content and source, independent of the folder that the dataset is in."""
        return files.sha256_of_json({name: value for name, value in self.description().items() if name != "command"})

    def description(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    @property
    def examples(self) -> str:
        """Examples of each split in words: `40,000 / 10,000 / 10,000`, `19 corruptions x 5 x 10,000`."""
        corruptions = {split.partition(SEVERITY)[0] for split in self.counts if SEVERITY in split}
        if not corruptions:
            return " / ".join(f"{count:,}" for count in self.counts.values())
        each = " to ".join(f"{count:,}" for count in sorted({min(self.counts.values()), max(self.counts.values())}))
        return f"{len(corruptions)} corruptions x {len(self.counts) / len(corruptions):g} x {each}"

    @property
    def size(self) -> int:
        return sum(int(entry["size"]) for entry in self.files.values())

    def split(self, name: str) -> Split:
        """The inputs and labels of a split, after their hashes have been checked."""
        x, y = (self._array(f"{part}_{name}.npy") for part in ("x", "y"))
        inputs: np.ndarray | Clips = x
        if f"clips_{name}.npy" in self.files:
            first, length, start = np.array(self._array(f"clips_{name}.npy")).T
            inputs = Clips(x, first, length, start, crop=self.shape[-1])
        return Split(dataset=self.name, name=name, x=inputs, y=torch.from_numpy(np.array(y)))

    def ids(self, name: str) -> list[str]:
        """Names of a split's examples in their source, or an empty list if they have none."""
        file = f"ids_{name}.txt"
        return self._checked(file).read_text(encoding="utf-8").splitlines() if file in self.files else []

    def _array(self, name: str) -> np.ndarray:
        array: np.ndarray = np.load(self._checked(name), mmap_mode="r", allow_pickle=False)
        return array

    def _checked(self, name: str) -> Path:
        path = self.folder / name
        hint = f"{self.command or f'vbs download --dataset {self.name}'} --force"
        if not path.is_file():
            raise MissingArtifact(f"{path} is missing", hint=hint)
        if files.sha256_of_file(path) != self.files[name]["sha256"]:
            raise DamagedArtifact(f"{path} is damaged: its hash is not the recorded one", hint=hint)
        return path


@dataclass(frozen=True)
class Dataset:
    """A dataset that `vbs download` can make, and how."""

    summary: str
    command: str  # shortest command line that makes it
    takes: frozenset[str]  # fields of a request that apply to it
    recipe: Callable[[Request], dict[str, Any]]  # all that the arrays depend on, without making them
    open: Callable[[Request, Workspace], AbstractContextManager[Preparation]]
    scaling: str  # how inputs are scaled, for users who run a network elsewhere
    protocols: Mapping[str, Settings]  # settings by profile: the paper's, and quick ones for two CPU cores
    inputs: tuple[tuple[int, ...], int]  # shape of an input and number of classes in the protocol
    download: int = 0  # bytes to download
    tests: str = ""  # dataset whose runs these data are test sets for, if nothing can be trained on them
    families: Mapping[str, str] = field(default_factory=dict)  # of the corruptions of such test sets


DATASETS: Registry[Dataset] = Registry("dataset")


def open_dataset(data_dir: Path, name: str) -> Prepared:
    """Open a dataset that has been prepared before."""
    return open_folder(data_dir / name, hint=DATASETS[name].command)


def open_folder(folder: Path, *, hint: str) -> Prepared:
    """Open the dataset in a folder; if there is none, `hint` names the command that makes it."""
    path = folder / "dataset.json"
    if not path.is_file():
        raise MissingArtifact(f"no {folder.name} data in {folder.parent}", hint=hint)
    return described(files.read_json(path), folder)


def described(values: dict[str, Any], folder: Path) -> Prepared:
    """Dataset with the values of its `dataset.json`; the inverse of `Prepared.description`."""
    try:
        tuples = {name: tuple(values.get(name, ())) for name in ("shape", "class_names")}
        return Prepared(folder=folder, **{**values, **tuples})
    except (KeyError, TypeError):
        raise DamagedArtifact(
            f"{folder / 'dataset.json'} is not one that vbs wrote", hint="vbs download --force makes it again"
        ) from None
