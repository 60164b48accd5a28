"""Downloads: resumed where they stopped, tried at every address, and accepted by their hash alone."""

from __future__ import annotations

import io
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from vbs_cli import files
from vbs_cli.errors import DamagedArtifact, VbsError
from vbs_cli.progress import SILENT, Progress, Task

if TYPE_CHECKING:
    from requests import Response

CHUNK = 1 << 16  # bytes at a time; a broken connection loses at most this much
MB = 1e6
TIMEOUT = (5.0, 30.0)  # seconds to connect, and to wait for the next byte
HOPS = 10  # redirects in a row
LONGEST_PAUSE = 30.0  # seconds
# Tries in a row without a new byte. A user who cannot even connect is most likely offline and should learn it soon.
NO_RETRY, CONNECTING, TRANSFERRING = 1, 2, 4
ANSWERS = 200  # requests to one address, however much progress each of them makes


@dataclass(frozen=True)
class Remote:
    """A file to download: its addresses, hash and size."""

    name: str
    urls: tuple[str, ...]  # the official address, then mirrors
    sha256: str
    size: int  # bytes, as published


class Failure(Exception):
    """Reason why an address did not give the file, and after how many in a row to give up."""

    def __init__(self, reason: str, *, tries: int) -> None:
        super().__init__(reason)
        self.tries = tries


def fetch(
    remote: Remote,
    folder: Path,
    *,
    origin_hint: str,
    progress: Progress = SILENT,
    pause: Callable[[float], None] = time.sleep,
) -> Path:
    """Path of the file in `folder`, downloaded unless a file with the right hash is there."""
    path = folder / remote.name
    if path.is_file():
        if files.sha256_of_file(path) == remote.sha256:
            return path
        aside = files.set_aside(path, remote.name)
        progress.say(f"{path} is not the published file: kept as {aside}, downloading it again")
    reason, found = "it has no address", ""
    for url in remote.urls:
        try:
            found = download(remote, url, folder, progress=progress, pause=pause)
        except Failure as failure:
            reason = str(failure)
            progress.detail(f"{url}: {reason}")
            continue
        if found == remote.sha256:
            return path
        progress.say(f"{url} gave another file than the published {remote.name}")
    hint = f"put the file at {path} by hand, or: {origin_hint}"
    if found:
        raise DamagedArtifact(
            f"{remote.name} came with the wrong hash: sha256 {found} instead of {remote.sha256}; "
            f"kept as {path}.wrong, from {remote.urls[0]} or its mirrors",
            hint=hint,
        )
    raise VbsError(f"cannot download {remote.urls[0] if remote.urls else remote.name}: {reason}", hint=hint)


def download(remote: Remote, url: str, folder: Path, *, progress: Progress, pause: Callable[[float], None]) -> str:
    """Download from one address and return the hash: the right file is put in place, a wrong one set aside."""
    part = folder / f"{remote.name}.part"
    while True:
        resumed = size_of(part) > 0
        check_space(folder, remote.size - size_of(part), remote.name)
        with progress.task(f"downloading {remote.name}", remote.size) as task:
            transfer(url, part, most=2 * remote.size + CHUNK, meter=DownloadMeter(task), pause=pause)
        found = files.sha256_of_file(part)
        if found == remote.sha256:
            files.put_in_place(part, folder / remote.name)
            return found
        if not resumed:
            files.set_aside(part, remote.name)
            return found
        # The part from an earlier attempt may be at fault: try once more without it.
        part.unlink()


def check_space(folder: Path, needed: int, name: str) -> None:
    """Fail before a download that the disk has no space for."""
    files.make_folder(folder)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise VbsError(
            f"{name} needs {needed / MB:,.0f} MB more, but {folder} has {free / MB:,.0f} MB free",
            hint="make room there, or choose another folder with --data",
        )


def transfer(url: str, part: Path, *, most: int, meter: DownloadMeter, pause: Callable[[float], None]) -> None:
    """Download the rest of a file, in as many requests as it takes."""
    failed = 0
    for number in range(1, ANSWERS + 1):
        before = size_of(part)
        try:
            return receive(url, part, most=most, meter=meter)
        except Failure as failure:
            failed = 1 if size_of(part) > before else failed + 1
            if number == ANSWERS or failed >= failure.tries:
                raise
        pause(min(2.0 ** (failed - 1), LONGEST_PAUSE))


def receive(url: str, part: Path, *, most: int, meter: DownloadMeter) -> None:
    """Append the response to one request to the part. The hash decides later whether the whole file is right."""
    begin = size_of(part)
    with answer(url, begin) as response:
        if response.status_code == 416 and begin:
            return  # there is nothing beyond the part
        check_status(response)
        if response.status_code != 206:
            begin = 0  # the server sends all of it, whatever it was asked for
        meter.at(begin, received=0)
        with files.growing(part, keep=begin > 0) as file:
            for chunk in chunks(response):
                file.write(chunk)
                begin += len(chunk)
                meter.at(begin, received=len(chunk))
                if begin > most:
                    break
            else:
                return
    part.unlink(missing_ok=True)
    raise Failure("the server sends far more than was published", tries=NO_RETRY)


@contextmanager
def answer(url: str, begin: int) -> Iterator[Response]:
    """Response to a request for everything from byte `begin` on, after redirects."""
    import requests
    from urllib3.exceptions import ProtocolError

    # Ask for the plain bytes: in a compressed form they have other positions.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={begin}-"} if begin else {})
    for _ in range(HOPS):
        try:
            response = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT, allow_redirects=False)
        except requests.RequestException as error:
            connected = isinstance(error, requests.ReadTimeout) or (
                bool(error.args) and isinstance(error.args[0], ProtocolError)
            )
            raise Failure(root_cause(error), tries=TRANSFERRING if connected else CONNECTING) from error
        with response:
            if not response.is_redirect:
                yield response
                return
            url = redirected(url, response.headers["Location"])
    raise Failure(f"more than {HOPS} redirects", tries=NO_RETRY)


def redirected(url: str, location: str) -> str:
    """Address that a redirect leads to; one that gives up encryption is refused."""
    target = urljoin(url, location)
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise Failure(f"it redirects from https to {target}, which is not encrypted", tries=NO_RETRY)
    return target


def check_status(response: Response) -> None:
    """Raise Failure unless the file comes; server errors, timeouts and rate limits are worth another try."""
    status = response.status_code
    if status not in (200, 206):
        passing = status >= 500 or status in (408, 429)
        reason = f"the server answered {status} {response.reason}".rstrip()
        raise Failure(reason, tries=TRANSFERRING if passing else NO_RETRY)


def chunks(response: Response) -> Iterator[bytes]:
    """Body of a response in chunks, undecoded; one that ends early raises Failure."""
    from urllib3.exceptions import HTTPError

    received = 0
    length = response.headers.get("Content-Length", "")
    try:
        for chunk in response.raw.stream(CHUNK, decode_content=False):
            received += len(chunk)
            yield chunk
    except (HTTPError, OSError) as error:
        raise Failure(f"the connection broke: {root_cause(error)}", tries=TRANSFERRING) from error
    if length.isdigit() and received < int(length):
        raise Failure(f"the connection ended after {received:,} of {int(length):,} bytes", tries=TRANSFERRING)


def root_cause(error: BaseException) -> str:
    """Message of the innermost exception of a chain, in one line."""
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return re.sub(r"\s+", " ", str(text)).strip().rstrip(".")


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


class DownloadMeter:
    """Progress of a download, also when it has to start over."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.shown = 0
        self.received = 0
        self.started = time.monotonic()

    def at(self, size: int, *, received: int) -> None:
        """Report that `size` bytes are there, `received` of them since the last call."""
        self.task.advance(size - self.shown)
        self.shown = size
        self.received += received
        speed = self.received / max(time.monotonic() - self.started, 1e-3)
        self.task.note(f"{size / MB:,.1f} MB, {speed / MB:,.1f} MB/s")


def fetch_drive_folder(
    folder_id: str, names: Sequence[str], folder: Path, *, origin_hint: str, progress: Progress = SILENT
) -> Path:
    """Folder with the named files, downloaded from a public folder of Google Drive unless they are there."""
    if not missing(names, folder):
        return folder
    address = f"https://drive.google.com/drive/folders/{folder_id}"
    hint = f"put the files into {folder} by hand, or: {origin_hint}"
    files.make_folder(folder)
    progress.say(f"downloading {address}")
    try:
        download_drive_folder(folder_id, folder)
    except Exception as error:  # gdown passes on whatever its libraries raise
        raise VbsError(f"cannot download {address}: {root_cause(error)}", hint=hint) from error
    for name in missing(names, folder):
        found = [path for path in folder.rglob("*") if path.name == name and path.is_file()]
        if found:
            files.put_in_place(min(found, key=lambda path: (len(path.parts), path)), folder / name)
    if lacking := missing(names, folder):
        raise VbsError(f"{address} does not hold {', '.join(lacking)}", hint=hint)
    return folder


def missing(names: Sequence[str], folder: Path) -> list[str]:
    return [name for name in names if not (folder / name).is_file()]


def download_drive_folder(folder_id: str, folder: Path) -> None:
    """Download by gdown, which writes each file under another name until it is complete; its output is discarded."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        import gdown

        brought = gdown.download_folder(
            id=folder_id, output=str(folder), quiet=True, resume=True, timeout=TIMEOUT, retries=TRANSFERRING - 1
        )
    if not brought:
        raise VbsError("Google Drive shows no files there")
