"""Summaries of intermediate activations, taken from a network as it really runs: folded, channels last, in chunks."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from vbs_cli.logits import activations_name

MOST = 6  # layers of one network that are tapped, spread over its depth
FLOOR = 1e-6  # of a standard deviation, before its logarithm
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


@dataclass(frozen=True)
class Taps:
    """Layers of a network by name in the order of their work, and what they have left so far."""

    channels: Mapping[str, int]  # of the output of each layer
    taken: dict[str, list[Tensor]] = field(default_factory=dict, repr=False)

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers per example of each extra of a record."""
        return {activations_name(place): 2 * channels for place, channels in enumerate(self.channels.values())}

    @contextmanager
    def on(self, net: nn.Module) -> Iterator[None]:
        """Summarise the outputs of the tapped layers whenever the network runs in the block."""
        layers = dict(net.named_modules())

        def watch(name: str) -> Any:
            return lambda layer, inputs, output: self.taken.setdefault(name, []).append(summary(output).cpu())

        hooks = [layers[name].register_forward_hook(watch(name)) for name in self.channels]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def extras(self, examples: int) -> dict[str, Tensor]:
        """Summaries (N, 2C) of the last N examples by the names of a record's extras; they are forgotten here.

        What came before them belongs to a pass that ran out of memory and was made again.
        """
        found = {
            extra: torch.cat(self.taken[name])[-examples:]
            for extra, name in zip(self.sizes, self.channels, strict=True)
        }
        self.taken.clear()
        return found


def summary(x: Tensor) -> Tensor:
    """Mean of each channel over positions, then the log of its standard deviation: (B, C, *grid) -> (B, 2C)."""
    positions = x.flatten(2).movedim(1, 2).float()  # without a copy where channels lie last
    mean = positions.mean(1, keepdim=True)
    variance = (positions - mean).square_().sum(1) / (positions.shape[1] - 1)
    return torch.cat([mean.squeeze(1), variance.sqrt_().clamp_(min=FLOOR).log_()], 1)


@torch.no_grad()
def find_taps(net: nn.Module, shape: tuple[int, ...]) -> Taps:
    """Choose up to MOST convolutions evenly over the depth of a network, found by a pass without arithmetic.

    Those whose output has a single position have no deviation, and the one that gives the patch logits themselves says
    nothing that the logits do not.
    """
    seen: dict[str, torch.Size] = {}
    ghost = copy.deepcopy(net).to("meta").eval()

    def watch(name: str) -> Any:
        def note(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            if output[0, 0].numel() > 1:
                seen.setdefault(name, output.shape)

        return note

    for name, layer in ghost.named_modules():
        if isinstance(layer, CONVOLUTIONS):
            layer.register_forward_hook(watch(name))
    answer = ghost(torch.empty(1, *shape, device="meta"))
    if seen and list(seen.values())[-1].numel() == answer.numel():
        seen.popitem()
    names, last = list(seen), len(seen) - 1
    chosen = dict.fromkeys(names[round(last * k / (MOST - 1))] for k in range(MOST)) if names else {}
    return Taps({name: seen[name][1] for name in chosen})
