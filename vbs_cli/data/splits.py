"""Files in class folders: which classes there are, and which examples belong to which split."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vbs_cli import files
from vbs_cli.data.base import SPLITS
from vbs_cli.data.preparation import Example
from vbs_cli.errors import VbsError

Place = tuple[str, int]  # of an example: its part and its position in it
ALL = "all"  # the part that all splits are drawn from
FOLDERS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
LITTER = frozenset({"thumbs.db", "desktop.ini", "__macosx"})
REPEATED, ELSEWHERE = "the same as another", "in another split already"
OUTSIDE = "outside of the class folders"
WHOLE = 1 << 20  # bytes: a smaller file is hashed in one piece
# Splits that are drawn from a part: one in so many examples of a class goes to each.
DRAWN = {ALL: {"val": 10, "test": 5}, "train": {"val": 5}}


@dataclass(frozen=True)
class Tree:
    """Classes and examples of a folder, by split, or in one part `all` if it has no splits."""

    classes: tuple[str, ...]
    parts: dict[str, list[Example]]


def find(folder: Path, suffixes: frozenset[str], left_out: Counter[str], *, skip_bad: bool) -> Tree:
    """Find the files in class folders. Files whose content could be in two splits are refused or left out."""
    root = entered(folder, suffixes)
    given = split_folders(root)
    check_loose([root, *given.values()], suffixes, left_out, skip_bad=skip_bad)
    parts = {split: class_files(part, suffixes) for split, part in (given or {ALL: root}).items()}
    classes = check_classes(root, parts)
    examples = {split: labelled(root, found, classes) for split, found in parts.items()}
    return Tree(tuple(map(printable, classes)), without_copies(examples, left_out, skip_bad=skip_bad))


def find_test(
    folder: Path, suffixes: frozenset[str], known: Container[str], left_out: Counter[str], *, skip_bad: bool
) -> Tree:
    """Find the test files in class folders, of one class or more, where some names of classes are known already."""
    root = entered_for_test(folder, suffixes, known)
    part = split_folders(root, needed=("test",)).get("test", root)
    check_loose(dict.fromkeys([root, part]), suffixes, left_out, skip_bad=skip_bad)
    found = {name: paths for name, paths in class_files(part, suffixes).items() if paths}
    if not found:
        raise VbsError(f"{part} has no class folders with files", hint="put files into CLASS/ or test/CLASS/")
    return Tree(tuple(map(printable, sorted(found))), {"test": labelled(root, found, sorted(found))})


def check_loose(folders: Iterable[Path], suffixes: frozenset[str], left_out: Counter[str], *, skip_bad: bool) -> None:
    """Refuse files that lie beside class folders, or count them as left out."""
    loose = [path for folder in folders for path in usable(folder, suffixes, deep=False)]
    if loose and not skip_bad:
        raise VbsError(
            f"{len(loose)} files lie outside of the class folders, {loose[0]} first", hint="move them into one"
        )
    if loose:
        left_out[OUTSIDE] += len(loose)


def labelled(root: Path, found: Mapping[str, Sequence[Path]], classes: Sequence[str]) -> list[Example]:
    """Files by class as examples, numbered by the order of the classes and named by their paths below the root."""
    return [
        Example(path, label, printable(path.relative_to(root).as_posix()))
        for label, name in enumerate(classes)
        for path in found.get(name, ())
    ]


def entered(folder: Path, suffixes: frozenset[str]) -> Path:
    """Skip folders that hold nothing but one other folder, as archives often have them."""
    inside = folders_in(folder)
    while len(inside) == 1 and not any(usable(folder, suffixes, deep=False)):
        folder = inside[0]
        inside = folders_in(folder)
    return folder


def entered_for_test(folder: Path, suffixes: frozenset[str], known: Container[str]) -> Path:
    """Skip folders of which a single one inside has files, unless that one is the folder of a class."""
    while not usable(folder, suffixes, deep=False):
        inside = [path for path in folders_in(folder) if usable(path, suffixes, deep=True)]
        if len(inside) != 1 or printable(inside[0].name) in known or usable(inside[0], suffixes, deep=False):
            break
        folder = inside[0]
    return folder


def split_folders(root: Path, needed: Sequence[str] = ("train", "test")) -> dict[str, Path]:
    """Folders of the splits by name, or an empty dict if the folders are those of the classes."""
    inside = folders_in(root)
    found = [path for path in inside if path.name.lower() in FOLDERS]
    others = [path.name for path in inside if path not in found]
    # A class may be called "train" too; its folder then has no class folders.
    if not found or (others and not any(folders_in(path) for path in found)):
        return {}
    if others:
        raise VbsError(f"beside {found[0]} there is {others[0]!r}", hint="keep nothing but train, val and test there")
    splits: dict[str, Path] = {}
    for path in found:
        other = splits.setdefault(FOLDERS[path.name.lower()], path)
        if other != path:
            raise VbsError(f"{other} and {path} are for the same split", hint="leave one of them")
    for split in needed:
        if split not in splits:
            raise VbsError(
                f"{root} has no {split} folder beside {found[0].name!r}", hint=f"give {' and '.join(needed)} at least"
            )
    return {split: splits[split] for split in SPLITS if split in splits}


def class_files(folder: Path, suffixes: frozenset[str]) -> dict[str, list[Path]]:
    """Files of every class, sorted by name."""
    return {path.name: sorted(usable(path, suffixes, deep=True), key=Path.as_posix) for path in folders_in(folder)}


def check_classes(root: Path, parts: Mapping[str, Mapping[str, Sequence[Path]]]) -> list[str]:
    """Classes of the first part, sorted; other parts with further classes are refused."""
    first, *rest = parts.values()
    classes = sorted(first)
    for split, found in zip(list(parts)[1:], rest, strict=True):
        unknown = sorted(name for name, paths in found.items() if name not in first and paths)
        if unknown:
            raise VbsError(
                f"{split} has the class {unknown[0]!r}, which train has not", hint="add it there, or remove it"
            )
    if len(classes) < 2:
        raise VbsError(
            f"{root} has {len(classes)} class folders, two are needed",
            hint="put files into CLASS/, or train/CLASS/ and test/CLASS/",
        )
    return classes


def without_copies(
    parts: dict[str, list[Example]], left_out: Counter[str], *, skip_bad: bool
) -> dict[str, list[Example]]:
    """Examples without those that could be in two splits, which are refused or left out."""
    paths = [example.path for examples in parts.values() for example in examples]
    keys = iter(contents(paths))
    first = copies({part: [next(keys) for _ in examples] for part, examples in parts.items()})
    settle(first, lambda part, place: str(parts[part][place].path), left_out, skip_bad=skip_bad)
    return {
        part: [example for position, example in enumerate(examples) if (part, position) not in first]
        for part, examples in parts.items()
    }


def settle(
    first: Mapping[Place, Place], called: Callable[[str, int], str], left_out: Counter[str], *, skip_bad: bool
) -> None:
    """Refuse copies, naming the first pair, or count them as left out."""
    if first and not skip_bad:
        copy, original = next(iter(first.items()))
        raise VbsError(
            f"{called(*original)} and {called(*copy)} have the same content; there are {len(first)} such pairs",
            hint="keep one of them, or --skip-bad leaves the later one out",
        )
    for (part, _), (other, _) in first.items():
        left_out[REPEATED if part == other else ELSEWHERE] += 1


def copies(parts: Mapping[str, Sequence[Hashable]]) -> dict[Place, Place]:
    """Examples that repeat an earlier one that may end in another split, each mapped to that earlier one.

    Copies within a part do no harm unless splits are drawn from it.
    """
    pool = drawn_from(parts)
    seen: dict[Hashable, Place] = {}
    found: dict[Place, Place] = {}
    for part, keys in parts.items():
        for position, key in enumerate(keys):
            first = seen.setdefault(key, (part, position))
            if first != (part, position) and (first[0] != part or part == pool):
                found[part, position] = first
    return found


def contents(paths: Sequence[Path]) -> Iterator[Hashable]:
    """Key for the content of each file: its size if no other file has it, so that it need not be read, or its hash."""
    sizes = [path.stat().st_size for path in paths]
    common = Counter(sizes)
    for path, size in zip(paths, sizes, strict=True):
        if common[size] == 1:
            yield size
        else:  # `sha256_of_file` allocates a buffer first, which costs more than a small file
            yield files.sha256_of(path.read_bytes()) if size < WHOLE else files.sha256_of_file(path)


def drawn_from(parts: Mapping[str, object]) -> str:
    """Name of the part that splits are drawn from, or an empty string."""
    return ALL if ALL in parts else "" if "val" in parts else "train"


def draw(
    labels: Mapping[str, np.ndarray], classes: Sequence[str], rng: torch.Generator
) -> dict[str, tuple[str, np.ndarray]]:
    """Part that each split's examples are in, and their positions there, ascending, given the labels by part.

    Splits that are given stay; the others are drawn class by class, so that each class is in each of them.
    """
    splits = {part: (part, np.arange(len(y))) for part, y in labels.items() if part != ALL}
    pool = drawn_from(labels)
    if pool:
        shares = DRAWN[pool]
        chosen: dict[str, list[np.ndarray]] = {split: [] for split in ("train", *shares)}
        for label, name in enumerate(classes):
            (places,) = np.nonzero(labels[pool] == label)
            if len(places) <= len(shares):
                raise VbsError(
                    f"the class {name!r} has {len(places)} examples, too few to draw {', '.join(chosen)} from",
                    hint=f"give it {len(shares) + 1} at least, or leave it out",
                )
            order = places[torch.randperm(len(places), generator=rng).numpy()]
            for split, share in shares.items():
                count = max(1, len(places) // share)
                chosen[split].append(order[:count])
                order = order[count:]
            chosen["train"].append(order)
        splits |= {split: (pool, np.sort(np.concatenate(found))) for split, found in chosen.items()}
    return {split: splits[split] for split in SPLITS}


def drawn(tree: Tree, rng: torch.Generator) -> dict[str, list[Example]]:
    """Examples of all three splits, drawn where they are not given."""
    labels = {part: np.array([example.label for example in found]) for part, found in tree.parts.items()}
    places = draw(labels, tree.classes, rng)
    return {split: [tree.parts[part][place] for place in index] for split, (part, index) in places.items()}


def folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not is_hidden(path.name))


def usable(folder: Path, suffixes: frozenset[str], *, deep: bool) -> list[Path]:
    """Files with one of the suffixes in a folder, or if `deep` also in those below it."""
    found = []
    for where, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if deep and not is_hidden(name))
        found += [
            Path(where, name)
            for name in sorted(names)
            if os.path.splitext(name)[1].lower() in suffixes and not is_hidden(name)
        ]
    return found


def is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in LITTER


def printable(name: str) -> str:
    """Name for a line of text: with escapes if it has characters that would break the line."""
    return name if name.isprintable() else ascii(name)[1:-1]
