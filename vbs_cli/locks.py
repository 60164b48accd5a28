"""Locks for one process at a time; a second process gets an error that names the first."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from vbs_cli import files
from vbs_cli.errors import Busy

LOCK = ".lock"


@contextmanager
def locked(folder: Path, *, hint: str, name: str = LOCK, wait: float = 0.0) -> Iterator[None]:
    """Lock a folder, or by another `name` one thing in it, for the block; wait at most `wait` seconds for the lock."""
    files.check_writable(folder)
    holder = folder / f"{name}.json"
    lock = FileLock(folder / name)
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise Busy(f"{folder} is in use by {holder_of(holder)}", hint=hint) from None
    try:
        files.write_bytes(holder, files.to_json({"pid": os.getpid(), "command": " ".join(sys.argv)}))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def is_held(folder: Path, *, name: str = LOCK) -> bool:
    """Whether a process holds the lock at this moment."""
    lock = FileLock(folder / name)
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


def holder_of(path: Path) -> str:
    try:
        values = json.loads(path.read_bytes())
        return f"process {values['pid']} ({values['command']})"
    except (OSError, ValueError, KeyError):
        return "another process"
