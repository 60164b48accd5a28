"""Recordings: sound files -> 16-bit samples, and the windows of them that a network sees."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vbs_cli.data.preparation import SKIP_HINT, Batch, Example
from vbs_cli.errors import VbsError
from vbs_cli.seeding import generator

SUFFIXES = frozenset({".flac", ".wav", ".ogg", ".oga", ".mp3", ".aif", ".aiff"})
BATCH = 64  # files decoded at a time
RESAMPLE_HINT = "--resample converts it"
SHORT, DAMAGED = "shorter than the crop", "damaged"


class BadRecording(VbsError):
    """A sound file that cannot be used."""


@dataclass(frozen=True)
class AudioReading:
    """Settings for decoding sound files into clips."""

    rate: int  # Hz
    crop: int  # samples
    resample: bool = False  # convert files of another rate or with more channels
    skip_bad: bool = False  # leave out what cannot be read
    other_rate: str = RESAMPLE_HINT  # hint for files of another rate

    def batches(
        self, recordings: Sequence[Example], left_out: Counter[str], *, window: tuple[str, str] | None = None
    ) -> Iterator[Batch]:
        """Batches of all recordings, decoded on all cores: whole, or a fixed window of each.

        `window` is (dataset, split), the names that the windows are drawn by.
        """
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding releases Python's lock
            for start in range(0, len(recordings), BATCH):
                some = recordings[start : start + BATCH]
                yield self._batch(some, pool.map(self._read, some), left_out, window)

    def _batch(
        self,
        recordings: Sequence[Example],
        decoded: Iterator[np.ndarray | BadRecording],
        left_out: Counter[str],
        window: tuple[str, str] | None,
    ) -> Batch:
        kept = []
        for recording, samples in zip(recordings, decoded, strict=True):
            if isinstance(samples, BadRecording):
                if not self.skip_bad:
                    raise samples
                left_out[DAMAGED] += 1
            elif len(samples) < self.crop:
                left_out[SHORT] += 1
            else:
                kept.append((recording, samples))
        x = [
            samples if window is None else self.window(samples, *window, recording.name) for recording, samples in kept
        ]
        inputs = x if window is None else np.stack(x)[:, None] if x else np.empty((0, 1, self.crop), np.int16)
        return Batch(inputs, [recording.label for recording, _ in kept], [recording.name for recording, _ in kept])

    def _read(self, recording: Example) -> np.ndarray | BadRecording:
        try:
            return read_samples(recording.path, rate=self.rate, resample=self.resample, hint=self.other_rate)
        except BadRecording as error:
            return error

    def window(self, samples: np.ndarray, dataset: str, split: str, name: str) -> np.ndarray:
        """Window for evaluation, drawn from the names of dataset, split and recording alone."""
        rng = generator(dataset, split, "crop", name)
        start = int(torch.randint(len(samples) - self.crop + 1, (), generator=rng))
        return samples[start : start + self.crop]


def refusing_none(
    batches: Iterable[Batch], count: int, split: str, left_out: Counter[str], *, hint: str
) -> Iterator[Batch]:
    """Batches as they are; if all of the `count` recordings are left out, refuse them by their reasons."""
    before, some = left_out.copy(), False
    for batch in batches:
        some = some or len(batch.y) > 0
        yield batch
    if not some:
        reasons = ", ".join(f"{number} {reason}" for reason, number in (left_out - before).items())
        raise VbsError(f"all {count} recordings of {split} are left out: {reasons}", hint=hint)


def read_samples(path: Path, *, rate: int, resample: bool = False, hint: str = RESAMPLE_HINT) -> np.ndarray:
    """Read a sound file as one channel of 16-bit samples, (samples,)."""
    import soundfile

    try:
        with soundfile.SoundFile(path) as file:
            found, promised = (file.samplerate, file.channels), file.frames
            sixteen = file.subtype == "PCM_16"
            samples: np.ndarray = file.read(dtype="int16", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise BadRecording(f"{path} is damaged: {error}", hint=SKIP_HINT) from None
    if len(samples) < promised:
        raise BadRecording(f"{path} is damaged: it ends after {len(samples)} of {promised} samples", hint=SKIP_HINT)
    if sixteen and not is_as_encoded(path, samples):
        raise BadRecording(f"{path} is damaged: its samples are not those that were encoded", hint=SKIP_HINT)
    if found == (rate, 1):
        return samples[:, 0]
    if not resample:
        raise VbsError(
            f"{path} has {found[0]:,} Hz and {found[1]} channels instead of {rate:,} Hz and 1",
            hint=hint,
        )
    return converted(samples, found[0], rate)


def is_as_encoded(path: Path, samples: np.ndarray) -> bool:
    """Whether samples have the MD5 that a FLAC file carries, which the decoder ignores; True without an MD5."""
    with path.open("rb") as file:
        head = file.read(42)
    # "fLaC", a block header of four bytes, and the STREAMINFO block, whose last 16 bytes are the MD5.
    if head[:4] != b"fLaC" or not any(head[26:42]):
        return True
    return hashlib.md5(samples.astype("<i2").tobytes(), usedforsecurity=False).digest() == head[26:42]


def converted(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Resample to `wanted` Hz and average the channels: (samples, channels) -> (samples,)."""
    from torchaudio.functional import resample

    mono = torch.from_numpy(samples.astype(np.float32).mean(1))
    other: torch.Tensor = resample(mono, rate, wanted)
    return other.round().clamp(-(2**15), 2**15 - 1).to(torch.int16).numpy()
