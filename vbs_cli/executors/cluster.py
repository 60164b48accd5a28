"""Running commands on the workers of a dask.distributed scheduler: on other machines, or on nodes of a cluster.

A task is a command line. However the workers are started (`dask worker`, SSH, Slurm, Kubernetes), they need vbs, and
the folders of the data and of the run under the same paths. If a worker is lost, the scheduler gives its task to
another one, where it continues from its last checkpoint.
"""

from __future__ import annotations

import logging
import queue
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from vbs_cli import __version__
from vbs_cli.errors import VbsError
from vbs_cli.executors.base import Crew, Outcome, Words, attend
from vbs_cli.executors.local import outcomes
from vbs_cli.executors.relay import Message

ANSWER = 20.0  # seconds for a scheduler to answer
RUNNING = ("executing", "long-running")  # states of a task that is still wanted


@dataclass(frozen=True)
class Cluster(Crew):
    """All workers of a scheduler; each runs as many commands at once as it has threads."""

    remote = True
    address: str  # tcp://host:8786, or the file that `dask scheduler --scheduler-file` wrote

    def run(self, commands: Mapping[str, Words], hear: Callable[[str, Message], None]) -> Iterator[tuple[str, Outcome]]:
        heard: queue.SimpleQueue[tuple[str, Message | Outcome]] = queue.SimpleQueue()
        ended: set[str] = set()

        def hear_unended(name: str, message: Message) -> None:
            if name not in ended:
                hear(name, message)

        with connected(self.address) as client:
            topic = f"vbs-{uuid.uuid4().hex}"
            client.subscribe_topic(topic, lambda event: heard.put(event[1]))
            futures = {
                name: client.submit(carry_out, list(words), name, topic, __version__, key=f"{topic}-{name}", pure=False)
                for name, words in commands.items()
            }
            for name, future in futures.items():
                future.add_done_callback(lambda done, name=name: heard.put((name, outcome_of(done))))
            if not client.nthreads():
                hear(next(iter(commands)), {"kind": "say", "text": f"waiting for workers at {self.address}"})
            try:
                for name, outcome in outcomes(heard, len(commands), hear_unended):
                    ended.add(name)
                    yield name, outcome
            finally:
                client.cancel(list(futures.values()), force=True)


def carry_out(words: list[str], name: str, topic: str, version: str) -> tuple[Any, ...]:
    """Run one command on a worker until it ends or its task is cancelled."""
    from distributed import get_worker

    if version != __version__:
        return astuple(Outcome(f"{socket.gethostname()} has vbs {__version__}, not {version}", wrong_use=True))
    worker = get_worker()
    key = worker.get_current_task()

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state not in RUNNING

    def tell(message: Message) -> None:
        worker.log_event(topic, (name, dict(message)))

    return astuple(attend(words, tell, stopped=unwanted))


def outcome_of(future: Any) -> Outcome:
    """Outcome of a task, also if its worker could not report one."""
    if future.status == "finished":
        return Outcome(*future.result())
    if future.status == "error":
        return Outcome(" ".join(str(future.exception()).split()))
    return Outcome(f"{future.status} by the scheduler")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a scheduler for the duration of the block."""
    try:
        from distributed import Client
    except ImportError:
        raise VbsError("--cluster needs dask.distributed", hint="pip install 'vbs-cli[cluster]'") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    where = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    try:
        client = Client(**where, timeout=ANSWER, set_as_default=False, name="vbs")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise VbsError(f"no scheduler answers at {address} ({text})", hint="`dask scheduler` starts one") from None
    with client:
        yield client
