"""Draws of MC-dropout: several passes of one network, each with other units dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from vbs_cli.logits import pool
from vbs_cli.models.dropout import split_before_dropout, use_generator
from vbs_cli.models.memory import to_device
from vbs_cli.seeding import generator
from vbs_cli.views.base import OF_PREDICTIONS, VIEWS, Options, Place, Reader, View
from vbs_cli.views.chunks import within_memory
from vbs_cli.views.fast import Fast


@VIEWS.register("draws")
@dataclass(frozen=True)
class Draws(View):
    """Predictions with dropout on and BatchNorm in evaluation mode.

    The masks depend on seed, draw, block and the number of examples in memory at a time, not on the level, so
    that curves over the level are smooth. Layers before the first dropout are computed once for all draws.
    """

    network: ClassVar[str] = "dropout"
    parts: ClassVar[str] = "draws"
    names: ClassVar = {"mean": "mc-dropout", "vbs": "vbs-dropout"}
    defaults: ClassVar[Options] = OF_PREDICTIONS
    folder: ClassVar[str] = "dropout"
    not_one_pass: ClassVar[str] = "it needs several passes with other dropouts, and a file makes one"

    draws: int = 10

    @property
    def passes(self) -> int:
        return self.draws

    def grid(self, patches: torch.Size) -> tuple[int, ...]:
        return (self.draws,)

    def reader(self, ready: Fast, *, device: torch.device | str) -> Reader:
        before, after = split_before_dropout(ready.net)

        def read(x: Tensor, place: Place) -> Tensor:
            names = [("mc-dropout", place.seed, place.split, draw, place.block) for draw in range(self.draws)]
            members = within_memory(partial(members_of, before, after, x, names, device=device), ready.chunk)
            return members.permute(1, 2, 0)

        return read


def members_of(
    before: nn.Module,
    after: nn.Module,
    x: Tensor,
    names: Sequence[tuple[object, ...]],
    *,
    device: torch.device | str,
    chunk: int,
) -> Tensor:
    """Logits of all draws, in chunks of inputs: (N, C, *size) -> (M, N, K). A draw's masks follow from its name."""
    rngs = [generator(*name, device=device) for name in names]
    parts = []
    for part in torch.split(x, chunk):
        shared = before(to_device(part, device))
        members = []
        for rng in rngs:
            use_generator(after, rng)
            members.append(pool(after(shared)).cpu())
        parts.append(torch.stack(members))
    use_generator(after, None)
    return torch.cat(parts, 1)
