"""Randomness from names: the same words give the same numbers on every machine and in every order."""

from __future__ import annotations

import hashlib
import json

import torch


def seed_of(*names: object) -> int:
    """A 63-bit seed that depends on the names alone."""
    digest = hashlib.sha256(json.dumps([str(name) for name in names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(*names: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator seeded by names, e.g. `generator("radio", "gaussian", 3)`."""
    return torch.Generator(device).manual_seed(seed_of(*names))
