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
) -> Tables:
    """The tables of one run, with `dataset` and `source` in front; the study has an ensemble per seed."""
    frames = (
        metrics_table(n_seeds, noises, n_levels, methods),
        reliability_table(n_seeds, methods),
        training_table(n_seeds),
        metrics_table(n_seeds, noises, n_levels, tuple(ENSEMBLES)).query("noise != 'clean'"),
        distributions_table(noises, n_levels, n_classes),
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
