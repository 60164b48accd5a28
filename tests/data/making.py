"""Small datasets of one's own: how the tests write files and prepare them through the real path."""

from pathlib import Path

import numpy as np
from PIL import Image

from vbs_cli.data import DATASETS, Prepared, Request, Workspace, check_request, prepare


def prepared(folder: Path, name: str, origin: Path | None = None, **options) -> Prepared:
    """What `vbs download` does with a dataset of one's own."""
    request = Request(origin=origin, **options)
    check_request(name, request)
    with DATASETS[name].open(request, Workspace(folder / "downloads", folder / "scratch")) as preparation:
        return prepare(folder / "data", name, preparation, recipe=DATASETS[name].recipe(request))


def noise(seed: int, height: int = 8, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def write_image(path: Path, pixels: np.ndarray, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def write_images(folder: Path, counts: dict[str, int], *, seed: int = 0, height: int = 8, width: int = 8) -> None:
    """PNG files 00.png, 01.png, ... in the given folders, no two alike."""
    for number, (name, count) in enumerate(counts.items()):
        for index in range(count):
            pixels = noise(seed + 1000 * number + index, height, width)
            write_image(folder / name / f"{index:02d}.png", pixels)
