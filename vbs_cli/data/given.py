"""Logits given by the user: `logits`, `patches` or `members`, and `labels`, in .npz, .safetensors or parquet files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from safetensors import SafetensorError

from vbs_cli.data.shifted import PLAIN, RESERVED
from vbs_cli.data.signals import BROKEN
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.logits import Logits
from vbs_cli.registry import unknown
from vbs_cli.settings import GIVEN, PAPER

DATASET = "arrays"  # their name in place of a dataset's
# There is nothing to train and nothing to put noise on.
PROTOCOL = replace(PAPER, dataset=DATASET, model=GIVEN, seeds=1, width=192, epochs=250, batch=128, noises=())
PROTOCOLS = {"paper": PROTOCOL, "quick": replace(PROTOCOL, profile="quick")}
LABELS = "labels"
AT = "@"  # between the name of a condition and its level
# Axes of each kind: N examples, K classes, T or H x W patches of an example, M members, each with all examples.
KINDS = {"logits": "(N, K)", "patches": "(N, K, T) or (N, K, H, W)", "members": "(M, N, K)"}
NAMING = "write NAME=FILE or NAME@LEVEL=FILE, such as phone=phone.npz or gaussian@0.5=noisy.npz"
# The diagnosis has findings on the validation data under this name.
TAKEN = RESERVED | {"validation"}
LAYOUT = f"give labels and one of {', '.join(f'{name} {axes}' for name, axes in KINDS.items())}"
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Given:
    """Scores and labels in one file."""

    path: Path
    kind: str  # a key of KINDS
    scores: torch.Tensor  # with the axes in KINDS
    labels: torch.Tensor  # (N,)

    @property
    def members(self) -> int:
        """Number of networks that the scores come from."""
        return len(self.scores) if self.kind == "members" else 1

    @property
    def classes(self) -> int:
        return self.scores.shape[2 if self.kind == "members" else 1]

    def record(self, member: int, *, kernel: int, spreads: Sequence[str] = ()) -> Logits:
        """Record of one network, as methods read it."""
        if self.kind == "patches":
            return Logits.from_patches(self.scores, labels=self.labels, kernel=kernel, spreads=spreads, keep_parts=True)
        return Logits.from_logits(self.scores[member] if self.kind == "members" else self.scores, labels=self.labels)

    def rows(self) -> set[bytes]:
        """Digests of the scores of every example."""
        by_example = (self.scores.transpose(0, 1) if self.kind == "members" else self.scores).float()
        return {hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in by_example.contiguous().numpy()}


def read_given(path: Path) -> Given:
    """Read and check the scores and labels in a file."""
    arrays = load(path)
    kinds = [name for name in KINDS if name in arrays]
    if len(kinds) != 1 or LABELS not in arrays:
        held = ", ".join(sorted(arrays)) or "no arrays"
        raise InvalidInput(f"{path} holds {held}", hint=LAYOUT)
    kind = kinds[0]
    given = Given(path, kind, as_scores(path, kind, arrays[kind]), as_labels(path, arrays[LABELS]))
    examples = given.scores.shape[1 if kind == "members" else 0]
    if examples != len(given.labels):
        raise InvalidInput(
            f"{path} has {kind} of {examples} examples and {len(given.labels)} labels", hint="give a label per example"
        )
    try:
        for member in range(given.members):
            given.record(member, kernel=1)
    except VbsError as error:
        raise type(error)(f"{path}: {error.message}", hint=error.hint) from None
    return given


def as_scores(path: Path, kind: str, array: np.ndarray) -> torch.Tensor:
    dimensions = {"logits": (2,), "patches": (3, 4), "members": (3,)}[kind]
    if array.ndim not in dimensions or not np.issubdtype(array.dtype, np.number):
        shape = " x ".join(map(str, array.shape))
        raise InvalidInput(f"{path}: {kind} are {shape} of {array.dtype}", hint=f"expected numbers {KINDS[kind]}")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64 if array.dtype == np.float64 else np.float32))


def as_labels(path: Path, array: np.ndarray) -> torch.Tensor:
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        shape = " x ".join(map(str, array.shape))
        raise InvalidInput(
            f"{path}: labels are {shape} of {array.dtype}", hint="expected (N,) whole numbers, 0 to K - 1"
        )
    return torch.from_numpy(array.astype(np.int64))


def check_pair(val: Given, test: Given, *, fitted_on: set[bytes] | None = None) -> None:
    """Refuse files of different networks, or with examples in common; `fitted_on` are the rows of `val`, if known."""
    for what in ("kind", "members", "classes"):
        one, other = getattr(val, what), getattr(test, what)
        if one != other:
            raise InvalidInput(
                f"{val.path} and {test.path} differ: {what} {one} and {other}", hint="give outputs of the same network"
            )
    both = len((val.rows() if fitted_on is None else fitted_on) & test.rows())
    if both:
        raise InvalidInput(
            f"{both} example{'s are' if both > 1 else ' is'} in both {val.path} and {test.path}",
            hint="methods must not be scored on examples that they were fitted on",
        )


def parse_conditions(texts: Sequence[str]) -> dict[str, Path]:
    """Files keyed by the word of their condition, from texts such as "phone=phone.npz" or "gaussian@0.5=noisy.npz"."""
    found: dict[str, Path] = {}
    places: set[tuple[str, float]] = set()
    for text in texts:
        word, equals, path = text.partition("=")
        if not (equals and path):
            raise InvalidInput(f"{text!r} is no condition", hint=NAMING)
        condition = check_condition(word)
        if condition in places:
            raise InvalidInput(f"the condition {word} is given twice", hint="give each name and level once")
        places.add(condition)
        found[word] = Path(path)
    return found


def check_condition(word: str) -> tuple[str, float]:
    """Name and level of a condition; a word that cannot name one is refused."""
    try:
        name, level = condition_of(word)
    except ValueError:
        name, level = word.partition(AT)[0], math.nan
    if not PLAIN.fullmatch(name):
        rule = "letters, digits, '-', '_' and '.', at most 64, beginning with a letter or a digit"
        raise InvalidInput(f"{word!r} cannot name a condition", hint=f"names are made of {rule}")
    if name in TAKEN:
        raise InvalidInput(f"{name!r} cannot name a condition: it has a meaning of its own", hint="choose another name")
    # Records of a run are named by six digits of a level.
    if not (0 < level < math.inf and float(f"{level:g}") == level):
        raise InvalidInput(
            f"{word!r} has no level that counts", hint="levels are finite numbers above zero, of at most six digits"
        )
    return name, level


def condition_of(word: str) -> tuple[str, float]:
    """Name and level of a condition: "gaussian@0.5" -> ("gaussian", 0.5), "phone" -> ("phone", 1.0)."""
    name, at, level = word.partition(AT)
    return name, float(level) if at else 1.0


def source_of(val: Given, test: Given) -> str:
    """Name of these logits in the source column of tables."""
    return f"own {val.kind}, {val.path.name} and {test.path.name}"


def kind_in(source: str) -> str:
    """Kind of the logits, a key of KINDS, from their name in the source column of tables."""
    return source.removeprefix("own ").partition(",")[0]


def load(path: Path) -> Arrays:
    """Arrays of a file by name. Nothing is ever unpickled."""
    if path.suffix.lower() not in READERS:
        raise unknown("kind of file", path.suffix or path.name, READERS)
    if not path.is_file():
        raise InvalidInput(f"there is no {path}", hint=LAYOUT)
    try:
        return READERS[path.suffix.lower()](path)
    except (*BROKEN, SafetensorError) as error:
        raise InvalidInput(f"{path} cannot be read: {' '.join(str(error).split())}", hint=LAYOUT) from None


def from_npz(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name in (*KINDS, LABELS)}


def from_safetensors(path: Path) -> Arrays:
    tensors = safetensors.torch.load_file(path)
    return {
        name: (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
        for name, value in tensors.items()
        if name in (*KINDS, LABELS)
    }


def from_parquet(path: Path) -> Arrays:
    """Read a table of one row per example: `labels`, lists for `logits` (K), `patches` (K, T) or `members` (M, K)."""
    table = pd.read_parquet(path)
    found = {LABELS: table[LABELS].to_numpy()} if LABELS in table else {}
    for name in KINDS:
        if name in table:
            values = np.array([nested(row) for row in table[name]])
            found[name] = values.swapaxes(0, 1) if name == "members" else values
    return found


def nested(value: object) -> object:
    """Nested lists from the arrays of arrays that parquet gives."""
    return [nested(each) for each in value] if isinstance(value, np.ndarray) else value


READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": from_npz,
    ".safetensors": from_safetensors,
    ".parquet": from_parquet,
}
