"""Commands in processes of their own, on this machine."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.fixtures.jobs import wait_for
from vbs_cli.executors import Local, Outcome
from vbs_cli.executors.base import attend, cause_of_death, parsed

LONG = ("train", "--dataset", "radio", "--epochs", "100000")


def children():
    """Processes that this one has started and that still run."""
    lists = Path("/proc/self/task").glob("*/children")
    return [pid for each in lists for pid in map(int, each.read_text().split()) if alive(pid)]


def alive(pid):
    """Whether a process runs; one that nobody has buried yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_command_that_works_has_no_error():
    heard = []
    assert attend(["--version"], heard.append) == Outcome()
    assert heard == [{"kind": "start"}]  # what is no message is not passed on


def test_wrong_use_is_told_from_failure(data_only, monkeypatch):
    monkeypatch.chdir(data_only)
    outcome = attend(["train", "--lr", "nonsense"], lambda message: None)
    assert outcome.wrong_use
    assert "lr" in outcome.error
    outcome = attend(["work", "0/dropout", "--run", "nowhere"], lambda message: None)
    assert not outcome.wrong_use
    assert "no run at runs/nowhere" in outcome.error


def test_progress_comes_while_the_command_runs_and_stopping_it_ends_it(data_only, monkeypatch):
    monkeypatch.chdir(data_only)
    begun = threading.Event()

    def hear(message):
        if message["kind"] == "begin" and message["label"] == "seed 0 conventional":
            begun.set()

    outcome = attend([*LONG, "--width", "4", "--set", "kernel=3"], hear, stopped=begun.is_set)
    assert begun.is_set()
    assert "code 143" in outcome.error


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads /proc")
def test_children_end_with_their_parent_even_when_it_is_killed(data_only):
    code = (
        "from vbs_cli.executors.base import attend\n"
        f"attend({[*LONG, '--width', '4', '--set', 'kernel=3']!r}, lambda message: print(message['kind'], flush=True))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=data_only, stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "start\n"
    assert parent.stdout.readline()
    with open(f"/proc/{parent.pid}/task/{parent.pid}/children") as file:
        (child,) = map(int, file.read().split())
    assert alive(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not alive(child))


def test_as_many_at_once_as_there_are_jobs_each_on_its_gpu(monkeypatch):
    running, most, seen = set(), 0, {}
    lock = threading.Lock()

    def pretend(words, hear, *, environment, stopped):
        nonlocal most
        with lock:
            running.add(words[0])
            most = max(most, len(running))
            seen[words[0]] = environment["CUDA_VISIBLE_DEVICES"]
        hear({"kind": "say", "text": words[0]})
        time.sleep(0.1)
        with lock:
            running.remove(words[0])
        return Outcome("it broke" if words[0] == "c" else "")

    monkeypatch.setattr("vbs_cli.executors.local.attend", pretend)
    heard = []
    names = "abcde"
    outcomes = dict(Local(2, ("7", "3")).run({n: [n] for n in names}, lambda name, m: heard.append((name, m["text"]))))
    assert most == 2
    assert set(seen.values()) == {"7", "3"}
    assert {name for name, outcome in outcomes.items() if outcome.error} == {"c"}
    assert sorted(heard) == [(name, name) for name in names]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads /proc")
def test_ending_the_iteration_ends_the_commands(data_only, monkeypatch):
    monkeypatch.chdir(data_only)
    words = [*LONG, "--width", "4", "--set", "kernel=3"]

    def interrupted(name, message):
        raise KeyboardInterrupt

    before = children()  # of other tests
    with pytest.raises(KeyboardInterrupt):
        list(Local(2).run({"a": [*words, "--run", "a"], "b": [*words, "--run", "b"]}, interrupted))
    assert set(children()) <= set(before)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-9, "killed by SIGKILL; perhaps for lack of memory"),
        (-6, "killed by SIGABRT: last"),
        (3, "ended with code 3: last"),
    ],
)
def test_a_death_without_a_word_has_a_cause(code, expected):
    assert cause_of_death(code, [] if code == -9 else ["first", "last"]) == expected


@pytest.mark.parametrize("line", ["hello", "3", "[1]", '{"other": 1}', ""])
def test_only_messages_are_messages(line):
    assert parsed(line) is None
