"""Second test sets of the user's own, and prepared test conditions such as CIFAR-10-C, for a run to be tested on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vbs_cli.artifacts.job import Job
from vbs_cli.data.shifted import PLAIN, open_shifted, prepare_shifted
from vbs_cli.errors import InvalidInput, MissingArtifact


def with_second_tests(job: Job, given: Sequence[str], *, only_tell: bool = False) -> Job:
    """Job whose run is also tested on these sets, PATH, NAME=PATH or NAME, which are prepared unless they are there.

    With `only_tell` nothing is prepared, and sets that are not there are left out with a word.
    """
    if job.given:
        hint = "give --val, --test and --condition NAME=FILE, with logits for the second test set"
        raise InvalidInput(f"{job.run.path} was made from logits, so no network can be tested on more data", hint=hint)
    names = [name for text in given if (name := bring(job, text, only_tell=only_tell))]
    settings = replace(job.run.settings, shifts=tuple(dict.fromkeys([*job.run.settings.shifts, *names])))
    return replace(job, run=replace(job.run, settings=settings))


def bring(job: Job, text: str, *, only_tell: bool) -> str:
    """Name of a second test set, prepared now if there are files to prepare it from; "" if that was only told."""
    name, origin = named(text)
    data_dir = job.data.folder.parent
    if origin is None:
        open_shifted(data_dir, job.data.name, name)
        return name
    if not only_tell:
        prepare_shifted(data_dir, job.data, origin, name, progress=job.progress, force=job.force)
        return name
    try:
        open_shifted(data_dir, job.data.name, name)
    except MissingArtifact:
        job.progress.say(f"{name}: would be prepared from {origin} and then passed through every network")
        return ""
    return name


def named(text: str) -> tuple[str, Path | None]:
    """Name and path of a second test set: given as NAME=PATH, as a path that names it, or by the name alone."""
    name, equals, rest = text.partition("=")
    path = Path(text)
    if equals and PLAIN.fullmatch(name) and not path.exists():
        return name, Path(rest)
    if path.exists() or len(path.parts) > 1 or not PLAIN.fullmatch(text):
        return plain_name(path), path
    return text, None


def plain_name(path: Path) -> str:
    """Name made of a path's: without its suffixes of archives and arrays, other signs than those of names as dashes."""
    stem = re.sub(r"(\.(tar|gz|xz|bz2|tgz|zip|npz|npy|safetensors))+$", "", path.resolve().name, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "second"
