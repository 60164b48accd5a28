"""The one module that writes files. A file is either wholly there or not at all, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from vbs_cli.errors import DamagedArtifact, VbsError

TEMPORARY = ".vbs-tmp"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; what the block has written there takes its place in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> VbsError:
    return VbsError(f"cannot write {path}: {error.strerror or error}", hint="check the space and rights there")


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_array(path: Path, chunks: Iterable[np.ndarray], *, shape: tuple[int, ...], dtype: type) -> None:
    """A .npy file from consecutive chunks of its first axis, which need not fit in memory together."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    rows = 0
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, dtype=dtype).data)
            rows += len(chunk)
        file.flush()
        if rows != shape[0]:
            raise VbsError(f"{path.name} got {rows} rows instead of {shape[0]}")


def clear_folder(folder: Path) -> None:
    """An empty folder at this place."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def replace_folder(complete: Path, path: Path) -> None:
    """Move a complete folder to `path`; what was there goes only once the new one stands."""
    old = path.with_name(f".{path.name}.old{TEMPORARY}")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    complete.rename(path)
    sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def sync(path: Path) -> None:
    """Force a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_writable(folder: Path) -> None:
    """Fail now rather than after hours of computing."""
    with replacing(folder / "probe") as temporary:
        temporary.write_bytes(b"")
    (folder / "probe").unlink()


def remove_temporaries(folder: Path) -> None:
    """What a killed process left behind."""
    for leftover in folder.rglob(f"*{TEMPORARY}"):
        leftover.unlink(missing_ok=True)


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(value: Any) -> str:
    """The hash of a JSON value, whatever the order of its keys."""
    return sha256_of(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


def to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedArtifact(f"{path} is damaged: {error}", hint=f"rm {path} and make it again") from error
