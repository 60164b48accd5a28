"""What the stages share: the run and the data that they work on, and the artifacts that they aim for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from vbs_cli.data import Prepared
from vbs_cli.errors import VbsError
from vbs_cli.executors import Crew
from vbs_cli.methods import METHODS, Method
from vbs_cli.progress import SILENT, Progress
from vbs_cli.registry import unknown
from vbs_cli.run import Recipe, Run, layout
from vbs_cli.settings import GIVEN

Target = tuple[str, Recipe]  # the name of an artifact and what makes it


@dataclass(frozen=True)
class Job:
    """A stage's surroundings."""

    run: Run
    data: Prepared
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    force: bool = False
    progress: Progress = SILENT
    crew: Crew | None = None  # who works on networks; without one, this process does
    device_name: str = "auto"  # as asked for: other machines may have others
    tensorboard: bool = False
    keep_patches: bool = False  # of noisy inputs too

    @property
    def seeds(self) -> range:
        return range(self.run.settings.seeds)

    @property
    def given(self) -> bool:
        """Whether the run was made from logits that the user has, so that there is no network."""
        return self.run.settings.model == GIVEN

    @property
    def methods(self) -> dict[str, Method]:
        """The run's methods with their options, not yet fitted."""
        s = self.run.settings
        for name, options in s.options.items():  # also of methods that the run leaves out: a typo is one anyway
            with_options(name, options)
        return {name: with_options(name, s.options.get(name, {})) for name in s.methods}

    @property
    def roles(self) -> list[str]:
        """The networks behind the run's methods: "conventional", "dropout"."""
        read = [METHODS[name].model for name in self.run.settings.methods]
        return list(dict.fromkeys("conventional" if model == layout.ENSEMBLE else model for model in read))

    @property
    def has_ensemble(self) -> bool:
        """Whether a method reads all seeds together."""
        return any(METHODS[name].model == layout.ENSEMBLE for name in self.run.settings.methods)

    def spreads(self, model: str) -> list[str]:
        """Spreads beside that of the logits that the methods read of a record."""
        return sorted({name for method in self.methods.values() if method.model == model for name in method.spreads})

    def needs(self, target: Target) -> bool:
        """Whether an artifact has to be made."""
        return self.force or not self.run.store.is_current(*target)

    def labels(self) -> dict[str, Any]:
        """The columns that say where the numbers of a table come from."""
        return {"dataset": self.data.name, "source": self.data.source}


def with_options(name: str, options: Mapping[str, Any]) -> Method:
    known = [field.name for field in fields(METHODS[name])]
    for option in options:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    return METHODS[name](**options)


def choose_device(name: str, progress: Progress = SILENT) -> torch.device:
    """`auto` takes the fastest that is there; any other must be there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, there in available.items() if there)
        progress.detail(f"device: {name}")
    if not available.get(name.split(":")[0], False):
        raise VbsError(f"no {name} device here", hint="--device auto takes what there is")
    return torch.device(name)
