"""A second test set beside a prepared dataset: another device, day, group of speakers or camera.

It is a dataset of its own with the one split `test`, in a folder named after both: `cifar10+phone`.
"""

from __future__ import annotations

import re
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from vbs_cli import files
from vbs_cli.data import archives, second_set, signals
from vbs_cli.data.base import DATASETS, SEVERITY, SPLITS, Prepared, open_dataset, open_folder
from vbs_cli.data.noise import NOISES
from vbs_cli.data.preparation import Request, can_stay, origin_recipe, prepare, say_left_out
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.locks import locked
from vbs_cli.progress import SILENT, Progress

REVISION = 1  # raised when other arrays are made from the same files
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED = frozenset({"clean", "all", *SPLITS})  # words that name other things where conditions are named
SHOWN = 5  # classes that a message lists


def prepare_shifted(
    data_dir: Path, base: Prepared, origin: Path, name: str, *, progress: Progress = SILENT, force: bool = False
) -> Prepared:
    """Prepare a second test set for a dataset, its inputs as those of the dataset were, unless it is there already.

    Other data under the same name are never overwritten without `force`.
    """
    check_name(name)
    if not origin.exists():
        raise InvalidInput(f"there is nothing at {origin}", hint="give a file, a folder or an archive")
    folder = folder_name(base.name, name)
    recipe = {**origin_recipe(Request(origin=origin)), "base": base.fingerprint, "revision": REVISION}
    with locked(data_dir, name=f".{folder}.lock", hint="wait for it or name another folder with --data"):
        present = None if force else find(data_dir / folder)
        hint = "give the new one another name, or replace the old one by --force"
        if present is not None and can_stay(present, recipe, hint=hint, progress=progress):
            return present
        made = make(data_dir, base, origin, name, recipe, progress)
    say_left_out(made, progress)
    say_missing(made, progress)
    return made


def open_shifted(data_dir: Path, base_name: str, name: str) -> Prepared:
    """Open a second test set of a dataset, or a dataset that is for testing its runs, which was prepared before."""
    if name in DATASETS and DATASETS[name].tests == base_name:
        found = open_dataset(data_dir, name)
    else:
        check_name(name)
        found = open_folder(data_dir / folder_name(base_name, name), hint=command(name, "FOLDER"))
    base = find(data_dir / base_name)
    if base is not None:
        check_belongs(found, base)
    return found


def conditions_of(prepared: Prepared, name: str) -> dict[str, tuple[str, float]]:
    """Condition and level that each split of a test set is shown as: `fog@0.6` of `phone` is phone-fog at 0.6."""
    found = {}
    for split in prepared.counts:
        kind, _, level = split.partition(SEVERITY)
        found[split] = (f"{name}-{kind}", float(level)) if level else (name, 1.0)
    return found


def folder_name(base_name: str, name: str) -> str:
    return f"{base_name}+{name}"


def command(name: str, origin: str) -> str:
    """Command line that prepares a test set of a run's dataset and measures the run on it."""
    return shlex.join(["vbs", "evaluate", "--shift-from", f"{name}={origin}"])


def check_name(name: str) -> None:
    """Refuse a name that is no file name, or that already names another condition."""
    hint = "choose another name, for instance phone or day-2"
    if not PLAIN.fullmatch(name):
        rule = "letters, digits, '-', '_' and '.', at most 64, beginning with a letter or a digit"
        raise InvalidInput(f"{name!r} cannot name a test set", hint=f"names are made of {rule}")
    if name in RESERVED or name in NOISES:
        what = "a noise" if name in NOISES else "a word with a meaning of its own"
        raise InvalidInput(f"{name!r} cannot name a test set: it is {what}", hint=hint)
    if name in DATASETS:
        raise InvalidInput(
            f"{name!r} cannot name a test set: it is a dataset", hint=f"{DATASETS[name].command}, or {hint}"
        )


def check_belongs(found: Prepared, base: Prepared) -> None:
    """Refuse a test set that was prepared for other data than those of its base, or that has other classes."""
    if found.recipe.get("base", base.fingerprint) != base.fingerprint:
        raise InvalidInput(
            f"{found.folder} was prepared for other {base.name} data than those in {base.folder}",
            hint=f"prepare {found.name} again, with --force",
        )
    if (found.class_names, found.shape) != (base.class_names, base.shape):
        raise InvalidInput(
            f"{found.name} has {found.classes} classes and inputs {found.shape}, {base.name} has {base.classes} and "
            f"{base.shape}, or names them otherwise",
            hint=f"{DATASETS[base.name].command} brings the classes that it is for",
        )


def find(folder: Path) -> Prepared | None:
    try:
        return open_folder(folder, hint="")
    except MissingArtifact:
        return None


def make(
    data_dir: Path, base: Prepared, origin: Path, name: str, recipe: dict[str, Any], progress: Progress
) -> Prepared:
    """Read the files of a second test set and write them as a dataset."""
    folder, again = folder_name(base.name, name), command(name, str(origin))
    scratch = data_dir / f".{folder}.source{files.TEMPORARY}"
    # An .npz is a zip as well.
    alone = origin.is_file() and origin.suffix.lower() in signals.SUFFIXES
    with nullcontext(origin) if alone else archives.opened(origin, scratch, progress=progress) as place:
        preparation = second_set.read(place, base, origin.name)
        with progress.task(f"preparing {folder}", sum(preparation.counts.values())) as task:
            made = prepare(data_dir, folder, preparation, recipe=recipe, command=again, advance=task.advance)
            task.note(f"{made.examples} examples")
    return made


def say_missing(made: Prepared, progress: Progress) -> None:
    """Tell which classes have no example."""
    there = set(made.split("test").y.tolist())
    missing = [name for label, name in enumerate(made.class_names) if label not in there]
    if missing:
        names = ", ".join(missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        progress.say(f"{made.name}: no examples of {len(missing)} of {made.classes} classes ({names})")
