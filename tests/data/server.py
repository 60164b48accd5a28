"""A real web server on this machine that knows ranges, and whose faults can be switched on."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one answer."""

    status: int = 0  # answered instead of the file
    location: str = ""  # redirected to
    stop_after: int | None = None  # bytes, then the connection ends
    hang_up: bool = False  # without any answer
    ignore_range: bool = False
    shift_range: int = 0  # bytes by which the answer misses what was asked for
    without_length: bool = False


SOUND = Fault()


@dataclass(frozen=True)
class Request:
    """One request, and the body that was meant for it."""

    path: str
    begin: int  # first byte asked for
    status: int
    sent: int  # bytes


@dataclass
class Server:
    """Serves `content`; request number n of a path suffers the n-th of its faults, or else the standing one."""

    address: str
    content: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    standing: dict[str, Fault] = field(default_factory=dict)
    log: list[Request] = field(default_factory=list)

    def url(self, path: str) -> str:
        return self.address + path

    def fault(self, path: str) -> Fault:
        coming = self.faults.get(path)
        return coming.pop(0) if coming else self.standing.get(path, SOUND)


class Handler(BaseHTTPRequestHandler):
    site: Server

    def do_GET(self) -> None:
        fault = self.site.fault(self.path)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(asked[1]) if asked else 0
        content = self.site.content.get(self.path)
        if fault.hang_up:
            self.record(begin, 0, b"")
        elif fault.location:
            self.answer(begin, 302, b"", Location=fault.location)
        elif fault.status or content is None:
            self.answer(begin, fault.status or 404, b"no")
        elif asked and not fault.ignore_range:
            self.rest(content, begin, fault)
        else:
            self.answer(begin, 200, content, fault)

    def rest(self, content: bytes, begin: int, fault: Fault) -> None:
        if begin >= len(content):
            self.answer(begin, 416, b"", **{"Content-Range": f"bytes */{len(content)}"})
            return
        first = begin + fault.shift_range
        where = {"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"}
        self.answer(begin, 206, content[first:], fault, **where)

    def answer(self, begin: int, status: int, body: bytes, fault: Fault = SOUND, **headers: str) -> None:
        sent = body[: fault.stop_after]
        self.record(begin, status, sent)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not fault.without_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):  # the client has heard enough
            self.wfile.write(sent)

    def record(self, begin: int, status: int, sent: bytes) -> None:
        self.site.log.append(Request(self.path, begin, status, len(sent)))

    def log_message(self, *_: object) -> None:
        """The log is `Server.log`."""


@contextmanager
def serving() -> Iterator[Server]:
    """A server for as long as the block lasts."""
    handler = type("SiteHandler", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        handler.site = Server(f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield handler.site
        finally:
            http.shutdown()
            thread.join()
