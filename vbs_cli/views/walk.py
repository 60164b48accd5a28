"""Loop that runs a trained network: every input of a split is loaded once and run under each noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch import Tensor, nn

from vbs_cli.data.base import BLOCK, Split
from vbs_cli.data.noise import KeptDraws, distort
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import ACTIVATIONS, Logits, check_logits, pool, spreads_named
from vbs_cli.views.base import Place, View
from vbs_cli.views.fast import fast
from vbs_cli.views.taps import find_taps

CHUNK = 64  # largest number of examples that are run together
AS_IT_IS = ("",)  # the empty name stands for no noise


def walk(
    model: nn.Module,
    split: Split,
    view: View,
    *,
    seed: int = 0,
    noises: Sequence[str] = AS_IT_IS,
    level: float = 0.0,
    extras: Sequence[str] = (),
    keep_parts: bool = False,
    device: torch.device | str = "cpu",
    kept: KeptDraws | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Logits]:
    """Run a network on a split, once for each noise at one level; return a record per noise.

    `extras` names what the records are to hold besides the usual: other spreads, and the activations of layers. `kept`
    keeps the draws of noise for the next level; `advance` is called with the number of examples after each block.
    """
    ready = fast(model, split.shape, device=device, most=CHUNK)
    read = view.reader(ready, device=device)
    records: list[list[Logits]] = [[] for _ in noises]
    spreads = spreads_named(extras)
    if ACTIVATIONS in extras and view.passes != 1:
        raise InvalidInput("activations are those of one pass", hint="read them by a view of one pass, such as patches")
    taps = find_taps(ready.net, split.shape) if ACTIVATIONS in extras else None

    def record(x: Tensor, y: Tensor, block: int) -> Logits:
        parts = read(x, Place(seed, split.name, block))
        check_logits(pool(parts), start=block * BLOCK)
        found = Logits.from_patches(parts, labels=y, kernel=view.window, spreads=spreads, keep_parts=keep_parts)
        return replace(found, extras={**found.extras, **taps.extras(len(x))}) if taps else found

    start = 0
    with torch.inference_mode(), ExitStack() as stack:
        if taps:
            stack.enter_context(taps.on(ready.net))
        for block, x in split.blocks():
            y = split.y[start : start + len(x)]
            start += len(x)
            for noise, of_noise in zip(noises, records, strict=True):
                noisy = distort(
                    x, noise=noise, level=level, dataset=split.dataset, split=split.name, block=block, draws=kept
                )
                of_noise.append(record(noisy, y, block))
                advance(len(y))
    return [Logits.concat(of_noise) for of_noise in records]
