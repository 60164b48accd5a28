"""A run: its settings, its artifacts, and the lock that keeps two processes from working on it at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from vbs_cli import files, locks
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.logits import Logits
from vbs_cli.methods import Method
from vbs_cli.pairs import find_pair, method_of
from vbs_cli.protocols import from_toml
from vbs_cli.run import formats, layout
from vbs_cli.run.store import PARTS, Store
from vbs_cli.settings import Settings, to_toml
from vbs_cli.views import folder_of

PART_WAIT = 30.0  # seconds to wait for a process that was asked to stop to release its part


@dataclass(frozen=True)
class Run:
    """Run directory with its settings, from which tables, logits and fitted methods are read, checked by their hash."""

    path: Path
    settings: Settings
    store: Store

    @property
    def metrics(self) -> pd.DataFrame:
        """Table of metrics: dataset, source, seed, method, noise, level, metric, value."""
        return self.table(layout.METRICS)

    @property
    def reliability(self) -> pd.DataFrame:
        """Table of reliability: dataset, source, seed, method, bin, lower, upper, count, accuracy, confidence."""
        return self.table(layout.RELIABILITY)

    @property
    def intervals(self) -> pd.DataFrame:
        """Table of intervals: dataset, source, noise, level, method, baseline (or ""), metric, value, low, high."""
        return self.table(layout.INTERVALS)

    @property
    def shifts(self) -> pd.DataFrame:
        """Table of mean and worst scores over shifts.

        Columns: dataset, source, suite ("" is all that was swept), over, name, severity, statistic, method, baseline
        (or ""), metric, value, low, high, conditions.
        """
        return self.table(layout.SHIFTS)

    @property
    def proxy(self) -> pd.DataFrame:
        """Table of how well the spread indicates errors: dataset, source, noise, view, quantity, value, low, high."""
        return self.table(layout.PROXY)

    @property
    def coverage(self) -> pd.DataFrame:
        """Table of error rates among the most confident predictions.

        Columns: dataset, source, seed, method, noise, level, coverage, risk.
        """
        return self.table(layout.COVERAGE)

    @property
    def study_metrics(self) -> pd.DataFrame:
        """Metrics of the ensemble study, with the columns of `metrics`."""
        return self.table(layout.STUDY_METRICS)

    @property
    def study_intervals(self) -> pd.DataFrame:
        """Intervals of the ensemble study, with the columns of `intervals`."""
        return self.table(layout.STUDY_INTERVALS)

    @property
    def study_distributions(self) -> pd.DataFrame:
        """Whole predicted distributions of a few examples at every level of the ensemble study."""
        return self.table(layout.STUDY_DISTRIBUTIONS)

    @property
    def training(self) -> pd.DataFrame:
        """Loss and accuracy per seed, network and epoch."""
        tables = [self.table(name) for name in self.training_tables()]
        if not tables:
            raise MissingArtifact(f"{self.path} has no trained network", hint="vbs train makes them")
        return pd.concat(tables, ignore_index=True).rename(columns={"model": "network"})  # column of earlier versions

    def training_tables(self) -> list[str]:
        """Names of the training tables of the run's seeds, without those left from when the run had more seeds."""
        seeds = tuple(f"seed-{seed}/" for seed in range(self.settings.seeds))
        return [name for name in self.store.entries if name.startswith(seeds) and name.endswith(".training.parquet")]

    @property
    def methods(self) -> dict[int, dict[str, Method]]:
        """Fitted methods keyed by seed and name; those that read all seeds together have seed -1."""
        stored = json.loads(self.store.read(layout.METHODS))
        return {
            int(seed): {name: method_of(find_pair(name), values) for name, values in fitted.items()}
            for seed, fitted in stored.items()
        }

    def logits(
        self,
        seed: int,
        split: str = "test",
        *,
        view: str = "patches",
        noise: str = layout.CLEAN,
        level: float = 0.0,
    ) -> Logits:
        """Record of the pass of one seed over a split."""
        return formats.logits_from(self.store.read(layout.logits(seed, folder_of(view), split, noise, level)))

    def table(self, name: str) -> pd.DataFrame:
        return formats.table_from(self.store.read(name))

    @contextmanager
    def settings_saved(self) -> Iterator[None]:
        """Save the settings before the block, and restore the former ones if the block raises InvalidInput."""
        path = self.path / layout.SETTINGS
        before = path.read_bytes() if path.is_file() else None
        after = to_toml(self.settings)
        if before != after:
            files.write_bytes(path, after)
        try:
            yield
        except InvalidInput:
            if before is None:
                path.unlink()
            elif before != after:
                files.write_bytes(path, before)
            raise


@contextmanager
def locked(run: Run) -> Iterator[Run]:
    """Lock a run for the block and read its manifest anew; parts that other processes work on are left to them."""
    with locks.locked(run.path, hint="wait for it or choose another --run"):
        store = Store(run.path)
        busy = [part for part in part_locks(run.path) if locks.is_held(run.path / PARTS, name=lock_of(part))]
        if not busy:
            files.remove_temporaries(run.path)
        for part in store.parts():
            if part not in busy:
                store.take_over(part)
        store.written = 0
        yield replace(run, store=store)


@contextmanager
def part_of(run: Run, part: str, *, wait: float = PART_WAIT) -> Iterator[Run]:
    """Lock one part of a run for the block; its artifacts go to a manifest of its own until the run takes them over."""
    hint = "wait until it is done there"
    with locks.locked(run.path / PARTS, hint=hint, name=lock_of(part), wait=wait):
        yield replace(run, store=Store(run.path, part=part))


def part_locks(path: Path) -> list[str]:
    """Names of the parts that a process works or has worked on."""
    return [lock.stem for lock in (path / PARTS).glob("*.lock")]


def lock_of(part: str) -> str:
    return f"{part}.lock"


def open_run(path: Path | str) -> Run:
    """Open the run in this folder."""
    path = Path(path)
    if not (path / layout.SETTINGS).is_file():
        raise MissingArtifact(f"no run at {path}", hint="vbs run makes one; vbs train --dataset radio starts one")
    return Run(path, from_toml(path / layout.SETTINGS), Store(path))
