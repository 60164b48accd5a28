"""Safe unpacking of untrusted archives: regular files and folders only, inside the target and within limits."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from vbs_cli import files
from vbs_cli.errors import DamagedArtifact, InvalidInput, MissingArtifact, VbsError
from vbs_cli.progress import SILENT, Progress

CHUNK = 1 << 20
HEADERS = 1 << 22  # bytes that may lie between two members of a tar; tarfile reads long names into memory at once
SPECIAL = "is a link, a device or the like"
DEPTH = 100  # nested folders
ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # first bytes of a zip, and of an empty one
COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}


@dataclass(frozen=True)
class Limits:
    """Limits on what an archive may unpack to."""

    total: int = 200 * 10**9  # bytes
    files: int = 5_000_000
    ratio: float = 1000.0  # of unpacked to packed bytes
    floor: int = 100 * 10**6  # bytes up to which any ratio is accepted: short repetitive text packs very well


LIMITS = Limits()


@dataclass(frozen=True)
class Member:
    """An entry of an archive."""

    name: str
    folder: bool
    flaw: str  # reason not to extract it, or empty
    position: int  # packed bytes up to this member
    chunks: Callable[[], Iterator[bytes]]


@contextmanager
def opened(path: Path, scratch: Path, *, progress: Progress = SILENT) -> Iterator[Path]:
    """Path of a folder as it is, or of an archive unpacked into `scratch` for the duration of the block."""
    if path.is_dir():
        yield path
        return
    if not path.exists():
        raise MissingArtifact(f"{path} does not exist", hint="give the path of a folder or of a tar or zip archive")
    if not is_archive(path):
        raise InvalidInput(f"{path} is neither a folder nor a tar or zip archive", hint="unpack it and give the folder")
    shutil.rmtree(scratch, ignore_errors=True)  # left by a killed process
    try:
        extract(path, scratch, progress=progress)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_archive(path: Path) -> bool:
    """Whether a file is, by its content, a zip or a tar, plain or compressed by gzip, bzip2 or xz."""
    try:
        with path.open("rb") as file, unpacked(file) as stream:
            head = stream.read(tarfile.BLOCKSIZE)
        if not head.startswith(ZIP):
            tarfile.TarInfo.frombuf(head, tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:
        return False
    except Exception:  # it begins like one; `extract` reports the damage
        return path.is_file()
    return True


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """Decompressing stream for the format that the first bytes show, or the file itself."""
    head = file.read(max(map(len, COMPRESSED)))
    file.seek(0)
    return next((opener(file) for magic, opener in COMPRESSED.items() if head.startswith(magic)), file)


def extract(path: Path, target: Path, *, limits: Limits = LIMITS, progress: Progress = SILENT) -> None:
    """Unpack an archive into a new or empty folder. If anything is wrong with it, nothing is left there."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"{target} is not an empty folder", hint="unpack into a new one")
    try:
        with path.open("rb") as file:
            members = zip_members if file.read(4) in ZIP else tar_members
    except OSError as error:
        raise VbsError(f"cannot read {path}: {error.strerror}", hint="check the path and its rights") from error
    files.clear_folder(target)
    try:
        unpacker, shown = Unpacker(path, target, limits), 0
        with progress.task(f"unpacking {path.name}", unpacker.packed) as task:
            for member in members(path):
                unpacker.place(member)
                if member.position >= shown + CHUNK:  # an update per small file would cost more than the file
                    task.advance(member.position - shown)
                    shown = member.position
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


class Unpacker:
    """Writer of members below the target folder, which counts files and bytes against the limits."""

    def __init__(self, archive: Path, target: Path, limits: Limits) -> None:
        self.archive = archive
        self.target = target
        self.packed = archive.stat().st_size
        self.most = min(limits.total, max(limits.floor, limits.ratio * self.packed))  # bytes
        self.limits = limits
        self.folders = {""}  # made so far, relative to the target
        self.members = 0
        self.written = 0

    def place(self, member: Member) -> None:
        """Write one member, or refuse the archive for it."""
        parts, flaw = parts_of(member)
        if flaw or member.flaw:
            raise self.refused(member, flaw or member.flaw)
        self.members += 1
        if self.members > self.limits.files:
            raise self.refused(member, f"is beyond the {self.limits.files:,} files that one archive may hold")
        if is_litter(parts):
            for _ in self.counted(member):
                pass
            return
        self.make_folder("/".join(parts if member.folder else parts[:-1]), member)
        if not member.folder:
            self.write("/".join((str(self.target), *parts)), member)

    def write(self, path: str, member: Member) -> None:
        try:
            files.write_scratch(path, self.counted(member))
        except FileExistsError:
            flaw = "is both a file and a folder" if Path(path).is_dir() else "is there twice"
            raise self.refused(member, flaw) from None

    def make_folder(self, name: str, member: Member) -> None:
        """Create a folder and its parents, each checked once."""
        if name in self.folders:
            return
        self.make_folder(name.rpartition("/")[0], member)
        folder = self.target / name
        if folder.is_file():
            raise self.refused(member, "is both a file and a folder")
        files.make_folder(folder)
        self.folders.add(name)

    def counted(self, member: Member) -> Iterator[bytes]:
        """Content of a member in chunks, counted against the limits; the size in its header is not trusted."""
        for chunk in () if member.folder else member.chunks():
            self.written += len(chunk)
            if self.written > self.most:
                flaw = f"brings the content to more than {self.most / 1e6:,.0f} MB, from {self.packed:,} bytes packed"
                raise self.refused(member, flaw)
            yield chunk

    def refused(self, member: Member, flaw: str) -> VbsError:
        message = f"{self.archive} is not safe to unpack: {member.name!r} {flaw}"
        return VbsError(message, hint="get the archive from its publisher")


def parts_of(member: Member) -> tuple[list[str], str]:
    """Parts of a member's path below the target, and its flaw, if any: it must be harmless on every system."""
    name = member.name
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return [], "has an absolute name"
    if len(parts) > DEPTH:
        return [], f"lies more than {DEPTH} folders deep"
    if ".." in parts:
        return [], "leads out of the folder"
    if "\\" in name or "\0" in name:
        return [], "has a backslash or a null character in its name"
    return parts, "" if parts or member.folder else "has no name"


def is_litter(parts: list[str]) -> bool:
    """Whether a path belongs to the files that macOS adds to archives."""
    return any(part in ("__MACOSX", ".DS_Store") or part.startswith("._") for part in parts)


@contextmanager
def reading(archive: Path) -> Iterator[None]:
    """Turn whatever the archive readers raise into an error that the user can understand."""
    try:
        yield
    except VbsError:
        raise
    except Exception as error:  # the readers let out whatever they stumble over, from EOFError to RecursionError
        message = f"{archive} is damaged: {str(error) or type(error).__name__}"
        raise DamagedArtifact(message, hint="get it again, this copy is incomplete or changed") from error


def zip_members(path: Path) -> Iterator[Member]:
    with reading(path), zipfile.ZipFile(path) as archive:
        position = 0
        for info in archive.infolist():
            position += info.compress_size
            chunks = partial(zip_chunks, archive, info, path)
            yield Member(info.orig_filename, info.is_dir(), zip_flaw(info), position, chunks)


def zip_flaw(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & 0x1:
        return "is encrypted"
    # Unix-like systems store the type of a file in the upper half.
    kind = stat.S_IFMT(info.external_attr >> 16)
    plain = (0, stat.S_IFREG, stat.S_IFDIR) if info.is_dir() else (0, stat.S_IFREG)
    return "" if kind in plain else SPECIAL


def zip_chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Iterator[bytes]:
    with reading(path), archive.open(info) as file:
        left = info.file_size
        while chunk := file.read(CHUNK):
            left -= len(chunk)
            yield chunk
        if left:
            raise zipfile.BadZipFile(f"{info.filename} is shorter than it says")


class Source:
    """Forward-only stream that tarfile reads, with a limit on the bytes between two members."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.size = 0
        self.end = 0  # of the last byte that is not zero
        self.left = HEADERS

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise tarfile.ReadError("it has too much between its members")
        if content := len(data.rstrip(b"\0")):
            self.end = self.size + content
        self.size += len(data)
        return data


def tar_members(path: Path) -> Iterator[Member]:
    with reading(path), path.open("rb") as file, unpacked(file) as stream:
        source = Source(stream)
        # In stream mode tarfile never seeks, and it uses nothing that `Source` lacks.
        with tarfile.open(fileobj=source, mode="r|") as archive:  # type: ignore[call-overload]
            while (info := archive.next()) is not None:
                archive.members.clear()  # millions of them would fill the memory
                source.left = HEADERS + (info.size if info.isreg() else 0)
                chunks = partial(tar_chunks, archive, info, path)
                yield Member(info.name, info.isdir(), tar_flaw(info), file.tell(), chunks)
            check_end(source, archive.offset)


def tar_flaw(info: tarfile.TarInfo) -> str:
    if info.isdir() or (info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not info.issparse()):
        return ""
    return SPECIAL


def tar_chunks(archive: tarfile.TarFile, info: tarfile.TarInfo, path: Path) -> Iterator[bytes]:
    with reading(path):
        left = info.size
        while left > 0:
            # The stream is at the beginning of the member's content; tarfile's own file object would be slower.
            chunk = archive.fileobj.read(min(CHUNK, left))
            if not chunk:
                raise tarfile.ReadError("unexpected end of data")
            left -= len(chunk)
            yield chunk


def check_end(source: Source, offset: int) -> None:
    """Refuse a tar that does not end with zeros; tarfile also takes a broken header, or nothing, for the end."""
    source.left = HEADERS
    while source.read(CHUNK):  # to the end, so that the compression's checksum is verified
        pass
    if source.end > offset or source.size < offset + tarfile.BLOCKSIZE:
        raise tarfile.ReadError("it breaks off, or has something else between its members")
