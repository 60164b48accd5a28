"""`vbs clean`: free disk space without losing a result."""

from __future__ import annotations

from typing import Any

from vbs_cli.artifacts import passes
from vbs_cli.artifacts.job import Job


def clean_caches(job: Job, *, only_tell: bool = False) -> list[dict[str, Any]]:
    """Delete the cached logits of all passes, or only list them; return a row for each, with its size.

    The manifest keeps their hashes, so that tables made from them stay up to date.
    """
    store = job.run.store
    found = {name: entry for name, entry in store.entries.items() if entry.stage == passes.STAGE and store.has(name)}
    if found and not only_tell:
        store.clean(found)
    state = "there" if only_tell else "cleaned"
    return [{"artifact": name, "state": state, "bytes": entry.size} for name, entry in sorted(found.items())]
