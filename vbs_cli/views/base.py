"""What a view is: where the sub-predictions of an input come from, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from vbs_cli.logits import Logits
from vbs_cli.registry import Registry
from vbs_cli.views.fast import Fast

VIEWS: Registry[type[View]] = Registry("view")
Options = Mapping[str, Mapping[str, Any]]

# Options that methods have by default where whole predictions are the parts, as in the paper's ensemble study.
OF_PREDICTIONS: Options = {"vbs": {"beta": "q75"}, "temperature": {"average": "softmax"}}


def folder_of(view: str) -> str:
    """Name of the folder in which a run keeps the logits of a view."""
    return VIEWS[view].folder or view


@dataclass(frozen=True)
class Place:
    """Which inputs a reader is given: randomness is named by it, never by batch, noise or level."""

    seed: int  # of the network
    split: str
    block: int  # number of the block of inputs within the split


Reader = Callable[[Tensor, Place], Tensor]  # inputs (N, C, *size) -> parts (N, K, *grid)


@dataclass(frozen=True)
class View:
    """How the weights of a network are read into a record of sub-predictions, its parts.

    Fields of a subclass are settings of its own, found like those of a Network, and part of the recipe of its records.
    A view either reads inputs (`reader`) or joins the records that another view (`source`) has of all seeds (`join`).
    """

    network: ClassVar[str] = "conventional"  # whose weights it reads
    parts: ClassVar[str] = "parts"  # what its sub-predictions are called
    plain: ClassVar[str] = "mean"  # the method that is its prediction without any calibration
    names: ClassVar[Mapping[str, str]] = {}  # by method, what people call the pair: {"mean": "mc-dropout"}
    defaults: ClassVar[Options] = {}  # by method, options that it has on this view
    folder: ClassVar[str] = ""  # where a run keeps its logits, by default its name
    source: ClassVar[str] = ""  # the view whose records of all seeds it joins
    not_one_pass: ClassVar[str] = ""  # why a file with one network and one pass cannot hold it

    @property
    def passes(self) -> int:
        """Forward passes of one network that one example takes."""
        return 1

    @property
    def window(self) -> int:
        """Neighbouring parts that are averaged before their spread is taken."""
        return 1

    def grid(self, patches: torch.Size) -> tuple[int, ...]:
        """How the parts of one example lie, for a network whose patches lie so."""
        raise NotImplementedError

    def reader(self, ready: Fast, *, device: torch.device | str) -> Reader:
        """Function that runs a network on inputs; what all its calls share is done here once."""
        raise NotImplementedError

    def join(self, records: Sequence[Logits], *, spreads: Sequence[str]) -> Logits:
        """One record from those that `source` has of all seeds."""
        raise NotImplementedError
