"""Radio fingerprinting: which of 20 transmitters sent this window of 2 x 2080 IQ samples?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from vbs_cli.data import radio_sim
from vbs_cli.data.base import DATASETS, SIMULATED, Preparation
from vbs_cli.errors import MissingArtifact

CLASSES = 20
SIMULATOR = 1  # counts up when the simulator makes other data from the same seed
DROPPED = 500  # the turn-on transient, of which the paper keeps nothing
SIZES = {
    "quick": {"train": 6_000, "val": 1_500, "test": 3_000},
    "paper": {"train": 70_000, "val": 9_900, "test": 20_100},
}


@DATASETS.register("radio")
def radio(*, simulate: bool, profile: str, seed: int = 0) -> Preparation:
    """The simulated stand-in for the authors' captures."""
    if not simulate:
        raise MissingArtifact(
            "vbs cannot fetch the authors' radio captures yet", hint="vbs download --dataset radio --simulate"
        )
    counts = SIZES[profile]
    recipe: dict[str, Any] = {"simulator": SIMULATOR, "seed": seed, "dropped": DROPPED, "counts": counts}

    def batches(split: str) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in radio_sim.batches(split, counts[split], seed=seed, classes=CLASSES):
            yield scale(x[:, :, DROPPED:]), y

    return Preparation(
        source=f"{SIMULATED} (vbs radio simulator, seed {seed})",
        licence="none needed: made by vbs",
        recipe=recipe,
        classes=CLASSES,
        shape=(2, radio_sim.SAMPLES - DROPPED),
        counts=counts,
        batches=batches,
    )


def scale(x: Tensor) -> Tensor:
    """Each example to [-1, 1] by its own minimum and maximum over both channels: (B, C, L) -> (B, C, L)."""
    low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
    return 2 * (x - low) / (high - low).clamp(min=1e-12) - 1
