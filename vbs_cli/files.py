"""Writing files, which no other module does: a file is either complete or absent, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from vbs_cli.errors import DamagedArtifact, VbsError

if TYPE_CHECKING:
    import numpy as np

TEMPORARY = ".vbs-tmp"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Temporary path next to `path`; the file that the block writes there replaces `path` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        put_in_place(temporary, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def put_in_place(complete: Path, path: Path) -> None:
    """Move a complete file to `path` in one step, after forcing it to the disk."""
    try:
        sync(complete)
        os.replace(complete, path)
        sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error


def set_aside(path: Path, name: str) -> Path:
    """Rename a file that is not what `name` should be, so that nothing reads it; return the new path."""
    aside = path.with_name(f"{name}.wrong")
    try:
        os.replace(path, aside)
    except OSError as error:
        raise cannot_write(aside, error) from error
    return aside


@contextmanager
def growing(path: Path, *, keep: bool) -> Iterator[BinaryIO]:
    """File that is written in several attempts and stays if one fails; `keep` continues where the last one ended."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if keep else "wb") as file:
            yield file
    except OSError as error:
        raise cannot_write(path, error) from error


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless they exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def write_scratch(path: str, chunks: Iterable[bytes]) -> None:
    """Write a new file that need not outlive a crash, so nothing waits for the disk. FileExistsError if it exists."""
    try:
        with open(path, "xb") as file:
            for chunk in chunks:
                file.write(chunk)
    except FileExistsError:
        raise
    except OSError as error:
        raise cannot_write(Path(path), error) from error


def cannot_write(path: Path, error: OSError) -> VbsError:
    return VbsError(f"cannot write {path}: {error.strerror or error}", hint="check the space and rights there")


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_array(path: Path, chunks: Iterable[np.ndarray], *, row: tuple[int, ...], dtype: str) -> int:
    """Write a .npy file from consecutive chunks of rows, which together need not fit in memory. Return their number."""
    import numpy as np  # here, as it takes a third of the time of a command that only reads the manifest

    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    rows = 0
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, {**header, "shape": (0, *row)})
        begin = file.tell()
        for chunk in chunks:
            if chunk.shape[1:] != row:
                raise VbsError(f"{path.name} got rows of shape {chunk.shape[1:]} instead of {row}")
            file.write(np.ascontiguousarray(chunk, dtype=dtype).data)
            rows += len(chunk)
        # numpy pads its headers so that the number of rows can be filled in afterwards.
        file.seek(0)
        np.lib.format.write_array_header_2_0(file, {**header, "shape": (rows, *row)})
        assert file.tell() == begin
        file.flush()
    return rows


def clear_folder(folder: Path) -> None:
    """Make an empty folder, deleting whatever is at its path."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def replace_folder(complete: Path, path: Path) -> None:
    """Move a complete folder to `path`; what was there is deleted only after the move."""
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
    """Fail now if a folder is not writable, rather than after hours of computing."""
    with replacing(folder / "probe") as temporary:
        temporary.write_bytes(b"")
    (folder / "probe").unlink(missing_ok=True)  # another process may probe the same folder


def format_size(n_bytes: float) -> str:
    """Format a number of bytes by powers of 1000: `512 B`, `1.3 GB`."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder, which may not exist yet."""
    there = next(each for each in (folder.resolve(), *folder.resolve().parents) if each.is_dir())
    return shutil.disk_usage(there).free


def remove_temporaries(folder: Path) -> None:
    """Delete the temporary files that killed processes left in a folder."""
    for leftover in folder.rglob(f"*{TEMPORARY}"):
        leftover.unlink(missing_ok=True)


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_path(path: Path) -> str:
    """Hash of a file's content, or of the names and contents of all files below a folder."""
    if path.is_file():
        return sha256_of_file(path)
    found = sorted(file for file in path.rglob("*") if file.is_file())
    return sha256_of_json([[file.relative_to(path).as_posix(), sha256_of_file(file)] for file in found])


def sha256_of_json(value: Any) -> str:
    """Hash of a JSON value, whatever the order of its keys."""
    return sha256_of(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


def to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedArtifact(f"{path} is damaged: {error}", hint=f"rm {path} and make it again") from error
