"""Benchmark of method and metric kernels against the usual libraries and loops, on the same arrays."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vbs_cli.logits import sigma_bar
from vbs_cli.methods.temperature import fit_by_adam, fit_temperature
from vbs_cli.metrics import score
from vbs_cli.models import build_model
from vbs_cli.models.conv1d import STRIDES_RADIO, STRIDES_SPEECH, signal_network
from vbs_cli.views.fast import fast
from vbs_cli.views.taps import find_taps, summary

LEVELS = 20
BINS = 15


@dataclass(frozen=True)
class Duel:
    """Comparison of two ways to the same result; `max_diff` computes how far both results differ."""

    kernel: str
    size: str
    rival: str  # its name in the table
    needs: str  # module that it is in
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    max_diff: Callable[[Any, Any], float]
    repeats: int = 7
    rival_runs: int = 1  # runs of the rival that one of ours stands for


def bench_kernels(
    every: Iterable[Duel], *, advance: Callable[[int], None] = lambda count: None
) -> Iterator[dict[str, Any]]:
    """Rows of kernel, size, rival, ours_ms, rival_ms, ratio, max_diff; numbers are None if a rival is not installed."""
    for duel in every:
        there = find_spec(duel.needs) is not None
        times = fight(duel) if there else {"ours_ms": None, "rival_ms": None, "ratio": None, "max_diff": None}
        yield {"kernel": duel.kernel, "size": duel.size, "rival": duel.rival, **times}
        advance(1)


def fight(duel: Duel) -> dict[str, float]:
    """Medians over runs in turn, so that both meet the same conditions, after one warm-up run each."""
    max_diff = duel.max_diff(duel.ours(), duel.theirs())
    times: dict[str, list[float]] = {"ours": [], "rival": []}
    for _ in range(duel.repeats):
        for name, run in (("ours", duel.ours), ("rival", duel.theirs)):
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    ours, rival = median(times["ours"]), duel.rival_runs * median(times["rival"])
    return {"ours_ms": ours, "rival_ms": rival, "ratio": rival / ours, "max_diff": max_diff}


def duels() -> list[Duel]:
    """Duels of all kernels, at the sizes of the paper's datasets."""
    return [
        *metric_duels(),
        *temperature_duels(9_900, 20),
        *temperature_duels(2_854, 251),
        *sigma_duels(patches=79, kernel=10, classes=20, shape=(2, 1_580), strides=STRIDES_RADIO),
        *sigma_duels(patches=128, kernel=40, classes=251, shape=(1, 20_480), strides=STRIDES_SPEECH),
        tap_duel("nin", (3, 32, 32), width=192),
        tap_duel("conv1d-radio", (2, 1_580), width=512),
    ]


def metric_duels() -> Iterator[Duel]:
    """Duels of the scores, at the size of 20 noise levels of the radio test split."""
    levels = [overconfident(20_100, 20, seed=level) for level in range(LEVELS)]
    probs = [(logits.double().softmax(1), labels) for logits, labels in levels]
    size = f"{LEVELS} x 20,100 x 20"

    def ours() -> list[dict[str, float]]:
        return [score(p, y) for p, y in probs]

    def each(scores: Callable[[Tensor, Tensor], dict[str, float]]) -> Callable[[], list[dict[str, float]]]:
        return lambda: [scores(p, y) for p, y in probs]

    yield Duel("six scores", size, "torchmetrics", "torchmetrics", ours, each(torchmetrics_scores), largest_gap, 5)
    yield Duel("six scores", size, "probmetrics (three)", "probmetrics", ours, each(probmetrics_scores), largest_gap, 5)
    yield Duel("six scores", size, "batches, a loop over bins", "torch", ours, each(batchwise_scores), largest_gap, 1)
    p, y = probs[0]
    arrays = p.numpy(), y.numpy()
    yield Duel(
        "ECE", "20,100 x 20", "netcal", "netcal",
        lambda: score(p, y, metrics=["ece"])["ece"], lambda: netcal_ece(*arrays), lambda a, b: abs(a - b), 15,
    )  # fmt: skip


def temperature_duels(examples: int, classes: int) -> Iterator[Duel]:
    """Duels of the temperature fit. `max_diff`: how much lower the rival's NLL is; only rounding if ours is least."""
    logits, labels = overconfident(examples, classes)

    def excess(ours: tuple[float, bool], theirs: tuple[float, bool]) -> float:
        nll = [float(F.cross_entropy(logits.double() / t, labels)) for t, _ in (ours, theirs)]
        return max(nll[0] - nll[1], 0.0)

    def ours() -> tuple[float, bool]:
        return fit_temperature(logits, labels)

    size = f"{examples:,} x {classes}"
    yield Duel(
        "temperature fit", size, "the paper's Adam recipe", "torch",
        ours, lambda: fit_by_adam(logits, labels), excess, 5,
    )  # fmt: skip
    yield Duel(
        "temperature fit", size, "probmetrics", "probmetrics",
        ours, lambda: probmetrics_temperature(logits, labels), excess, 5,
    )  # fmt: skip


def sigma_duels(
    *, patches: int, kernel: int, classes: int, shape: tuple[int, int], strides: tuple[int, ...]
) -> Iterator[Duel]:
    """Duels of the spread, against its formula and against the forward pass that it adds to."""
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(32, classes, patches, generator=rng)
    size = f"{classes} x {patches}, window {kernel}"
    yield Duel(
        "sigma_bar", f"32 x {size}", "avg_pool1d, then std", "torch",
        lambda: sigma_bar(z, kernel=kernel), lambda: pool_then_std(z, kernel), furthest, 31,
    )  # fmt: skip
    network = signal_network(channels=shape[0], classes=classes, width=512, dropout=0.0, strides=strides).eval()
    x = torch.randn(32, *shape, generator=rng)
    output = [forward(network, x)]  # output of the last pass

    def pass_again() -> None:
        output[0] = forward(network, x)

    yield Duel(
        "sigma_bar", f"32 x {size}", "forward pass, width 512", "torch",
        lambda: sigma_bar(output[0], kernel=kernel), pass_again, unlike, 5,
    )  # fmt: skip


def tap_duel(model: str, shape: tuple[int, ...], *, width: int) -> Duel:
    """Duel of the summaries of intermediate activations against the forward pass that they add to."""
    ready = fast(build_model(model, shape=shape, classes=10, width=width), shape)
    x = torch.randn(32, *shape, generator=torch.Generator().manual_seed(0))
    taps = find_taps(ready.net, shape)
    outputs: dict[str, Tensor] = {}
    for name, layer in ready.net.named_modules():
        if name in taps.channels:
            layer.register_forward_hook(lambda layer, inputs, output, name=name: outputs.update({name: output}))

    def one_pass() -> None:
        with torch.inference_mode():
            for part in torch.split(x, ready.chunk):
                ready.net(part)

    def summaries() -> None:
        with torch.inference_mode():
            for _ in torch.split(x, ready.chunk):
                for output in outputs.values():
                    summary(output)

    one_pass()
    size = f"32 x {len(taps.channels)} layers, {model}"
    return Duel("activations", size, f"forward pass, width {width}", "torch", summaries, one_pass, unlike, 7)


def overconfident(examples: int, classes: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits twice as sharp as the distributions that their labels were drawn from: (N, K), (N,)."""
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(examples, classes, generator=rng)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return 2 * logits, labels


def torchmetrics_scores(p: Tensor, y: Tensor) -> dict[str, float]:
    """Six scores by torchmetrics' functional forms, and by plain torch where it has none."""
    from torchmetrics.functional.classification import multiclass_accuracy, multiclass_calibration_error
    from torchmetrics.functional.regression import kl_divergence

    classes = p.shape[1]
    return {
        "accuracy": float(multiclass_accuracy(p, y, classes, average="micro")),
        "nll": float(F.nll_loss(p.log(), y)),
        "brier": float((p - F.one_hot(y, classes)).square().sum(1).mean()),
        "ece": float(multiclass_calibration_error(p, y, classes, n_bins=BINS)),
        "entropy": float(-(p * p.log()).sum(1).mean()),
        "kl_uniform": float(kl_divergence(p, torch.full_like(p, 1 / classes))),
    }


def probmetrics_scores(p: Tensor, y: Tensor) -> dict[str, float]:
    """Three of the six scores, those that probmetrics has."""
    from probmetrics.metrics import Metrics

    found = Metrics.from_names(["logloss", "brier", f"ece-{BINS}"]).compute_all_from_labels_probs(y, p)
    return dict(zip(("nll", "brier", "ece"), map(float, found.values()), strict=True))


def batchwise_scores(p: Tensor, y: Tensor) -> dict[str, float]:
    """Six scores as scripts compute them: in batches of 32, with a loop over bins for ECE, then the mean over batches.

    A mean of the ECEs of batches is biased upwards, which is why it differs.
    """
    classes = p.shape[1]
    batches = []
    for start in range(0, len(y), 32):
        q, t = p[start : start + 32], y[start : start + 32]
        confidence, predicted = q.max(1)
        right = (predicted == t).double()
        ece = 0.0
        for b in range(BINS):
            inside = (confidence > b / BINS) & (confidence <= (b + 1) / BINS)
            share = inside.double().mean().item()
            if share > 0:
                ece += share * abs(right[inside].mean().item() - confidence[inside].mean().item())
        batches.append(
            {
                "accuracy": right.mean().item(),
                "nll": F.nll_loss(q.log(), t).item(),
                "brier": (q - F.one_hot(t, classes)).square().sum(1).mean().item(),
                "entropy": -(q * q.log()).sum(1).mean().item(),
                "kl_uniform": (q * (q.log() + math.log(classes))).sum(1).mean().item(),
                "ece": ece,
            }
        )
    return {name: sum(batch[name] for batch in batches) / len(batches) for name in batches[0]}


def netcal_ece(p: Any, y: Any) -> float:
    from netcal.metrics import ECE

    return float(ECE(bins=BINS).measure(p, y))


def probmetrics_temperature(logits: Tensor, labels: Tensor) -> tuple[float, bool]:
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    fitted = TemperatureScalingCalibrator().fit_torch(CategoricalLogits(logits), labels)
    return 1 / float(fitted.invtemp_), True


def pool_then_std(z: Tensor, kernel: int) -> Tensor:
    """Spread by its formula as it is written: (N, K, T) -> (N,)."""
    return F.avg_pool1d(z, kernel, stride=1).std(2).mean(1)


@torch.inference_mode()
def forward(network: torch.nn.Module, x: Tensor) -> Tensor:
    y: Tensor = network(x)
    return y


def furthest(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max())


def unlike(ours: Any, theirs: Any) -> float:
    """NaN, for two results that are not the same quantity."""
    return math.nan


def largest_gap(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> float:
    """Largest difference over all levels and the scores that both have."""
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a[name] - b[name]) for a, b in pairs for name in a.keys() & b.keys())
