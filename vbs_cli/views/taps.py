"""Summaries of intermediate activations, taken from a network as it really runs: folded, channels last, in chunks."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from vbs_cli.logits import activations_name

MOST = 6  # layers that are tapped in one network, spread over its depth
FLOOR = 1e-6  # lower bound of a standard deviation before its logarithm is taken
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


@dataclass(frozen=True)
class Taps:
    """Tapped layers of a network in the order in which they run, and the summaries taken from them so far."""

    channels: Mapping[str, int]  # number of channels of each layer's output
    taken: dict[str, list[Tensor]] = field(default_factory=dict, repr=False)

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each summary per example, by the name of the record's extra."""
        return {activations_name(place): 2 * channels for place, channels in enumerate(self.channels.values())}

    @contextmanager
    def on(self, net: nn.Module) -> Iterator[None]:
        """Summarise the outputs of the tapped layers whenever the network runs within the block."""
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
        """Summaries (N, 2C) of the last N examples by the names of a record's extras; all summaries are cleared.

        Earlier ones belong to a pass that ran out of memory and was repeated.
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
    """Choose up to MOST convolutions evenly over the depth of a network, found by a pass on meta tensors.

    Left out are those whose output has a single position, which has no deviation, those that run several times in one
    pass, and the one that gives the patch logits, whose summary says nothing that the logits do not.
    """
    outputs: list[tuple[str, Tensor]] = []
    ghost = copy.deepcopy(net).to("meta").eval()

    def watch(name: str) -> Any:
        return lambda layer, inputs, output: outputs.append((name, output))

    for name, layer in ghost.named_modules():
        if isinstance(layer, CONVOLUTIONS):
            layer.register_forward_hook(watch(name))
    answer = ghost(torch.empty(1, *shape, device="meta"))
    times = Counter(name for name, _ in outputs)
    last_storage = answer.untyped_storage()  # that of the patch logits, also if the answer is a view of them
    channels = {
        name: output.shape[1]
        for name, output in outputs
        if times[name] == 1 and output[0, 0].numel() > 1 and output.untyped_storage() is not last_storage
    }
    names, last = list(channels), len(channels) - 1
    chosen = dict.fromkeys(names[round(last * k / (MOST - 1))] for k in range(MOST)) if names else {}
    return Taps({name: channels[name] for name in chosen})
