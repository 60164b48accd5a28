"""Plan of a run that one command saves and another reads: all that the settings call for, without importing torch.

`vbs status` answers from it in a moment. It is used only while everything that a plan depends on is unchanged: the
code, the settings, the manifest, the description of the data. Whether files exist and are intact is always checked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import vbs_cli
from vbs_cli import files
from vbs_cli.errors import VbsError
from vbs_cli.run.graph import Artifact, Graph
from vbs_cli.run.layout import DATASET, MANIFEST, SETTINGS
from vbs_cli.run.store import PARTS, Recipe, Store
from vbs_cli.settings import from_environment

PLAN = ".plan.json"
PLUGINS = "vbs_cli."  # prefix of the groups of their entry points


def remember(graph: Graph, data_dir: Path) -> None:
    """Save the plan of a run in its folder, if the folder can be written to."""
    artifacts = [{"name": each.name, **asdict(each.recipe)} for each in graph]
    folder = graph.store.folder
    with suppress(OSError, VbsError):
        files.write_bytes(folder / PLAN, files.to_json({"of": state_of(folder, data_dir), "artifacts": artifacts}))


def recalled(folder: Path, data_dir: Path) -> Graph | None:
    """Plan that was saved in a folder, or None if it may be out of date.

    It is not used in a process that has imported torch, where the loaded code may differ from the files.
    """
    if "torch" in sys.modules or has_plugins():
        return None
    try:
        values = json.loads((folder / PLAN).read_bytes())
        if values["of"] != state_of(folder, data_dir):
            return None
        return Graph(Store(folder), [artifact_of(each) for each in values["artifacts"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def artifact_of(values: dict[str, Any]) -> Artifact:
    recipe = Recipe(values["stage"], values["settings"], tuple(values["inputs"]), values["revisions"])
    return Artifact(values["name"], recipe, only_listed)


def only_listed(job: Any, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Stand in for the makers of artifacts, which are not saved."""
    raise AssertionError("a remembered plan makes nothing")


def state_of(folder: Path, data_dir: Path) -> str:
    """Hash of all that the plan of a run depends on."""
    package = Path(vbs_cli.__file__).parent
    code = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(package.rglob("*.py"))]
    parts = sorted((folder / PARTS).glob(f"*.{MANIFEST}"))
    read = [folder / SETTINGS, folder / MANIFEST, *parts, *sorted(data_dir.glob(f"*/{DATASET}"))]
    made = [(path.parent.name, path.name, files.sha256_of(path.read_bytes())) for path in read]
    asked = from_environment(os.environ)
    return files.sha256_of_json([code, made, asked, metadata.version("torch")])  # exports depend on torch


def has_plugins() -> bool:
    """Whether other packages register plugins, whose code could change without notice."""
    return any(group.startswith(PLUGINS) for group in metadata.entry_points().groups)
