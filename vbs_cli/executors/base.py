"""Running one command in a process of its own, and the interface of executors that run many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from vbs_cli.executors.relay import CHILD, Message

POLL = 0.2  # seconds between two checks whether a command is to stop
PATIENCE = 10.0  # seconds that a command has to end after SIGTERM
LAST_WORDS = 60  # lines of standard error that are kept to explain a crash

Words = Sequence[str]  # arguments of a command, without the program: ("work", "3/dropout", ...)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command; an error of "" is success."""

    error: str = ""
    wrong_use: bool = False
    trace: str = ""  # the last lines of its standard error


class Crew(ABC):
    """Executor that runs commands in parallel."""

    remote = False  # whether it runs them on other machines

    @abstractmethod
    def run(self, commands: Mapping[str, Words], hear: Callable[[str, Message], None]) -> Iterator[tuple[str, Outcome]]:
        """Run the commands and yield the name and outcome of each when it ends; `hear` gets the messages in between.

        Ending the iteration early ends the commands that are still running.
        """


def attend(
    words: Words,
    hear: Callable[[Message], None],
    *,
    environment: Mapping[str, str] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run `vbs WORDS` in a process that ends with this one, and pass its messages on to `hear`."""
    hear({"kind": "start"})
    process = subprocess.Popen(
        [sys.executable, "-m", "vbs_cli", *words],
        stdin=subprocess.PIPE,  # never written to: it closes when this process ends
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **(environment or {}), CHILD: "1"},
        start_new_session=True,  # Ctrl-C reaches the parent alone, which stops its children
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    last_words: deque[str] = deque(maxlen=LAST_WORDS)
    errors: list[Message] = []

    def on_words(line: str) -> None:
        last_words.append(line.rstrip())

    def on_message(line: str) -> None:
        message = parsed(line)
        if message is None:
            on_words(line)
        elif message["kind"] == "error":
            errors.append(message)
        else:
            hear(message)

    readers = [reader(process.stdout, on_message), reader(process.stderr, on_words)]
    try:
        while process.poll() is None:
            try:
                process.wait(POLL)
            except subprocess.TimeoutExpired:
                if stopped():
                    stop(process)
    finally:
        stop(process)
        for thread in readers:
            thread.join()
        process.stdin.close()
    if process.returncode == 0:
        return Outcome()
    trace = "\n".join(last_words)
    if errors:
        return Outcome(str(errors[-1]["text"]), bool(errors[-1]["wrong_use"]), trace)
    return Outcome(cause_of_death(process.returncode, [line for line in last_words if line]), trace=trace)


def reader(stream: IO[str], on_line: Callable[[str], None]) -> threading.Thread:
    """Start a thread that reads a stream to its end."""

    def read() -> None:
        with stream:
            for line in stream:
                on_line(line)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def parsed(line: str) -> dict[str, Any] | None:
    """Message in a line of output, or None if the line is something else."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "kind" in message else None


def stop(process: subprocess.Popen[str]) -> None:
    """End a process, by force if it does not end by itself."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cause_of_death(code: int, last_words: Sequence[str]) -> str:
    """Reason why a command ended that reported no error itself."""
    death = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    likely = "; perhaps for lack of memory" if code == -signal.SIGKILL else ""
    return death + likely + (f": {last_words[-1]}" if last_words else "")
