"""Protocol of each dataset and profile, and the settings of a run made from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vbs_cli.data import DATASETS
from vbs_cli.data.given import DATASET, PROTOCOLS
from vbs_cli.errors import InvalidInput
from vbs_cli.registry import unknown
from vbs_cli.settings import Settings, override, read_toml

IDENTITY = ("dataset", "profile")  # if one of these changes, settings start from its protocol anew
QUICK = "quick"  # the profile for a look on two CPU cores


def protocol(dataset: str, profile: str) -> Settings:
    """Settings of a dataset and profile before any override."""
    known = {**{name: each.protocols for name, each in DATASETS.items()}, DATASET: PROTOCOLS}
    if dataset not in known:
        raise unknown("dataset", dataset, known)
    if dataset in DATASETS and (tested := DATASETS[dataset].tests):
        what = f"{dataset} is a test set for runs of {tested}; no network is trained on it"
        raise InvalidInput(what, hint=f"vbs train --dataset {tested}")
    if profile not in known[dataset]:
        raise unknown("profile", profile, known[dataset])
    return known[dataset][profile]


def resolve(given: Mapping[str, Any], saved: Settings | None = None) -> Settings:
    """Settings of a run: `given` over the saved ones, or, if none are saved or the identity differs, the protocol."""
    if saved is not None and all(given.get(name, getattr(saved, name)) == getattr(saved, name) for name in IDENTITY):
        return override(saved, given)
    return override(protocol(given.get("dataset", "radio"), given.get("profile", QUICK)), given)


def from_toml(path: Path) -> Settings:
    """Settings that a run has saved; those that an earlier version lacked have the values of its protocol."""
    values = read_toml(path)
    return override(protocol(str(values.get("dataset")), str(values.get("profile"))), values)
