"""Readers of a second test set: files in any form that datasets take, made into inputs as a base dataset's were."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vbs_cli.data import audio, folder, images, librispeech, overlap, radio, signals, splits
from vbs_cli.data.base import Prepared
from vbs_cli.data.preparation import Batch, Example, Preparation
from vbs_cli.errors import InvalidInput, VbsError

TEST = "test"
CAPTURES = "captures"
LISTED = 5  # classes that a message lists
# Sample rates of recordings, in Hz, one of which explains the length of a window.
RATES = (8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000)


@dataclass(frozen=True)
class Second:
    """A second test set and the dataset whose inputs it must look like."""

    place: Path  # a folder, or a file of arrays
    base: Prepared
    source: str  # name of the file or folder that it was given as
    dtype: str  # that the base's inputs are stored in
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the base's classes."""
        return self.base.class_names or tuple(map(str, range(self.base.classes)))

    def option(self, name: str) -> Any:
        """Option that the base was prepared with, or None."""
        return self.base.recipe.get(name)

    def preparation(self, count: int, batches: Callable[[], Iterable[Batch]]) -> Preparation:
        return Preparation(
            source=f"second test set, {self.source}",
            licence="yours",
            class_names=self.names,
            shape=self.base.shape,
            counts={TEST: count},
            batches=lambda split: batches(),
            dtype=self.dtype,
            left_out=self.left_out,
        )

    def files(self, suffixes: frozenset[str]) -> list[Example]:
        """Files in class folders, with the base's class numbers."""
        skip_bad = bool(self.option("skip_bad"))
        tree = splits.find_test(self.place, suffixes, self.names, self.left_out, skip_bad=skip_bad)
        numbers = class_numbers(np.array(tree.classes), self)
        return [replace(example, label=int(numbers[example.label])) for example in tree.parts[TEST]]

    def refused(self, what: str) -> InvalidInput:
        """The error for inputs of another kind or shape than the base's."""
        wanted = f"{self.dtype} of shape {self.base.shape}"
        return InvalidInput(
            f"{self.source} has {what}, the inputs of {self.base.name} are {wanted}",
            hint=f"give the kind of data that {self.base.name} was made from",
        )


def read(place: Path, base: Prepared, source: str) -> Preparation:
    """Preparation of the second test set in a folder or a file of arrays."""
    like = base.split(TEST).x
    assert isinstance(like, np.ndarray)  # recordings are whole in training only
    second = Second(place, base, source, like.dtype.name)
    if base.name == radio.NAME and place.is_dir() and any(place.rglob(radio.FILES[TEST][0])):
        return from_captures(second)
    kind = "arrays" if place.is_file() else folder.find_kind(place)
    return {"images": from_images, "sounds": from_sounds, "arrays": from_arrays}[kind](second)


def class_numbers(labels: np.ndarray, second: Second) -> np.ndarray:
    """Labels as the base's class numbers (N,): by their text, or whole numbers as they are where classes have names."""
    values, inverse = np.unique(labels, return_inverse=True)
    texts = [
        splits.printable(each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each)) for each in values
    ]
    number = {name: place for place, name in enumerate(second.names)}
    unknown = [text for text in texts if text not in number]
    whole = labels.dtype.kind in "iu" and not all(re.fullmatch(r"-?\d+", name) for name in second.names)
    if unknown and whole and values[0] >= 0 and values[-1] < len(number):
        return labels.astype(np.int64)
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        listed = ", ".join(second.names[:LISTED]) + (", ..." if len(second.names) > LISTED else "")
        raise InvalidInput(
            f"{second.source} has the class {unknown[0]!r}{more}, which {second.base.name} lacks",
            hint=f"leave its examples out, or name it as there: {listed}",
        )
    return np.array([number[text] for text in texts], np.int64)[inverse]


def from_images(second: Second) -> Preparation:
    base = second.base
    if len(base.shape) != 3 or base.shape[0] != 3 or second.dtype != "uint8":
        raise second.refused("images")
    examples = second.files(images.SUFFIXES)
    crop = second.option("crop")
    reading = images.ImageReading(
        size=second.option("size"),
        crop=None if crop is None else int(crop),
        skip_bad=bool(second.option("skip_bad")),
        other_size=f"resize them as the images of {base.name} were",
    )

    def batches() -> Iterator[Batch]:
        found = reading.batches(examples, second.left_out, shape=base.shape, like=base.name)
        return overlap.unknown_only(found, base)

    return second.preparation(len(examples), batches)


def from_sounds(second: Second) -> Preparation:
    base, left_out = second.base, second.left_out
    if "clips_train.npy" not in base.files:
        raise second.refused("sounds")
    recordings = second.files(audio.SUFFIXES)
    if base.name == librispeech.NAME:  # windows are drawn by names, and those of LibriSpeech are without folders
        recordings = [replace(each, name=each.path.stem) for each in recordings]
    skip_bad = bool(second.option("skip_bad"))
    reading = audio.AudioReading(
        rate=rate_of(base, lambda: folder.first_rate(recordings, skip_bad=skip_bad)),
        crop=base.shape[-1],
        resample=bool(second.option("resample")),
        skip_bad=skip_bad,
        other_rate=f"convert it, or prepare {base.name} with --resample",
    )

    def batches() -> Iterator[Batch]:
        whole = overlap.unknown_only(reading.batches(recordings, left_out), base)
        hint = f"give recordings of {reading.crop / reading.rate:g} s or more"
        for batch in audio.refusing_none(whole, len(recordings), TEST, left_out, hint=hint):
            yield batch._replace(x=windows(reading, batch, base))

    return second.preparation(len(recordings), batches)


def windows(reading: audio.AudioReading, batch: Batch, base: Prepared) -> np.ndarray:
    """Window of each recording (b, 1, crop): the same as in the base's test split for a recording of the same name."""
    cut = [reading.window(samples, base.name, TEST, name) for samples, name in zip(batch.x, batch.ids, strict=True)]
    return np.stack(cut)[:, None] if cut else np.empty((0, 1, reading.crop), np.int16)


def rate_of(base: Prepared, found: Callable[[], int]) -> int:
    """Sample rate of the base's recordings in Hz, told by the length of its windows if its recipe does not say it."""
    if "rate" in base.recipe:
        return int(base.recipe["rate"])
    seconds, samples = base.recipe.get("crop") or folder.SECONDS, base.shape[-1]
    for rate in (found(), *RATES):
        if max(1, round(seconds * rate)) == samples:
            return rate
    return round(samples / seconds)


def from_arrays(second: Second) -> Preparation:
    """Preparation from arrays x and y, or x_test and y_test."""
    arrays = signals.named_arrays(second.place) or data_and_labels(second.place)
    if not arrays:
        raise VbsError(f"{second.source} has no arrays called x and y", hint=signals.LAYOUT)
    parts = {part for _, part in arrays}
    if not parts & {TEST, splits.ALL}:
        raise VbsError(
            f"{second.source} has arrays for {' and '.join(sorted(parts))} only", hint="give x_test and y_test"
        )
    name = TEST if TEST in parts else splits.ALL
    part = signals.make_part(arrays, name)
    labels = class_numbers(check_labels(part.y, second), second)
    if second.option("dropped") is not None and part.x.shape[1:] == raw_shape(second.base):
        return scaled(torch.from_numpy(np.array(part.x)), torch.from_numpy(labels), arrays["x", name][0], second)
    part = fitted(part, second)
    kept = signals.without_flaws({name: part}, second.left_out, skip_bad=bool(second.option("skip_bad")))
    found = signals.Signals({name: part}, {name: labels}, second.names, kept)
    every = np.arange(len(kept[name]))
    return second.preparation(len(every), lambda: overlap.unknown_only(found.batches(name, every), second.base))


def data_and_labels(place: Path) -> dict[tuple[str, str], tuple[Path, np.ndarray]]:
    """Arrays in a pair of files whose names end in `data.npy` and `labels.npy`, as those of CIFAR-10.1 do."""
    found: dict[tuple[str, str], tuple[Path, np.ndarray]] = {}
    for kind, ending in (("x", "data"), ("y", "labels")):
        paths = splits.usable(place, frozenset({".npy"}), deep=True) if place.is_dir() else []
        paths = [path for path in paths if path.stem.lower().endswith(ending)]
        if len(paths) > 1:
            raise VbsError(f"{paths[0]} and {paths[1]} both hold {ending}", hint="give one of them")
        for path in paths:
            found[kind, TEST] = path, signals.load(path)[path.stem]
    return found


def check_labels(y: np.ndarray, second: Second) -> np.ndarray:
    if y.dtype.kind not in "biuUS":
        raise InvalidInput(f"the labels of {second.source} have the type {y.dtype}", hint="give whole numbers or names")
    return y


def fitted(part: signals.ArrayPart, second: Second) -> signals.ArrayPart:
    """Arrays with the base's shape and type: (N, H, W, C) becomes (N, C, H, W), anything else is refused."""
    wanted, shape = second.base.shape, part.x.shape[1:]
    if shape != wanted and len(shape) == 3 and (shape[2], *shape[:2]) == wanted:
        part = replace(part, x=np.moveaxis(part.x, 3, 1))
    if (part.x.shape[1:], part.dtype) != (wanted, second.dtype):
        raise second.refused(f"{part.dtype} of shape {shape}")
    return part


def from_captures(second: Second) -> Preparation:
    """Preparation from files like those of the radio dataset's authors, for their test split."""
    first = min(second.place.rglob(radio.FILES[TEST][0]))
    x, y = (radio.load(first.parent / name) for name in radio.FILES[TEST])
    if tuple(x.shape[1:]) != raw_shape(second.base):
        raise second.refused(f"windows of shape {tuple(x.shape[1:])}, where {raw_shape(second.base)} were needed")
    radio.check_shapes(x, y, x.shape[-1], first)
    if (y != y.long()).any():
        raise InvalidInput(f"{first.parent / radio.FILES[TEST][1]} has {y.dtype} labels", hint="give whole numbers")
    labels = class_numbers(y.long().numpy(), second)
    return scaled(x, torch.from_numpy(labels), first, second)


def raw_shape(base: Prepared) -> tuple[int, ...]:
    """Shape of the captured window that an input of the radio dataset is cut from."""
    return base.shape[0], base.shape[-1] + radio.DROPPED


def scaled(x: torch.Tensor, labels: torch.Tensor, path: Path, second: Second) -> Preparation:
    """Preparation from captured windows, cut and scaled as those of the radio dataset."""
    return second.preparation(len(x), lambda: overlap.unknown_only(radio.windows(x, labels, path), second.base))
