"""The predictions that are compared, each from input to probabilities and with no more than its method needs.

`Logits.from_patches` prepares for every method at once, so a record made by it would charge each method for
all of them. Here a record holds what its method reads, made by the same functions. As in `vbs_cli.forward`,
the network runs on its device and the rest on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vbs_cli.bench import flops
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits, pool, sigma_bar
from vbs_cli.methods.base import METHODS
from vbs_cli.methods.conventional import Conventional
from vbs_cli.methods.temperature import TemperatureScaling
from vbs_cli.methods.variance import VarianceSmoothing
from vbs_cli.models.dropout import use_generator
from vbs_cli.seeding import generator

# As after fitting. The numbers do not matter for the cost; beta = 1 has every example smoothed.
CONVENTIONAL = Conventional()
TEMPERATURE = TemperatureScaling(value=1.5)
VBS = VarianceSmoothing(alpha=1.0, beta=1.0)


@dataclass(frozen=True)
class Case:
    """What a prediction needs besides its input."""

    model: nn.Module
    kernel: int
    draws: int


@dataclass(frozen=True)
class Contender:
    """One way to predict: "paper" as the paper ran it, "vbs" as vbs runs it where that differs."""

    method: str
    variant: str
    predict: Callable[[Case, Tensor], Tensor]  # (B, *shape) -> (B, K)
    flops: Callable[[flops.Head], int]  # of one example, after the network
    all_draws_at_once: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} ({self.variant})"

    @property
    def dropout(self) -> bool:
        """Whether the method runs the network that has dropouts."""
        return METHODS[self.method].model == "dropout"


def draw_generator(draw: int, device: torch.device) -> torch.Generator:
    return generator("bench", "draw", draw, device=device)


def conventional(case: Case, x: Tensor) -> Tensor:
    return CONVENTIONAL.predict_proba(Logits(pool(case.model(x).cpu())))


def temperature(case: Case, x: Tensor) -> Tensor:
    return TEMPERATURE.predict_proba(Logits(pool(case.model(x).cpu())))


def smoothed(case: Case, x: Tensor) -> Tensor:
    patches = case.model(x).cpu()
    return VBS.predict_proba(Logits(pool(patches), sigma=sigma_bar(patches, case.kernel)))


def draws_at_once(case: Case, x: Tensor) -> Tensor:
    """MC-dropout with all draws in one batch of draws * B."""
    use_generator(case.model, draw_generator(0, x.device))
    probs = conventional(case, x.repeat(case.draws, *(1 for _ in x.shape[1:])))
    use_generator(case.model, None)
    return probs.view(case.draws, len(x), -1).mean(0)


def draws_in_turn(case: Case, x: Tensor) -> Tensor:
    """MC-dropout draw after draw, averaged as it goes: the memory of one draw."""
    total = torch.zeros((), dtype=torch.float64)
    for draw in range(case.draws):
        use_generator(case.model, draw_generator(draw, x.device))
        total = total + conventional(case, x)
    use_generator(case.model, None)
    return total / case.draws


# In the order of the table; the first is what the ratios refer to.
CONTENDERS = (
    Contender("conventional", "paper", conventional, flops.conventional_flops),
    Contender("temperature", "paper", temperature, flops.temperature_flops),
    Contender("vbs", "paper", smoothed, flops.vbs_flops),
    Contender("mc-dropout", "paper", draws_at_once, flops.mc_dropout_flops, all_draws_at_once=True),
    Contender("mc-dropout", "vbs", draws_in_turn, flops.mc_dropout_flops),
)


def find_contender(method: str, variant: str) -> Contender:
    for contender in CONTENDERS:
        if (contender.method, contender.variant) == (method, variant):
            return contender
    known = ", ".join(contender.name for contender in CONTENDERS)
    raise InvalidInput(f"nothing to measure for {method!r} in variant {variant!r}", hint=f"known: {known}")
