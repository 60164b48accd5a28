"""The user's own data: images or sounds in class folders, or arrays.

`train/CLASS/`, `val/CLASS/` and `test/CLASS/`, or `CLASS/` alone: splits that are not given are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from vbs_cli.data import archives, audio, images, signals, splits
from vbs_cli.data.base import DATASETS, Dataset
from vbs_cli.data.preparation import SKIP_HINT, Batch, Example, Preparation, Request, Workspace, origin_recipe
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.seeding import generator
from vbs_cli.settings import PAPER

NAME = "folder"
COMMAND = f"vbs download --dataset {NAME} --from DIR"
SECONDS = 1.28  # window of a recording, unless --crop asks otherwise
KINDS = {"images": images.SUFFIXES, "sounds": audio.SUFFIXES, "arrays": signals.SUFFIXES}
MEANINGLESS = {"images": ("resample",), "sounds": ("size",), "arrays": ("size", "crop", "resample")}


def recipe(request: Request) -> dict[str, Any]:
    check_origin(request)
    options = ("seed", "size", "crop", "resample", "skip_bad")
    return {**origin_recipe(request), **{option: getattr(request, option) for option in options}}


def check_origin(request: Request) -> Path:
    if request.origin is None:
        raise InvalidInput(f"{NAME} needs data of your own", hint=COMMAND)
    return request.origin


@contextmanager
def opened(request: Request, work: Workspace) -> Iterator[Preparation]:
    origin = check_origin(request)
    # An .npz is a zip as well.
    alone = origin.is_file() and origin.suffix.lower() in signals.SUFFIXES
    source = nullcontext(origin) if alone else archives.opened(origin, work.scratch, progress=work.progress)
    with source as place:
        kind = "arrays" if alone else find_kind(place)
        for option in MEANINGLESS[kind]:
            if option in request.given():
                raise InvalidInput(f"--{option} means nothing to {kind}", hint="leave it out")
        yield {"images": from_images, "sounds": from_sounds, "arrays": from_arrays}[kind](place, request, origin.name)


def find_kind(folder: Path) -> str:
    """Kind of the data in a folder (images, sounds or arrays), by the suffixes of its files."""
    found = {kind: paths for kind, suffixes in KINDS.items() if (paths := splits.usable(folder, suffixes, deep=True))}
    if not found:
        supported = "; ".join(f"{kind} ({' '.join(sorted(suffixes))})" for kind, suffixes in KINDS.items())
        raise VbsError(f"{folder} has no files that vbs can read", hint=f"give {supported}")
    if len(found) > 1:
        (one, (first, *_)), (other, (second, *_)), *_ = found.items()
        raise VbsError(f"{folder} has {one} ({first.name}) and {other} ({second.name})", hint="give one kind only")
    return next(iter(found))


def made(origin: str, **values: Any) -> Preparation:
    return Preparation(source=f"own data, {origin}", licence="yours", **values)


def found_files(
    folder: Path, kind: str, request: Request, left_out: Counter[str]
) -> tuple[tuple[str, ...], dict[str, list[Example]]]:
    """Class names, and the files of every split."""
    tree = splits.find(folder, KINDS[kind], left_out, skip_bad=request.skip_bad)
    return tree.classes, splits.drawn(tree, generator("split", NAME, request.seed))


def from_images(folder: Path, request: Request, origin: str) -> Preparation:
    size, crop = request.size, request.crop
    if crop is not None and crop != int(crop):
        raise InvalidInput(f"--crop {crop} is no number of pixels", hint="give a whole one, for instance --crop 64")
    if size is not None and size < max(1, crop or 0):
        raise InvalidInput(f"--size {size} is too small", hint=f"give {int(max(1, crop or 0))} at least")
    left_out: Counter[str] = Counter()
    classes, examples = found_files(folder, "images", request, left_out)
    reading = images.ImageReading(size=size, crop=None if crop is None else int(crop), skip_bad=request.skip_bad)
    shape, like = reading.shape(examples["train"])

    def batches(split: str) -> Iterator[Batch]:
        return reading.batches(examples[split], left_out, shape=shape, like=like)

    return made(
        origin,
        class_names=classes,
        shape=shape,
        counts={split: len(some) for split, some in examples.items()},
        batches=batches,
        dtype="uint8",
        left_out=left_out,
    )


def from_sounds(folder: Path, request: Request, origin: str) -> Preparation:
    seconds = SECONDS if request.crop is None else request.crop
    left_out: Counter[str] = Counter()
    classes, recordings = found_files(folder, "sounds", request, left_out)
    rate = first_rate(recordings["train"], skip_bad=request.skip_bad)
    crop = max(1, round(seconds * rate))
    reading = audio.AudioReading(rate=rate, crop=crop, resample=request.resample, skip_bad=request.skip_bad)

    def batches(split: str) -> Iterator[Batch]:
        found = reading.batches(recordings[split], left_out, window=None if split == "train" else (NAME, split))
        hint = f"--crop takes windows shorter than {seconds:g} s"
        return audio.refusing_none(found, len(recordings[split]), split, left_out, hint=hint)

    return made(
        origin,
        class_names=classes,
        shape=(1, crop),
        counts={split: len(some) for split, some in recordings.items()},
        batches=batches,
        dtype="int16",
        recordings=("train",),
        left_out=left_out,
    )


def first_rate(recordings: list[Example], *, skip_bad: bool) -> int:
    """Sample rate of the first file that can be opened, in Hz."""
    import soundfile

    for recording in recordings:
        try:
            return int(soundfile.info(recording.path).samplerate)
        except (soundfile.LibsndfileError, RuntimeError) as error:
            if not skip_bad:
                raise VbsError(f"{recording.path} is damaged: {error}", hint=SKIP_HINT) from None
    raise VbsError(f"none of {len(recordings)} recordings can be read", hint="give WAV or FLAC files")


def from_arrays(place: Path, request: Request, origin: str) -> Preparation:
    left_out: Counter[str] = Counter()
    found = signals.find(place, left_out, skip_bad=request.skip_bad)
    rng = generator("split", NAME, request.seed)
    index = splits.draw(found.kept_labels(), found.classes, rng)
    counts = {split: len(places) for split, (_, places) in index.items()}
    return made(
        origin,
        class_names=found.classes,
        shape=found.shape,
        counts=counts,
        batches=lambda split: found.batches(*index[split]),
        dtype=found.dtype,
        left_out=left_out,
    )


# The paper has no protocol for other data: the network is the one that fits their shape, the rest is as for CIFAR-10.
PROTOCOL = replace(PAPER, dataset=NAME, width=192, epochs=250, batch=128)
QUICK = replace(PROTOCOL, profile="quick", seeds=3, width=32, epochs=10, batch=32, dropout=0.25, levels=5)

DATASETS.register(NAME)(
    Dataset(
        summary="images, sounds or arrays of your own",
        command=COMMAND,
        takes=frozenset({"origin", "seed", "size", "crop", "resample", "skip_bad"}),
        recipe=recipe,
        open=opened,
        scaling="as `vbs download` stored them: 8-bit pixels divided by 255 to lie in [0, 1], 16-bit samples by 32768 "
        "to lie in [-1, 1), other whole numbers by the range of their type, floating-point numbers as they are",
        protocols={each.profile: each for each in (PROTOCOL, QUICK)},
        inputs=((3, 32, 32), 10),
    )
)
