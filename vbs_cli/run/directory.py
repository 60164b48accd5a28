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

PART_WAIT = 30.0  # seconds for a process that was just told to stop to let go of its part


@dataclass(frozen=True)
class Run:
    """A run directory. Its tables, logits and fitted methods are read through here, each checked by its hash."""

    path: Path
    settings: Settings
    store: Store

    @property
    def metrics(self) -> pd.DataFrame:
        """dataset, source, seed, method, noise, level, metric, value."""
        return self.table(layout.METRICS)

    @property
    def reliability(self) -> pd.DataFrame:
        """dataset, source, seed, method, bin, lower, upper, count, accuracy, confidence."""
        return self.table(layout.RELIABILITY)

    @property
    def intervals(self) -> pd.DataFrame:
        """dataset, source, noise, level, method, baseline, metric, value, low, high; "" is no baseline."""
        return self.table(layout.INTERVALS)

    @property
    def proxy(self) -> pd.DataFrame:
        """dataset, source, noise, view, quantity, value, low, high: what the spread tells about errors."""
        return self.table(layout.PROXY)

    @property
    def coverage(self) -> pd.DataFrame:
        """dataset, source, seed, method, noise, level, coverage, risk: errors among the most confident predictions."""
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
        return pd.concat(tables, ignore_index=True).rename(columns={"model": "network"})  # as earlier versions had it

    def training_tables(self) -> list[str]:
        """Names of the training tables of the run's seeds; there may be others from when it had more."""
        seeds = tuple(f"seed-{seed}/" for seed in range(self.settings.seeds))
        return [name for name in self.store.entries if name.startswith(seeds) and name.endswith(".training.parquet")]

    @property
    def methods(self) -> dict[int, dict[str, Method]]:
        """Fitted methods of each seed, by name; those that read all seeds together under -1."""
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
        """Record that a pass left."""
        return formats.logits_from(self.store.read(layout.logits(seed, folder_of(view), split, noise, level)))

    def table(self, name: str) -> pd.DataFrame:
        return formats.table_from(self.store.read(name))

    @contextmanager
    def settings_saved(self) -> Iterator[None]:
        """The settings on disk from here on, unless the block finds that they make no sense."""
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
    """Work on a run alone, with its artifacts as they are now; parts that others are at work on are left to them."""
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
    """Work on one part of a run alone, beside others; what is written waits to be taken over."""
    hint = "it goes on there; wait for it"
    with locks.locked(run.path / PARTS, hint=hint, name=lock_of(part), wait=wait):
        yield replace(run, store=Store(run.path, part=part))


def part_locks(path: Path) -> list[str]:
    """Names of the parts that somebody works or has worked on."""
    return [lock.stem for lock in (path / PARTS).glob("*.lock")]


def lock_of(part: str) -> str:
    return f"{part}.lock"


def open_run(path: Path | str) -> Run:
    """The run in this folder."""
    path = Path(path)
    if not (path / layout.SETTINGS).is_file():
        raise MissingArtifact(f"no run at {path}", hint="vbs run makes one; vbs train --dataset radio starts one")
    return Run(path, from_toml(path / layout.SETTINGS), Store(path))
