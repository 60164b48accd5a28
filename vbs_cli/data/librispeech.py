"""LibriSpeech: which speaker is heard in 1.28 seconds of read English?

The official task has 251 speakers, with the lists of utterances that come with vbs in `librispeech100/` (those of the
Greedy InfoMax paper as s3prl distributes them, Apache-2.0). Other corpora in the same layout
(`SPEAKER/CHAPTER/SPEAKER-CHAPTER-UTTERANCE.flac`) bring lists of their own.
"""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from vbs_cli.data import fetch
from vbs_cli.data.audio import SUFFIXES, AudioReading
from vbs_cli.data.base import DATASETS, SPLITS, Dataset
from vbs_cli.data.preparation import Batch, Example, Preparation, Request, Workspace, origin_recipe
from vbs_cli.data.sources import published_or_own
from vbs_cli.errors import VbsError
from vbs_cli.settings import PAPER

NAME = "librispeech"
COMMAND = f"vbs download --dataset {NAME}"
RATE = 16_000  # Hz
CROP = 20_480  # samples, 1.28 s
LISTS = ("train_split.txt", "test_split.txt")
MISSING = "listed, but not there"

ARCHIVE = fetch.Remote(
    name="train-clean-100.tar.gz",
    urls=(
        "https://www.openslr.org/resources/12/train-clean-100.tar.gz",
        "https://us.openslr.org/resources/12/train-clean-100.tar.gz",
        "https://openslr.elda.org/resources/12/train-clean-100.tar.gz",
        "https://openslr.magicdatatech.com/resources/12/train-clean-100.tar.gz",
    ),
    sha256="d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2",  # torchaudio's
    size=6_387_309_499,
)


@dataclass(frozen=True)
class Lists:
    """The utterances of every split, and the speakers in the order of their classes."""

    splits: dict[str, list[str]]
    speakers: tuple[str, ...]


def recipe(request: Request) -> dict[str, Any]:
    origin = {"archive": ARCHIVE.sha256} if request.origin is None else origin_recipe(request)
    return {**origin, "crop": CROP, "rate": RATE, "resample": request.resample, "skip_bad": request.skip_bad}


@contextmanager
def opened(request: Request, work: Workspace) -> Iterator[Preparation]:
    with published_or_own(ARCHIVE, request, work, COMMAND) as (folder, name):
        yield preparation(folder, request, name)


def preparation(folder: Path, request: Request, origin: str) -> Preparation:
    lists = find_lists(folder)
    left_out: Counter[str] = Counter()
    recordings = find_recordings(folder, lists, left_out, skip_missing=request.skip_bad)
    reading = AudioReading(rate=RATE, crop=CROP, resample=request.resample, skip_bad=request.skip_bad)

    def batches(split: str) -> Iterator[Batch]:
        return reading.batches(recordings[split], left_out, window=None if split == "train" else (NAME, split))

    return Preparation(
        source=f"LibriSpeech, {origin}",
        licence="CC BY 4.0, (c) 2014 Vassil Panayotov",
        class_names=lists.speakers,
        shape=(1, CROP),
        counts={split: len(some) for split, some in recordings.items()},
        batches=batches,
        dtype="int16",
        recordings=("train",),
        left_out=left_out,
    )


def find_lists(folder: Path) -> Lists:
    """Lists in a folder, or the official ones if it has none."""
    found = [sorted(folder.rglob(name)) for name in LISTS]
    if not any(found):
        return make_lists(*map(official_list, LISTS))
    for name, paths in zip(LISTS, found, strict=True):
        if len(paths) != 1:
            there = f"{len(paths)} of them" if paths else "none"
            raise VbsError(f"{folder} should have one {name} and has {there}", hint="bring both lists, once, or none")
    return make_lists(*(paths[0].read_text(encoding="utf-8").split() for paths in found))


def official_list(name: str) -> list[str]:
    packed = (resources("vbs_cli.data") / "librispeech100" / f"{name}.xz").read_bytes()
    return lzma.decompress(packed).decode().split()


def make_lists(train: Sequence[str], test: Sequence[str]) -> Lists:
    """Splits from two lists: the test list is halved speaker by speaker, so that both halves hold all speakers.

    Classes are numbered by first appearance, the training list first.
    """
    every = [*train, *test]
    twice = [name for name, count in Counter(every).items() if count > 1]
    if twice:
        raise VbsError(
            f"{len(twice)} utterances are listed twice, {twice[0]} first", hint="list each once, in one split"
        )
    speakers = tuple(dict.fromkeys(map(speaker_of, every)))
    place = {speaker: position for position, speaker in enumerate(speakers)}
    by_speaker = sorted(test, key=lambda name: place[speaker_of(name)])
    rank = {name: position for position, name in enumerate(by_speaker)}
    val, rest = ([name for name in test if rank[name] % 2 == half] for half in (0, 1))
    return Lists(dict(zip(SPLITS, (list(train), val, rest), strict=True)), speakers)


def speaker_of(name: str) -> str:
    parts = name.split("-")
    if len(parts) != 3:
        raise VbsError(f"{name!r} is not the name of an utterance", hint="lists hold lines speaker-chapter-utterance")
    return parts[0]


def find_recordings(
    folder: Path, lists: Lists, left_out: Counter[str], *, skip_missing: bool
) -> dict[str, list[Example]]:
    """Files of the listed utterances, by split."""
    paths = {path.stem: path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES}
    missing = [name for names in lists.splits.values() for name in names if name not in paths]
    if missing and not skip_missing:
        total = sum(map(len, lists.splits.values()))
        raise VbsError(
            f"{len(missing):,} of {total:,} listed utterances are not in {folder}, {missing[0]} first",
            hint="bring them, or lists of your own beside them, or --skip-bad to leave them out",
        )
    if missing:
        left_out[MISSING] += len(missing)
    label = {speaker: position for position, speaker in enumerate(lists.speakers)}
    return {
        split: [Example(paths[name], label[speaker_of(name)], name) for name in names if name in paths]
        for split, names in lists.splits.items()
    }


PROTOCOL = replace(
    PAPER,
    dataset=NAME,
    model="conv1d-speech",
    epochs=1000,
    batch=8,
    lr=2e-4,
    kernel=40,
    reliability_bins=5,
    options={"vbs": {"alpha": 5.0, "beta": "q95"}},
)
# 40 times fewer epochs than in the paper.
QUICK = replace(PROTOCOL, profile="quick", seeds=3, width=32, epochs=24, batch=16, lr=2e-3, dropout=0.25, levels=5)

DATASETS.register(NAME)(
    Dataset(
        summary="251 English speakers",
        command=COMMAND,
        takes=frozenset({"origin", "resample", "skip_bad"}),
        recipe=recipe,
        open=opened,
        scaling="sound at 16 kHz, 16-bit samples divided by 32768, so that they lie in [-1, 1)",
        protocols={each.profile: each for each in (PROTOCOL, QUICK)},
        inputs=((1, CROP), 251),
        download=ARCHIVE.size,
    )
)
