"""Base class of views: where the sub-predictions of an input come from, and what they cost."""

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

# Default options of methods on views whose parts are whole predictions, as in the paper's ensemble study.
OF_PREDICTIONS: Options = {"vbs": {"beta": "q75"}, "temperature": {"average": "softmax"}}


def folder_of(view: str) -> str:
    """Name of the folder in which a run keeps the logits of a view."""
    return VIEWS[view].folder or view


@dataclass(frozen=True)
class Place:
    """Identity of a block of inputs, from which randomness is seeded, never from batch, noise or level."""

    seed: int  # of the network
    split: str
    block: int  # number of the block of inputs within the split


Reader = Callable[[Tensor, Place], Tensor]  # inputs (N, C, *size) -> parts (N, K, *grid)


@dataclass(frozen=True)
class View:
    """Way to read the weights of a network into a record of sub-predictions, its parts.

    Fields of a subclass are its own settings, set like those of a Network, and part of the recipe of its records.
    A view either reads inputs (`reader`) or joins the records of all seeds from another view, `source` (`join`).
    """

    network: ClassVar[str] = "conventional"  # network whose weights it reads
    parts: ClassVar[str] = "parts"  # name of its sub-predictions
    plain: ClassVar[str] = "mean"  # method that predicts without any calibration
    names: ClassVar[Mapping[str, str]] = {}  # by method, usual name of the pair: {"mean": "mc-dropout"}
    defaults: ClassVar[Options] = {}  # by method, its default options on this view
    folder: ClassVar[str] = ""  # folder of its logits in a run, by default its name
    source: ClassVar[str] = ""  # view whose records of all seeds it joins
    not_one_pass: ClassVar[str] = ""  # why it cannot be exported as one pass of one network

    @property
    def passes(self) -> int:
        """Forward passes of one network that one example takes."""
        return 1

    @property
    def window(self) -> int:
        """Number of neighbouring parts, along each axis, that are averaged before their spread is taken."""
        return 1

    def grid(self, patches: torch.Size) -> tuple[int, ...]:
        """Shape of the parts of one example, for a network with patches of this shape."""
        raise NotImplementedError

    def reader(self, ready: Fast, *, device: torch.device | str) -> Reader:
        """Function that runs a network on inputs; work that its calls share is done here, once."""
        raise NotImplementedError

    def join(self, records: Sequence[Logits], *, spreads: Sequence[str]) -> Logits:
        """Join the records of all seeds from the view `source` into one."""
        raise NotImplementedError
