"""What the stages share: the run and the data that they work on, and the artifacts that they aim for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from vbs_cli.data import Prepared
from vbs_cli.errors import VbsError
from vbs_cli.methods import METHODS
from vbs_cli.progress import SILENT, Progress
from vbs_cli.run import Recipe, Run

Target = tuple[str, Recipe]  # the name of an artifact and what makes it


@dataclass(frozen=True)
class Job:
    """A stage's surroundings."""

    run: Run
    data: Prepared
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    force: bool = False
    progress: Progress = SILENT

    @property
    def seeds(self) -> range:
        return range(self.run.settings.seeds)

    @property
    def roles(self) -> list[str]:
        """The networks that the run's methods read: "conventional", "dropout"."""
        return list(dict.fromkeys(METHODS[method].model for method in self.run.settings.methods))

    def needs(self, target: Target) -> bool:
        """Whether an artifact has to be made."""
        return self.force or not self.run.store.is_current(*target)

    def labels(self) -> dict[str, Any]:
        """The columns that say where the numbers of a table come from."""
        return {"dataset": self.data.name, "source": self.data.source}


def choose_device(name: str, progress: Progress = SILENT) -> torch.device:
    """`auto` takes the fastest that is there; any other must be there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, there in available.items() if there)
        progress.detail(f"device: {name}")
    if not available.get(name.split(":")[0], False):
        raise VbsError(f"no {name} device here", hint="--device auto takes what there is")
    return torch.device(name)
