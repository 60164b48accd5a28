"""Files of a dataset: the user's own, or the publisher's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vbs_cli.data import archives, fetch
from vbs_cli.data.preparation import Request, Workspace


@contextmanager
def published_or_own(
    remote: fetch.Remote, request: Request, work: Workspace, command: str
) -> Iterator[tuple[Path, str]]:
    """Folder with the user's own files, or with the publisher's, and the name of what they were read from."""
    origin = request.origin
    if origin is None:
        origin = fetch.fetch(remote, work.downloads, origin_hint=f"{command} --from FILE", progress=work.progress)
    with archives.opened(origin, work.scratch, progress=work.progress) as folder:
        yield folder, origin.name
