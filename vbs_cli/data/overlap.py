"""Refusing test examples that networks were trained or tuned on: those of a dataset's train and val splits."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from vbs_cli.data.base import BLOCK, Clips, Prepared
from vbs_cli.data.preparation import Batch
from vbs_cli.errors import InvalidInput

KNOWN = ("train", "val")
RUN = 4  # samples of a window's loudest place that it is found by: as many as a 64-bit number holds
Match = Callable[[np.ndarray], str]  # what a stored example is in the dataset (`train 17`), or ""


def unknown_only(batches: Iterable[Batch], base: Prepared) -> Iterator[Batch]:
    """Batches as they are, at whose end examples are refused that are also in the base's train or val split."""
    match = matcher(base)
    count, position, first = 0, 0, ""
    for batch in batches:
        for place, example in enumerate(batch.x):
            if other := match(np.asarray(example)):
                count += 1
                name = batch.ids[place] if batch.ids else f"number {position + place}"
                first = first or f"{name} is {other}"
        position += len(batch.y)
        yield batch
    if count:
        raise InvalidInput(
            f"{count:,} of {position:,} examples are in the train or val split of {base.name} too, {first}",
            hint="leave them out: networks know them already",
        )


def matcher(base: Prepared) -> Match:
    """Function that finds a stored example in the splits that networks are trained and tuned on."""
    parts = {split: base.split(split).x for split in KNOWN if split in base.counts}
    clips = {split: x for split, x in parts.items() if isinstance(x, Clips)}
    windows = {split: x for split, x in parts.items() if not isinstance(x, Clips)}
    if clips:
        return recording_matcher(clips, windows)
    known = {digest(row): f"{split} {place}" for split, x in windows.items() for place, row in rows(x)}
    return lambda example: known.get(digest(example), "")


def rows(x: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Rows of an array on disk, read block by block."""
    for start in range(0, len(x), BLOCK):
        yield from enumerate(np.array(x[start : start + BLOCK]), start)


def digest(example: Any) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(example).data, digest_size=16).digest()


def recording_matcher(clips: dict[str, Clips], windows: dict[str, np.ndarray]) -> Match:
    """Function that finds a recording: whole in the training data, or one that a window of the others was cut from."""
    keyed: dict[int, list[tuple[str, np.ndarray, int]]] = defaultdict(list)
    for split, x in windows.items():
        for place, row in rows(x):
            samples = row.reshape(-1)
            if len(samples) >= RUN and samples.min() != samples.max():  # silence is in many recordings
                begin = min(int(np.abs(samples.astype(np.int32)).argmax()), len(samples) - RUN)
                keyed[int(runs(samples[begin : begin + RUN])[0])].append((f"{split} {place}", samples, begin))
    keys = np.array(sorted(keyed), np.uint64)

    def match(recording: np.ndarray) -> str:
        samples = np.ascontiguousarray(recording).reshape(-1)
        found = runs(samples) if len(samples) >= RUN else np.empty(0, np.uint64)
        for position in np.flatnonzero(np.isin(found, keys)):
            for name, window, begin in keyed[int(found[position])]:
                start = position - begin
                if start >= 0 and np.array_equal(samples[start : start + len(window)], window):
                    return name
        return whole_in(clips, samples)

    return match


def runs(samples: np.ndarray) -> np.ndarray:
    """Every run of four neighbours as one number: (n,) of 16 bits -> (n - 3,)."""
    pieces = np.lib.stride_tricks.sliding_window_view(samples, RUN)
    return np.ascontiguousarray(pieces).view(np.uint64)[:, 0]


def whole_in(clips: dict[str, Clips], samples: np.ndarray) -> str:
    """Name of the stored recording that consists of these samples, or ""."""
    for split, x in clips.items():
        for place in np.flatnonzero(x.length == len(samples)):
            begin = x.first[place]
            if np.array_equal(x.samples[begin : begin + len(samples)], samples):
                return f"{split} {place}"
    return ""
