"""Progress across processes: one JSON object per line on the child's standard output, replayed by its parent."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TextIO

from vbs_cli.errors import VbsError
from vbs_cli.progress import Progress, Task

CHILD = "VBS_CHILD"  # environment variable of a process that another vbs process started
STDIN = 0
EVERY = 0.25  # seconds between two messages about the same task

Message = Mapping[str, Any]


def is_child() -> bool:
    """Whether this process was started by another vbs process."""
    return bool(os.environ.get(CHILD))


def end_with_parent() -> None:
    """Stop, as at SIGTERM, when the parent is gone: it holds the other end of standard input and never writes there."""

    def wait() -> None:
        while os.read(STDIN, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


class Messages(Progress):
    """Progress in a child process, which sends texts and tasks as messages."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.count = 0

    def send(self, kind: str, **values: Any) -> None:
        self.stream.write(json.dumps({"kind": kind, **values}) + "\n")
        self.stream.flush()

    def say(self, text: str) -> None:
        self.send("say", text=text)

    def detail(self, text: str) -> None:
        self.send("detail", text=text)

    def error(self, error: VbsError) -> None:
        self.send("error", text=" ".join(str(error).split()), wrong_use=error.exit_code == 2)

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        self.count += 1
        task = RelayedTask(self, self.count)
        self.send("begin", task=task.number, label=label, total=total)
        done = False
        try:
            yield task
            done = True
        finally:
            task.flush()
            self.send("end", task=task.number, done=done)


class RelayedTask(Task):
    """Task in a child process, which sends its progress at intervals."""

    def __init__(self, messages: Messages, number: int) -> None:
        self.messages = messages
        self.number = number
        self.amount = 0.0
        self.text = ""
        self.sent = time.monotonic()

    def advance(self, amount: float) -> None:
        self.amount += amount
        if time.monotonic() - self.sent > EVERY:
            self.flush()

    def note(self, text: str) -> None:
        self.text = text

    def flush(self) -> None:
        self.messages.send("advance", task=self.number, amount=self.amount, note=self.text)
        self.amount, self.sent = 0.0, time.monotonic()


class Relay:
    """Replay of one child's messages in the parent, shown as if the work were done here."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.open: dict[int, tuple[AbstractContextManager[Task], Task]] = {}

    def hear(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "start":  # perhaps not for the first time: a worker may have been lost
            self.close()
        elif kind == "say":
            self.progress.say(message["text"])
        elif kind == "detail":
            self.progress.detail(message["text"])
        elif kind == "begin":
            manager = self.progress.task(message["label"], message["total"])
            self.open[message["task"]] = manager, manager.__enter__()
        elif kind == "advance" and message["task"] in self.open:
            task = self.open[message["task"]][1]
            task.note(message["note"])
            task.advance(message["amount"])
        elif kind == "end" and message["task"] in self.open:
            self._close(message["task"], done=message["done"])

    def close(self) -> None:
        """Close the tasks that the child began as unfinished, since it is gone."""
        for number in list(self.open):
            self._close(number, done=False)

    def _close(self, number: int, *, done: bool) -> None:
        manager, _ = self.open.pop(number)
        if done:
            manager.__exit__(None, None, None)
            return
        with suppress(Unfinished):
            manager.__exit__(Unfinished, Unfinished(), None)


class Unfinished(Exception):
    """Exception that ends a task which the child did not finish."""
