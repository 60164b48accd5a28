"""What a child tells is what its parent shows."""

import io
import json
from contextlib import contextmanager

import pytest

from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.executors import Messages, Relay
from vbs_cli.executors.relay import RelayedTask
from vbs_cli.progress import Progress, Task


class Noted(Progress):
    """Keeps everything."""

    def __init__(self):
        self.heard = []

    def say(self, text):
        self.heard.append(("say", text))

    def detail(self, text):
        self.heard.append(("detail", text))

    @contextmanager
    def task(self, label, total):
        noted = self.heard
        noted.append(("begin", label, total))

        class Noting(Task):
            def advance(self, amount):
                noted.append(("advance", label, amount))

            def note(self, text):
                noted.append(("note", label, text))

        try:
            yield Noting()
            noted.append(("done", label))
        finally:
            noted.append(("closed", label))


def told(work):
    """The messages of a child that does `work(progress)`, as its parent reads them."""
    stream = io.StringIO()
    progress = Messages(stream)
    work(progress)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_words_and_work_arrive_as_they_happened():
    def work(progress):
        progress.say("hello [bold]")
        progress.detail("closely")
        with progress.task("seed 0", 10) as task:
            task.advance(4)
            task.note("loss 0.5")
            task.advance(6)

    noted = Noted()
    relay = Relay(noted)
    for message in told(work):
        relay.hear(message)
    assert noted.heard[:3] == [("say", "hello [bold]"), ("detail", "closely"), ("begin", "seed 0", 10)]
    assert sum(entry[2] for entry in noted.heard if entry[0] == "advance") == 10
    assert ("note", "seed 0", "loss 0.5") in noted.heard
    assert noted.heard[-2:] == [("done", "seed 0"), ("closed", "seed 0")]


def test_many_steps_are_few_messages(monkeypatch):
    now = iter(range(10_000))
    monkeypatch.setattr("vbs_cli.executors.relay.time.monotonic", lambda: next(now) * 0.01)

    def work(progress):
        with progress.task("steps", 1000) as task:
            for _ in range(1000):
                task.advance(1)

    messages = told(work)
    assert len(messages) < 60
    assert sum(message.get("amount", 0) for message in messages) == 1000


@pytest.mark.parametrize("by", ["itself", "its death"])
def test_what_was_not_finished_is_closed_but_not_done(by):
    stream = io.StringIO()

    def fails(progress):
        with progress.task("seed 1", 3) as task:
            task.advance(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails(Messages(stream))
    messages = [json.loads(line) for line in stream.getvalue().splitlines()]
    noted = Noted()
    relay = Relay(noted)
    for message in messages if by == "itself" else messages[:1]:
        relay.hear(message)
    relay.close()
    assert ("closed", "seed 1") in noted.heard
    assert ("done", "seed 1") not in noted.heard
    relay.hear({"kind": "advance", "task": 1, "amount": 1, "note": ""})  # late, and of nothing that is open


def test_a_child_that_starts_again_elsewhere_leaves_nothing_open():
    noted = Noted()
    relay = Relay(noted)
    begin = {"kind": "begin", "task": 1, "label": "seed 1", "total": 3}
    for message in ({"kind": "start"}, begin, {"kind": "start"}, begin):
        relay.hear(message)
    assert noted.heard == [("begin", "seed 1", 3), ("closed", "seed 1"), ("begin", "seed 1", 3)]


def test_errors_say_whether_the_command_was_wrong():
    stream = io.StringIO()
    messages = Messages(stream)
    messages.error(VbsError("two\nlines", hint="cure"))
    messages.error(InvalidInput("nonsense"))
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first == {"kind": "error", "text": "two lines; cure", "wrong_use": False}
    assert second["wrong_use"]


def test_a_piece_of_work_keeps_its_last_note_for_the_end():
    stream = io.StringIO()
    task = RelayedTask(Messages(stream), 1)
    task.note("all of it")
    task.flush()
    assert json.loads(stream.getvalue())["note"] == "all of it"
