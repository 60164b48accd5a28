"""Predictions that the benchmark compares, each from input to probabilities with no more than its method needs.

Every method is measured in two variants: "paper", the plain network on the whole batch at once, all draws in one batch
and all members of an ensemble in memory; and "vbs", by the functions of `vbs_cli.views` that evaluation uses: the fast
form of the network, a few inputs at a time, one draw or member after another. `Logits.from_patches` prepares for
every method at once, so a record made by it would charge each method for all of them; here a record holds what its
method reads, made by the same functions. The network runs on its device and the rest on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from vbs_cli.bench import flops
from vbs_cli.bench.network import BenchNetwork
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits, pool, sigma_bar, window_sums
from vbs_cli.methods.averaging import Averaging
from vbs_cli.methods.base import Method
from vbs_cli.methods.conventional import Conventional
from vbs_cli.methods.temperature import TemperatureScaling
from vbs_cli.methods.variance import VarianceSmoothing
from vbs_cli.models.dropout import Dropout, split_before_dropout
from vbs_cli.pairs import find_pair
from vbs_cli.views.draws import members_of
from vbs_cli.views.fast import fast
from vbs_cli.views.patches import patches_of

# Methods as after fitting. The numbers do not affect the cost; with beta = 1 every example is smoothed.
CONVENTIONAL = Conventional()
TEMPERATURE = TemperatureScaling(value=1.5)
VBS = VarianceSmoothing(alpha=1.0, beta=1.0)


@dataclass(frozen=True)
class Case:
    """Networks and settings that a prediction needs besides its input."""

    nets: Sequence[nn.Module]  # networks in memory: one, or all members of an ensemble
    kernel: int
    draws: int
    chunk: int = 0  # number of inputs that a network in its fast form runs on at a time
    saved: Sequence[Path] = ()  # weights of members that are in memory only while they predict

    @property
    def weights(self) -> int:
        """Bytes of the networks that stay in memory between two predictions."""
        return sum(value.numel() * value.element_size() for net in self.nets for value in net.state_dict().values())


@dataclass(frozen=True)
class Contender:
    """Method in one variant: how it predicts, and the FLOPs that this takes."""

    method: str
    variant: str  # "paper" or "vbs"
    forward: Callable[[Case, Tensor], Tensor]  # (B, *shape) -> parts: patches (B, K, *grid) or members (M, B, K)
    finish: Callable[[Case, Tensor], Tensor]  # parts -> probabilities (B, K)
    flops: Callable[[flops.Head], int]  # of one example, after the network

    @property
    def name(self) -> str:
        return f"{self.method} ({self.variant})"

    @property
    def view(self) -> str:
        """View that gives the sub-predictions: "patches", "draws" or "members"."""
        return find_pair(self.method).view

    @property
    def all_draws_at_once(self) -> bool:
        return self.forward is draws_at_once

    def networks(self, members: int) -> int:
        """Number of networks that a prediction needs."""
        return members if self.view == "members" else 1

    def predict(self, case: Case, x: Tensor) -> Tensor:
        """Probabilities of a batch: (B, *shape) -> (B, K)."""
        return self.finish(case, self.forward(case, x))

    def case(self, network: BenchNetwork, folder: Path, *, draws: int, members: int, device: str) -> Case:
        """Make all that predictions need, before they are measured; `folder` is for weights not kept in memory."""
        seeds = range(self.networks(members))
        built = [network.build(dropout=self.view == "draws", seed=seed).to(device) for seed in seeds]
        if self.variant == "paper":
            nets = [with_plain_dropout(net) for net in built] if self.all_draws_at_once else built
            return Case(nets, network.kernel, draws)
        ready = [fast(net, network.shape, device=device) for net in built]
        saved = [folder / f"member-{seed}.safetensors" for seed in seeds] if len(seeds) > 1 else []
        for path, each in zip(saved, ready, strict=False):
            weights = {name: value.contiguous() for name, value in each.net.state_dict().items()}
            safetensors.torch.save_file(weights, path)
        return Case([ready[0].net], network.kernel, draws, chunk=ready[0].chunk, saved=saved)


def with_plain_dropout(net: nn.Module) -> nn.Module:
    """Replace the dropouts of a network by torch's own, always on."""
    for name, layer in [*net.named_modules()]:
        if isinstance(layer, Dropout):
            net.set_submodule(name, nn.Dropout(layer.p).train())
    return net


def patches_at_once(case: Case, x: Tensor) -> Tensor:
    patches: Tensor = case.nets[0](x).cpu()
    return patches


def draws_at_once(case: Case, x: Tensor) -> Tensor:
    """Logits of all draws, in one batch of draws * B: (B, *shape) -> (M, B, K)."""
    logits = pool(case.nets[0](x.repeat(case.draws, *(1 for _ in x.shape[1:]))).cpu())
    return logits.view(case.draws, len(x), -1)


def members_in_memory(case: Case, x: Tensor) -> Tensor:
    return torch.stack([pool(net(x).cpu()) for net in case.nets])


def patches_in_chunks(case: Case, x: Tensor) -> Tensor:
    return patches_of(case.nets[0], x, device=x.device, chunk=case.chunk)


def draws_in_turn(case: Case, x: Tensor) -> Tensor:
    """Logits of all draws, a few inputs and one draw at a time; layers before the first dropout run once for all."""
    before, after = split_before_dropout(case.nets[0])
    names = [("bench", "draw", draw) for draw in range(case.draws)]
    return members_of(before, after, x, names, device=x.device, chunk=case.chunk)


def members_in_turn(case: Case, x: Tensor) -> Tensor:
    """Logits of all members, with one in memory at a time: its weights are read and it runs on the batch."""
    logits = []
    for path in case.saved:
        case.nets[0].load_state_dict(safetensors.torch.load_file(path))
        logits.append(pool(patches_in_chunks(case, x)))
    return torch.stack(logits)


def tempered(method: Method) -> Callable[[Case, Tensor], Tensor]:
    """Function from patches to probabilities, for a method that needs the pooled logits alone."""
    return lambda case, patches: method.predict_proba(Logits(pool(patches)))


def smoothed(case: Case, patches: Tensor) -> Tensor:
    return VBS.predict_proba(Logits(pool(patches), sigma=sigma_bar(patches, case.kernel)))


def patch_average(case: Case, patches: Tensor) -> Tensor:
    sums, centre, size = window_sums(patches, case.kernel)
    softmaxes = torch.add(centre, sums, alpha=1 / size).softmax(1)
    return Averaging().predict_proba(Logits(pool(patches), mean_softmax=softmaxes.mean(2)))


def average(method: Method) -> Callable[[Case, Tensor], Tensor]:
    """Function from draws or members to probabilities."""
    return lambda case, members: method.predict_proba(Logits(members.mean(0), mean_softmax=members.softmax(2).mean(0)))


# By method: its `finish` and the FLOPs of that, then its `forward` in the variants "paper" and "vbs".
WAYS = {
    "conventional": (tempered(CONVENTIONAL), flops.conventional_flops, patches_at_once, patches_in_chunks),
    "temperature": (tempered(TEMPERATURE), flops.temperature_flops, patches_at_once, patches_in_chunks),
    "vbs": (smoothed, flops.vbs_flops, patches_at_once, patches_in_chunks),
    "naive": (patch_average, flops.naive_flops, patches_at_once, patches_in_chunks),
    "mc-dropout": (average(Averaging()), flops.average_flops, draws_at_once, draws_in_turn),
    "ensemble": (average(Averaging()), flops.average_flops, members_in_memory, members_in_turn),
}
# In the order of the table; the first is what the ratios refer to.
CONTENDERS = tuple(
    Contender(method, variant, (paper, ours)[place], finish, counted)
    for place, variant in enumerate(("paper", "vbs"))
    for method, (finish, counted, paper, ours) in WAYS.items()
)


def find_contender(method: str, variant: str) -> Contender:
    for contender in CONTENDERS:
        if (contender.method, contender.variant) == (method, variant):
            return contender
    known = ", ".join(contender.name for contender in CONTENDERS)
    raise InvalidInput(f"nothing to measure for {method!r} in variant {variant!r}", hint=f"known: {known}")
