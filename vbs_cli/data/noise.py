"""Noise of strength lambda: one standard draw per example, scaled by the level.

The draw depends on dataset, split, noise and position alone. So every model and method sees the same noisy input,
comparisons are paired, and curves over the level are smooth. The noises themselves are in `noises`, a file per kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps

import numpy as np
import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.registry import Registry, join_names
from vbs_cli.seeding import generator

KEPT_BYTES = 512 * 2**20  # of draws: enough for two noises on the whole test split of each of the paper's datasets
# Kinds of inputs, told by their shape.
COLOUR, IMAGES, SOUND, RADIO, SIGNALS = "colour images", "images", "sound", "radio", "signals"
PICTURES, WAVES = (COLOUR, IMAGES), (SOUND, RADIO, SIGNALS)
ANY = (*PICTURES, *WAVES)
GENERAL = {COLOUR: IMAGES, SOUND: SIGNALS, RADIO: SIGNALS}  # the wider kind that a kind belongs to
SEVERITIES = (0.2, 0.4, 0.6, 0.8, 1.0)  # levels of the severities 1 to 5
Draw = Callable[[torch.Size, torch.Generator], Tensor]
Apply = Callable[[Tensor, Tensor, float], Tensor]


@dataclass(frozen=True)
class Noise:
    """Kind of noise: `draw` makes standard randomness for a block of inputs, `apply` distorts them by it to a level.

    Draws are reused at the next level, so `apply` must not change them.
    """

    draw: Draw
    apply: Apply  # inputs, draw, level
    family: str = "noise"  # shifts of one family have one cause; summaries group by it
    kinds: Sequence[str] = ANY  # kinds of inputs that it suits
    most: float = math.inf  # highest level that is defined
    monotone: bool = True  # whether a higher level never brings inputs nearer to the clean ones


@dataclass(frozen=True)
class Suite:
    """Noises that belong together, each with its levels at the severities 1, 2, ...

    Inputs of a kind that some of the noises do not suit take the others.
    """

    summary: str
    kinds: Sequence[str]
    levels: Mapping[str, Sequence[float]]  # by noise


NOISES: Registry[Noise] = Registry("noise")
SUITES: Registry[Suite] = Registry("suite")


def no_draw(shape: torch.Size, rng: torch.Generator) -> Tensor:
    """Draw of a noise that is the same for every example."""
    return torch.empty(0)


def noise(
    name: str,
    *,
    draw: Draw = no_draw,
    family: str,
    kinds: Sequence[str],
    most: float = math.inf,
    monotone: bool = True,
    revision: int = 1,
) -> Callable[[Apply], Apply]:
    """Decorator: enter a function of inputs, draw and level as a noise; it gets inputs of single precision or more."""

    def enter(apply: Apply) -> Apply:
        @wraps(apply)
        def as_given(x: Tensor, drawn: Tensor, level: float) -> Tensor:
            return apply(x.to(torch.promote_types(x.dtype, torch.float32)), drawn, level).to(x.dtype)

        NOISES.register(name, revision=revision)(Noise(draw, as_given, family, kinds, most, monotone))
        return apply

    return enter


class KeptDraws:
    """Cache of the draws for the blocks of a split, up to `bound` bytes, which the pass at the next level reuses."""

    def __init__(self, bound: int = KEPT_BYTES) -> None:
        self.free = bound
        self._kept: dict[Hashable, Tensor] = {}

    def get(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Draw kept for this key, or make it. The first ones are kept, since every pass reads all blocks in turn."""
        found = self._kept.get(key)
        if found is None:
            found = make()
            if found.nbytes <= self.free:
                self._kept[key] = found
                self.free -= found.nbytes
        return found


def distort(
    x: Tensor, *, noise: str, level: float, dataset: str, split: str, block: int, draws: KeptDraws | None = None
) -> Tensor:
    """Distort one block of inputs; level 0 is the identity. `draws` keeps the randomness for further levels."""
    if not 0 <= level < math.inf:
        raise InvalidInput(f"there is no noise of level {level}", hint="levels are finite numbers from 0 on")
    if level == 0:
        return x
    chosen = NOISES[noise]
    check_suits(noise, tuple(x.shape[1:]))
    check_level(noise, level)

    def make() -> Tensor:
        # A tensor made in inference mode could not be used later where gradients are needed.
        with torch.inference_mode(False):
            return chosen.draw(x.shape, generator(dataset, split, noise, block))

    draw = make() if draws is None else draws.get((dataset, split, noise, block, x.shape), make)
    return chosen.apply(x, draw, level)


def kind_of(shape: Sequence[int]) -> str:
    """Kind of inputs of this shape: images (C, H, W); signals of one channel are sound, of two (I and Q) radio."""
    if len(shape) == 3:
        return COLOUR if shape[0] == 3 else IMAGES
    return {1: SOUND, 2: RADIO}.get(shape[0], SIGNALS)


def noises_for(shape: Sequence[int]) -> list[str]:
    """Names of the noises that suit inputs of this shape."""
    return [name for name, noise in NOISES.items() if kind_of(shape) in noise.kinds]


def families_for(shape: Sequence[int]) -> list[str]:
    """Families of the noises that suit inputs of this shape."""
    return list(dict.fromkeys(NOISES[name].family for name in noises_for(shape)))


def suites_for(shape: Sequence[int]) -> dict[str, dict[str, Sequence[float]]]:
    """Suites for inputs of this shape by name: the levels of each of their noises that suits them.

    Of logits without inputs, whose shape is (), nothing is known, so all suites are whole.
    """
    if not shape:
        return {name: dict(suite.levels) for name, suite in SUITES.items()}
    kind = kind_of(shape)
    return {
        name: {noise: levels for noise, levels in suite.levels.items() if kind in NOISES[noise].kinds}
        for name, suite in SUITES.items()
        if kind in suite.kinds
    }


def check_suits(noise: str, shape: Sequence[int]) -> None:
    """Refuse a noise that is for other inputs, naming those that suit these."""
    if (kind := kind_of(shape)) in (kinds := NOISES[noise].kinds):
        return
    takes = f"{kind} take{'s' if kind in (SOUND, RADIO) else ''} {', '.join(noises_for(shape))}"
    raise InvalidInput(f"{noise} is a noise for {join_kinds(kinds)}", hint=takes)


def join_kinds(kinds: Sequence[str]) -> str:
    """Join kinds of inputs as in a sentence, without those that a wider one among them includes."""
    return join_names([kind for kind in kinds if GENERAL.get(kind) not in kinds])


def check_level(noise: str, level: float) -> None:
    """Refuse a level beyond the last one that a noise defines."""
    if level > (most := NOISES[noise].most):
        raise InvalidInput(f"{noise} noise has no level {level:g}", hint=f"its levels end at {most:g}")


def graded(level: float, *values: float) -> float:
    """Strength at a level, linear between the given values: at level 0, then at the severities 1 to 5."""
    return float(np.interp(level, (0.0, *SEVERITIES), values))
