"""Running several commands at once on this machine."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from vbs_cli.executors.base import Crew, Outcome, Words, attend
from vbs_cli.executors.relay import Message


@dataclass(frozen=True)
class Local(Crew):
    """Executor with up to `jobs` processes on this machine; with GPUs, each uses one of them."""

    jobs: int
    gpus: tuple[str, ...] = ()  # names as in CUDA_VISIBLE_DEVICES

    def run(self, commands: Mapping[str, Words], hear: Callable[[str, Message], None]) -> Iterator[tuple[str, Outcome]]:
        heard: queue.SimpleQueue[tuple[str, Message | Outcome]] = queue.SimpleQueue()
        slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(self.jobs):
            slots.put(slot)
        stopped = threading.Event()

        def carry_out(name: str) -> None:
            slot = slots.get()
            environment = {"CUDA_VISIBLE_DEVICES": self.gpus[slot % len(self.gpus)]} if self.gpus else {}
            try:
                outcome = attend(
                    commands[name],
                    lambda message: heard.put((name, message)),
                    environment=environment,
                    stopped=stopped.is_set,
                )
            except Exception as error:
                outcome = Outcome(f"{type(error).__name__}: {error}")
            slots.put(slot)
            heard.put((name, outcome))

        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                for name in commands:
                    pool.submit(carry_out, name)
                yield from outcomes(heard, len(commands), hear)
            finally:
                stopped.set()
                pool.shutdown(cancel_futures=True)


def outcomes(
    heard: queue.SimpleQueue[tuple[str, Message | Outcome]], count: int, hear: Callable[[str, Message], None]
) -> Iterator[tuple[str, Outcome]]:
    """Yield `count` outcomes from a queue, and pass the messages between them to `hear` in the caller's thread."""
    while count:
        name, what = heard.get()
        if isinstance(what, Outcome):
            count -= 1
            yield name, what
        else:
            hear(name, what)


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
