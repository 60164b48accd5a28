"""Benchmark of noises for signals against loops over examples, and of whole suites beside the passes that follow them.

Rows come from `bench_kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from vbs_cli.bench.kernels import Duel, furthest, unlike
from vbs_cli.bench.noises import SEVERITY, by_block, by_image, generator_of
from vbs_cli.data import DATASETS, NOISES
from vbs_cli.data.base import BLOCK
from vbs_cli.data.noise import SEVERITIES, KeptDraws, distort, suites_for
from vbs_cli.data.noises import radio, signals, sound
from vbs_cli.models import build_model
from vbs_cli.views.fast import fast
from vbs_cli.views.patches import patches_of

SOUND, RADIO = (1, 20_480), (2, 1_580)  # shapes of the paper's inputs
EDGE = 2_000  # samples at either end, where scipy's filters continue the signal in another way
# Examples that the suite of each of the paper's datasets is measured on: a pass over them takes seconds.
SUITES = {"cifar10": ("images", 1_024), "radio": ("radio", 256), "librispeech": ("speech", 64)}

Rival = Callable[[np.ndarray, Tensor], np.ndarray]  # one example (C, L) and its draw -> the distorted example


def signal_duels(count: int = 1_024) -> Iterator[Duel]:
    """Duels of noises of severity 3 for sound and radio against a library that is called for each example."""
    spoken, received = (torch.randn((count, *shape), generator=seeded()) for shape in (SOUND, RADIO))
    for noise, x, rival, distorted, compare in (
        ("low-pass", spoken, "scipy, by example", scipy_low_pass, furthest_inside),
        ("reverberation", spoken, "scipy, by example", scipy_reverberation, furthest),
        ("telephone", spoken, "scipy, by example", scipy_telephone, unlike),  # values at a tie are rounded otherwise
        ("multipath", received, "numpy, by example", numpy_multipath, furthest),
        ("sampling-offset", received, "scipy, by example", scipy_sampling_offset, furthest),
    ):
        size = f"{count:,} x " + " x ".join(map(str, x.shape[1:]))
        draws = [NOISES[noise].draw(part.shape, generator_of(noise, block)) for block, part in blocks(x)]
        yield Duel(
            noise, size, rival, rival.partition(",")[0],
            by_draws(noise, x, draws), by_example(distorted, x, draws), compare, 3,
        )  # fmt: skip


def suite_duels() -> Iterator[Duel]:
    """Duels of all noises of a suite at all levels against as many passes of the paper's network over the inputs."""
    for dataset, (suite, count) in SUITES.items():
        protocol, (shape, classes) = DATASETS[dataset].protocols["paper"], DATASETS[dataset].inputs
        levels = suites_for(shape)[suite]
        n_shifts = sum(map(len, levels.values()))
        ready = fast(build_model(protocol.model, shape=shape, classes=classes, width=protocol.width), shape)
        x = torch.rand((count, *shape), generator=seeded())
        yield Duel(
            f"suite {suite}", f"{count:,} x {' x '.join(map(str, shape))}, {n_shifts} shifts",
            f"passes, width {protocol.width}", "torch",
            whole_suite(x, levels), one_pass(ready.net, x, ready.chunk), unlike, 1, rival_runs=n_shifts,
        )  # fmt: skip


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def blocks(x: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of inputs with their numbers."""
    yield from enumerate(torch.split(x, BLOCK))


def by_draws(noise: str, x: Tensor, draws: list[Tensor]) -> Callable[[], Tensor]:
    """Function that distorts the inputs by our noise with the draw of each block."""
    return by_block(x, lambda part, block: NOISES[noise].apply(part, draws[block], SEVERITIES[SEVERITY]))


def by_example(distorted: Rival, x: Tensor, draws: list[Tensor]) -> Callable[[], Tensor]:
    """Function that distorts the inputs one at a time by the same draws."""
    each = [row for draw in draws for row in torch.split(draw, 1)] if draws[0].numel() else [draws[0]] * len(x)
    return by_image(x, lambda example, position: torch.from_numpy(distorted(example.numpy(), each[position])))


def whole_suite(x: Tensor, levels: Mapping[str, Sequence[float]]) -> Callable[[], None]:
    """Function that distorts the inputs by every noise at every level; draws are kept from level to level."""

    def run() -> None:
        for block, part in blocks(x):
            draws = KeptDraws()
            for noise, of_noise in levels.items():
                for level in of_noise:
                    distort(part, noise=noise, level=level, dataset="bench", split="test", block=block, draws=draws)

    return run


def one_pass(net: torch.nn.Module, x: Tensor, chunk: int) -> Callable[[], Tensor]:
    """Function that makes one forward pass over the inputs."""

    def run() -> Tensor:
        with torch.inference_mode():
            return patches_of(net, x, device="cpu", chunk=chunk)

    return run


def furthest_inside(ours: Tensor, theirs: Tensor) -> float:
    return furthest(ours[..., EDGE:-EDGE], theirs[..., EDGE:-EDGE])


def scipy_low_pass(example: np.ndarray, _: Tensor) -> np.ndarray:
    from scipy.signal import butter, sosfiltfilt

    sections = butter(signals.ORDER, signals.CUTOFFS[SEVERITY], output="sos")
    return np.ascontiguousarray(sosfiltfilt(sections, example))


def scipy_reverberation(example: np.ndarray, tail: Tensor) -> np.ndarray:
    from scipy.signal import fftconvolve

    response = sound.room_response(tail, sound.RT60[SEVERITY], torch.float32)[0].numpy()
    heard = fftconvolve(example, response, axes=1)[:, : example.shape[1]]
    return np.asarray(heard * np.sqrt((example**2).mean() / (heard**2).mean()))


def scipy_telephone(example: np.ndarray, _: Tensor) -> np.ndarray:
    from scipy.signal import resample

    narrow = resample(example, (example.shape[1] + 1) // 2, axis=1)
    loudest = np.abs(narrow).max()
    half = (2 ** sound.BITS[SEVERITY] - 1) / 2
    scale = math.log1p(sound.MU) / half
    coded = np.round(np.copysign(np.log1p(sound.MU * np.abs(narrow / loudest)), narrow) / scale + half) - half
    decoded = np.copysign(np.expm1(np.abs(coded) * scale), coded) / sound.MU
    return np.asarray(resample(decoded * loudest, example.shape[1], axis=1))


def numpy_multipath(example: np.ndarray, drawn: Tensor) -> np.ndarray:
    path = radio.path_response(drawn, radio.ECHO_POWERS[SEVERITY], torch.float32)[0].numpy()
    heard = np.convolve(example[0] + 1j * example[1], path)[: example.shape[1]]
    return np.stack([heard.real, heard.imag])


def scipy_sampling_offset(example: np.ndarray, drawn: Tensor) -> np.ndarray:
    from scipy.interpolate import CubicHermiteSpline

    sign, delay = drawn.double().flatten().tolist()
    silence = np.zeros((len(example), 4))
    padded = np.concatenate([silence, example, silence], axis=1)
    middle = (example.shape[1] - 1) / 2
    place = np.arange(example.shape[1]) - middle
    position = middle + place * (1 + sign * radio.RATES[SEVERITY]) - SEVERITIES[SEVERITY] * delay
    spline = CubicHermiteSpline(np.arange(padded.shape[1]) - 4, padded, np.gradient(padded, axis=1), axis=1)
    return np.asarray(spline(position.clip(-3, example.shape[1] + 2)))
