"""Tables of a run that never was: made by formula, with a little seeded scatter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

from vbs_cli.plots import Tables

K = 20
SMOOTHING = {"conventional": 1.0, "temperature": 1.1, "vbs": 1.2, "mc-dropout": 1.4}
ENSEMBLES = {"ensemble": 1.3, "vbs-ensemble": 1.4}
MakeTables = Callable[..., Tables]


@pytest.fixture(scope="session")
def make_tables() -> MakeTables:
    """`make_tables(n_seeds=3, noises=("gaussian", "speckle"), ...)`."""
    return tables


def tables(
    *,
    n_seeds: int = 3,
    noises: Sequence[str] = ("gaussian", "speckle"),
    n_levels: int = 6,
    methods: Sequence[str] = tuple(SMOOTHING),
    dataset: str = "radio",
    source: str = "simulated (vbs radio simulator, seed 0)",
    n_classes: int = K,
    shape: tuple[int, ...] = (2, 64),
) -> Tables:
    """The tables of one run, with `dataset` and `source` in front; the study has an ensemble per seed."""
    frames = (
        metrics_table(n_seeds, noises, n_levels, methods),
        reliability_table(n_seeds, methods),
        training_table(n_seeds),
        metrics_table(n_seeds, noises, n_levels, tuple(ENSEMBLES)).query("noise != 'clean'"),
        distributions_table(noises, n_levels, n_classes),
        intervals_table(metrics_table(n_seeds, noises, n_levels, methods), n_levels),
        proxy_table(noises),
        coverage_table(n_seeds, noises, methods),
        examples_table(noises, shape),
        bench_table(methods),
        intervals_table(metrics_table(n_seeds, noises, n_levels, tuple(ENSEMBLES)), n_levels, every=True),
    )
    for frame in frames:
        frame.insert(0, "dataset", dataset)
        frame.insert(1, "source", source)
    return Tables(*frames)


def metrics_table(n_seeds: int, noises: Sequence[str], n_levels: int, methods: Sequence[str]) -> pd.DataFrame:
    """Clean rows and a sweep; temperature and vbs have the accuracy of conventional."""
    steps = [("clean", 0.0), *itertools.product(noises, np.linspace(0, 1, n_levels).tolist())]
    rows = []
    for seed, (noise, level), method in itertools.product(range(n_seeds), steps, methods):
        power = level * (1 - 0.15 * noises.index(noise)) if noise in noises else 0.0
        rows += [(seed, method, noise, level, metric, value) for metric, value in scores(seed, method, power).items()]
    return pd.DataFrame(rows, columns=["seed", "method", "noise", "level", "metric", "value"])


def scores(seed: int, method: str, power: float) -> dict[str, float]:
    """Scores that fall apart with the power of the noise, less so the smoother the method is."""
    wobble = np.random.default_rng([seed, round(1000 * power)]).normal(0, 0.01)
    smoothing = (SMOOTHING | ENSEMBLES).get(method, 1.3)
    network = 0.9 if method == "mc-dropout" else 1.0
    accuracy = 0.05 + 0.9 * network * math.exp(-4 * power**2) + wobble
    confidence = max(0.98 - 0.03 * smoothing - 1.4 * power * (smoothing - 0.9), accuracy - 0.05)
    entropy = (1 - confidence) * math.log(K) * 1.3
    return {
        "accuracy": accuracy,
        "nll": -math.log(accuracy) + 4 * (confidence - accuracy) ** 2,
        "brier": (1 - accuracy) * 0.7 + (confidence - accuracy) ** 2,
        "ece": abs(confidence - accuracy),
        "ece_chance": 0.01 + abs(wobble) / 10,
        "entropy": entropy,
        "kl_uniform": math.log(K) - entropy,
        "sigma_bar": 1.5 + 1.2 * power + 3 * wobble,
        "patch_accuracy": 0.3 * accuracy,
        "aurc": (1 - accuracy) / 2,
        **dict.fromkeys(("auroc_confidence", "auroc_entropy", "auroc_sigma"), 0.5 + 0.4 * accuracy),
        "fpr95_confidence": 1 - accuracy / 2,
    }


def reliability_table(n_seeds: int, methods: Sequence[str]) -> pd.DataFrame:
    """Ten bins, the first two empty in all seeds, the third in all seeds but the first."""
    rows = []
    for seed, method, index in itertools.product(range(n_seeds), methods, range(10)):
        count = 0 if index < 2 or (index == 2 and seed > 0) else round(3 * 2.1 ** (index - 1)) + seed
        rng = np.random.default_rng([seed, index, len(method)])
        confidence = index / 10 + 0.055
        accuracy = confidence - 0.15 + 0.1 * SMOOTHING.get(method, 1.3) + rng.normal(0, 0.3 / math.sqrt(count + 1))
        mean = (min(max(accuracy, 0.0), 1.0), confidence) if count else (math.nan, math.nan)
        rows.append((seed, method, index, index / 10, (index + 1) / 10, count, *mean))
    columns = ["seed", "method", "bin", "lower", "upper", "count", "accuracy", "confidence"]
    return pd.DataFrame(rows, columns=columns)


def training_table(n_seeds: int) -> pd.DataFrame:
    """Thirty epochs of two models."""
    rows = []
    for seed, model, epoch in itertools.product(range(n_seeds), ("conventional", "dropout"), range(1, 31)):
        wobble = np.random.default_rng([seed, epoch]).normal(0, 0.02)
        loss = 3 * math.exp(-epoch / (6 if model == "conventional" else 9)) + 0.05
        progress = 1 - loss / 3.2
        rows.append((seed, model, epoch, loss, progress, loss * 1.1 + 0.1 + wobble, progress - 0.04 - wobble, 12.5))
    columns = ["seed", "model", "epoch", "loss", "accuracy", "val_loss", "val_accuracy", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def distributions_table(noises: Sequence[str], n_levels: int, n_classes: int) -> pd.DataFrame:
    """Predictions of five inputs, each with a label of its own; the smoothed ensemble has half the logits."""
    rows = []
    levels = np.linspace(0, 1, n_levels).tolist()
    for method, noise, level, rank in itertools.product(ENSEMBLES, noises, levels, (0.0, 0.25, 0.5, 0.75, 1.0)):
        example = round(40 * rank) + 1
        logits = np.random.default_rng([example, round(1000 * level), len(noise)]).normal(0, 3, n_classes)
        weights = np.exp(logits / (2 if method == "vbs-ensemble" else 1))
        where = (method, noise, level, example, rank, 3 * example % n_classes)
        rows += [(*where, index, probability) for index, probability in enumerate((weights / weights.sum()).tolist())]
    columns = ["method", "noise", "level", "example", "rank", "label", "class", "probability"]
    return pd.DataFrame(rows, columns=columns)


def intervals_table(metrics: pd.DataFrame, n_levels: int, *, every: bool = False) -> pd.DataFrame:
    """Clean data and the middle level of each noise (or every level): means over seeds, 0.01 to either side.

    Differences are 0.004 to either side; those of equal values are no interval at all.
    """
    levels = np.linspace(0, 1, n_levels).tolist()
    middle = min((level for level in levels if level > 0), key=lambda level: abs(level - 0.5), default=0.0)
    shown = metrics[(metrics["noise"] == "clean") | (metrics["level"] == middle)]
    shown = metrics[metrics["noise"] != "clean"] if every else shown
    rows = []
    for (noise, level, metric), group in shown.groupby(["noise", "level", "metric"], sort=False):
        means = group.groupby("method", sort=False)["value"].mean()
        for method, value in means.items():
            rows.append((noise, level, method, "", metric, value, value - 0.01, value + 0.01))
            for other in means.index.drop(method):
                apart = value - means[other]
                room = 0.004 if apart else 0.0
                rows.append((noise, level, method, other, metric, apart, apart - room, apart + room))
    columns = ["noise", "level", "method", "baseline", "metric", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def proxy_table(noises: Sequence[str]) -> pd.DataFrame:
    """A spread that rises with the noise and finds errors a little worse than confidence does."""
    values = {
        **{"sigma_clean": 1.5, "sigma_most": 2.7, "error_clean": 0.05, "error_most": 0.9, "rank_correlation": 0.98},
        **{"auroc_sigma": 0.7, "auroc_confidence": 0.8, "auroc_gain": -0.1, "patch_accuracy": 0.28},
    }
    rows = [
        (noise, model, quantity, value, value - 0.02, value + 0.02)
        for noise, model in itertools.product(noises, ("conventional", "dropout"))
        for quantity, value in values.items()
    ]
    return pd.DataFrame(rows, columns=["noise", "model", "quantity", "value", "low", "high"])


def coverage_table(n_seeds: int, noises: Sequence[str], methods: Sequence[str]) -> pd.DataFrame:
    """Risk that grows with coverage, more so under noise."""
    conditions = [("clean", 0.0), *((noise, 0.6) for noise in noises)]
    rows = [
        (seed, method, noise, level, share, (0.1 + level) * share / SMOOTHING.get(method, 1.3) + 0.005 * seed)
        for seed, method, (noise, level) in itertools.product(range(n_seeds), methods, conditions)
        for share in np.linspace(0.02, 1, 50).tolist()
    ]
    return pd.DataFrame(rows, columns=["seed", "method", "noise", "level", "coverage", "risk"])


def examples_table(noises: Sequence[str], shape: tuple[int, ...]) -> pd.DataFrame:
    """One input, a wave over all its numbers, under noise that is drawn once and scaled."""
    clean = np.sin(np.linspace(0, 40, math.prod(shape))) * 0.5 + (0.5 if len(shape) == 3 else 0)
    rows = []
    for noise, level in itertools.product(noises, (0.0, 0.25, 0.5, 0.75, 1.0)):
        draw = np.random.default_rng(len(noise)).normal(size=clean.shape)
        rows.append((noise, level, 7, 3, list(shape), (clean + level * draw).tolist()))
    return pd.DataFrame(rows, columns=["noise", "level", "example", "label", "shape", "values"])


def bench_table(methods: Sequence[str]) -> pd.DataFrame:
    """MC-dropout costs ten times as much as the others; as vbs runs them, all take half the time and memory."""
    rows = []
    for variant, part in (("paper", 1.0), ("vbs", 0.5)):
        for method in methods:
            times = 10.0 if method == "mc-dropout" else 1.0
            ratios = {"memory": part * times, "allocated": times, "latency": part * times, "flops": times}
            rows.append(
                {
                    "method": method,
                    "variant": variant,
                    **{f"{name}_ratio": ratio for name, ratio in ratios.items()},
                    "memory_bytes": 1e7 * part * times,
                    "memory_deviation": 1e5,
                    "traced_bytes": 1e7 * part * times,
                    "latency_ms": 12.0 * part * times,
                    "latency_p95_ms": 13.0 * part * times,
                    "after_ms": 0.2,
                    "example_ms": 0.1 * part * times,
                    "throughput": 1e4 / (part * times),
                    "flops": 5e8 * times,
                    "parameters": 1e6,
                    "gemm_flops": 2e11,
                    "gemm_share": 0.4 / part,
                    "batch": 128,
                }
            )
    return pd.DataFrame(rows)
