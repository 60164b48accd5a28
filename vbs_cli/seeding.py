"""Reproducible numbers on every machine and in every order: randomness from names, and a fixed number of threads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_of(*names: object) -> int:
    """A 63-bit seed that depends on the names alone."""
    digest = hashlib.sha256(json.dumps([str(name) for name in names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(*names: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator seeded by names, e.g. `generator("radio", "gaussian", 3)`."""
    return torch.Generator(device).manual_seed(seed_of(*names))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch on `count` threads for the duration of the block.

    How torch divides a tensor among threads affects the last bit of sums and products, so that results would depend
    on the number of cores. Small arrays gain little from threads, and on a busy machine they wait for them.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
