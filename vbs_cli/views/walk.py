"""Stage 3: models and inputs -> Logits. The only loop that runs a trained network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from vbs_cli.data.base import BLOCK, Split
from vbs_cli.data.noise import Draws, distort
from vbs_cli.errors import is_out_of_memory
from vbs_cli.logits import Logits, check_logits, pool
from vbs_cli.models.dropout import split_before_dropout, use_generator
from vbs_cli.models.memory import placed
from vbs_cli.seeding import generator
from vbs_cli.views.fast import Fast, fast

CHUNK = 64  # examples that go through a network together, at most
AS_IT_IS = ("",)  # the name of no noise
Read = Callable[[Tensor, Tensor, int], Logits]  # inputs and labels of a block, its number


def run_patches(
    model: nn.Module,
    split: Split,
    *,
    kernel: int,
    noises: Sequence[str] = AS_IT_IS,
    level: float = 0.0,
    spreads: Sequence[str] = (),
    keep_parts: bool = False,
    device: torch.device | str = "cpu",
    kept: Draws | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Logits]:
    """One pass of a network over a split for each noise, all in one walk; the parts are its patches."""
    ready = made_ready(model, split, device)

    def read(x: Tensor, y: Tensor, block: int) -> Logits:
        z = within_memory(partial(patches_of, ready.net, x, device=device), ready.chunk)
        check_logits(pool(z), start=block * BLOCK)
        return Logits.from_patches(z, labels=y, kernel=kernel, spreads=spreads, keep_parts=keep_parts)

    return walk(split, read, noises, level, kept, advance)


def run_draws(
    model: nn.Module,
    split: Split,
    *,
    draws: int,
    seed: int,
    noises: Sequence[str] = AS_IT_IS,
    level: float = 0.0,
    spreads: Sequence[str] = (),
    keep_parts: bool = False,
    device: torch.device | str = "cpu",
    kept: Draws | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Logits]:
    """`draws` passes with dropout on and BatchNorm in evaluation mode; the parts are the draws.

    The masks depend on seed, draw and block, not on the level: curves over the level are smooth. What comes before the
    first dropout is computed once for all draws, and a few examples are in memory at a time, whatever their number.
    """
    ready = made_ready(model, split, device)
    before, after = split_before_dropout(ready.net)

    def read(x: Tensor, y: Tensor, block: int) -> Logits:
        names = [("mc-dropout", seed, split.name, draw, block) for draw in range(draws)]
        members = within_memory(partial(members_of, before, after, x, names, device=device), ready.chunk)
        check_logits(members.mean(0), start=block * BLOCK)
        return Logits.from_members(members, labels=y, spreads=spreads, keep_parts=keep_parts)

    return walk(split, read, noises, level, kept, advance)


def made_ready(model: nn.Module, split: Split, device: torch.device | str) -> Fast:
    """The fast form of a network for the inputs of a split."""
    return fast(model, split.shape, device=device, most=CHUNK)


@torch.inference_mode()
def walk(
    split: Split,
    read: Read,
    noises: Sequence[str],
    level: float,
    draws: Draws | None,
    advance: Callable[[int], None],
) -> list[Logits]:
    """What `read` makes of the split under each noise, block by block: every input is fetched once for all noises."""
    records: list[list[Logits]] = [[] for _ in noises]
    place = {"dataset": split.dataset, "split": split.name}
    start = 0
    for block, x in split.blocks():
        y = split.y[start : start + len(x)]
        start += len(x)
        for noise, of_noise in zip(noises, records, strict=True):
            of_noise.append(read(distort(x, noise=noise, level=level, block=block, draws=draws, **place), y, block))
            advance(len(y))
    return [Logits.concat(of_noise) for of_noise in records]


def patches_of(model: nn.Module, x: Tensor, *, device: torch.device | str, chunk: int) -> Tensor:
    """(N, C, *size) -> patch logits (N, K, *grid), some inputs at a time."""
    return torch.cat([model(placed(part, device)).cpu() for part in torch.split(x, chunk)])


def members_of(
    before: nn.Module,
    after: nn.Module,
    x: Tensor,
    names: Sequence[tuple[object, ...]],
    *,
    device: torch.device | str,
    chunk: int,
) -> Tensor:
    """(N, C, *size) -> the logits of every draw (M, N, K), some inputs at a time; a draw's masks have its name."""
    rngs = [generator(*name, device=device) for name in names]
    parts = []
    for part in torch.split(x, chunk):
        shared = before(placed(part, device))
        members = []
        for rng in rngs:
            use_generator(after, rng)
            members.append(pool(after(shared)).cpu())
        parts.append(torch.stack(members))
    use_generator(after, None)
    return torch.cat(parts, 1)


def within_memory(run: Callable[..., Tensor], chunk: int) -> Tensor:
    """`run(chunk=...)` with chunks of that size, or as large as the memory allows."""
    while True:
        try:
            return run(chunk=chunk)
        except (RuntimeError, MemoryError) as error:
            if chunk == 1 or not is_out_of_memory(error):
                raise
        chunk //= 2
