"""Manifest entries of earlier versions, read as if today's version had written them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Earlier versions had one word, `role`, for the network and for the view of its weights.
READ_AS = {"conventional": "patches", "dropout": "draws"}
# Tables are made again in seconds and nobody knows which code made them. Weights and logits take hours, and those of
# earlier versions are the ones that the first revisions of today's code make.
ASSUMED = ("train", "forward")


def upgraded(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Values of an `Entry`; those of weights and logits get the names and revisions that they lack."""
    if "revisions" in entry or entry["stage"] not in ASSUMED or "role" not in entry["settings"]:
        return dict(entry)
    settings = dict(entry["settings"])
    settings["network"] = role = settings.pop("role")
    if entry["stage"] == "forward":
        settings["view"] = READ_AS.get(role, role)
        if spreads := settings.pop("spreads", ()):
            settings["extras"] = [f"sigma_{name}" for name in spreads]
    return {**entry, "settings": settings, "revisions": dict.fromkeys(made_by(entry["stage"], settings), 1)}


def made_by(stage: str, settings: Mapping[str, Any]) -> list[str]:
    """Names of the code that makes weights or logits, as in the revisions of a recipe."""
    if stage == "forward":
        noise = [] if settings["noise"] == "clean" else [f"noise {settings['noise']}"]
        return ["forward pass", f"view {settings['view']}", *noise]
    if "weights" in settings:  # trained elsewhere
        return []
    return ["training", f"network {settings['network']}", f"model {settings['model']}"]
