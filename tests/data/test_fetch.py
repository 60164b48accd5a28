"""Downloads survive the net, and only the right hash is trusted."""

import ast
import contextlib
import hashlib
import random
import shutil
import socket
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from tests.fixtures.server import Fault, serving
from vbs_cli.data import fetch as module
from vbs_cli.data.fetch import Failure, Remote, fetch, fetch_drive_folder, redirected
from vbs_cli.errors import DamagedArtifact, VbsError
from vbs_cli.progress import Progress, Task

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
HINT = "vbs download --dataset cifar10 --from FILE"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """The server is on this machine, whatever proxy the machine uses."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def server():
    with serving() as running:
        running.content = {"/a": CONTENT, "/mirror": CONTENT}
        yield running


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def get(tmp_path, pauses):
    """Fetch the file from these addresses without waiting between tries."""

    def fetched(*urls, progress=None):
        return fetch(remote(*urls), tmp_path, origin_hint=HINT, progress=progress or Progress(), pause=pauses.append)

    return fetched


def remote(*urls):
    return Remote("a.bin", urls, hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def dead_address():
    """An address of this machine where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/a"


class Recorder(Progress):
    """Remembers what was said and how far the tasks came; interrupts them on request."""

    def __init__(self, interrupt_at=None):
        self.said, self.labels, self.notes, self.done = [], [], [], 0
        self.interrupt_at = interrupt_at

    def say(self, text):
        self.said.append(text)

    @contextlib.contextmanager
    def task(self, label, total):
        self.labels.append((label, total))
        recorder = self

        class Recorded(Task):
            def advance(self, amount):
                recorder.done += amount
                if recorder.interrupt_at is not None and recorder.done >= recorder.interrupt_at:
                    raise KeyboardInterrupt

            def note(self, text):
                recorder.notes.append(text)

        yield Recorded()


def test_a_download_is_put_into_place_and_nothing_else_stays(server, get, tmp_path):
    path = get(server.url("/a"))
    assert path == tmp_path / "a.bin"
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["a.bin"]


def test_the_folder_is_made(server, tmp_path):
    path = fetch(remote(server.url("/a")), tmp_path / "deep" / "down", origin_hint=HINT)
    assert path.read_bytes() == CONTENT


def test_progress_counts_the_bytes_and_notes_the_speed(server, get):
    recorder = Recorder()
    server.faults["/a"] = [Fault(stop_after=100_000), Fault(ignore_range=True, stop_after=50_000)]
    get(server.url("/a"), progress=recorder)
    assert recorder.labels == [("downloading a.bin", len(CONTENT))]
    assert recorder.done == len(CONTENT)
    assert recorder.notes[-1].startswith("0.3 MB, ")
    assert recorder.notes[-1].endswith(" MB/s")


def test_a_file_put_there_by_hand_needs_no_network(get, tmp_path):
    (tmp_path / "a.bin").write_bytes(CONTENT)
    assert get(dead_address()).read_bytes() == CONTENT


def test_a_wrong_file_put_there_by_hand_is_kept_aside_and_downloaded(server, get, tmp_path):
    recorder = Recorder()
    (tmp_path / "a.bin").write_bytes(OTHER)
    assert get(server.url("/a"), progress=recorder).read_bytes() == CONTENT
    assert (tmp_path / "a.bin.wrong").read_bytes() == OTHER
    assert "a.bin.wrong" in recorder.said[0]


def test_an_interrupted_download_goes_on_in_the_next_run(server, get, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        get(server.url("/a"), progress=Recorder(interrupt_at=100_000))
    have = (tmp_path / "a.bin.part").stat().st_size
    assert names(tmp_path) == ["a.bin.part"]
    assert 0 < have < len(CONTENT)
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert (server.log[-1].begin, server.log[-1].status, server.log[-1].sent) == (have, 206, len(CONTENT) - have)
    assert names(tmp_path) == ["a.bin"]


def test_a_server_that_ignores_ranges_restarts_the_download(server, get, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:1000])
    server.standing["/a"] = Fault(ignore_range=True)
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert [(request.begin, request.status) for request in server.log] == [(1000, 200)]


def test_a_server_that_answers_another_range_is_asked_for_all(server, get, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:1000])
    server.faults["/a"] = [Fault(shift_range=10)]
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert [request.begin for request in server.log] == [1000, 0]


def test_a_connection_that_breaks_again_and_again_is_continued_each_time(server, get, pauses):
    server.faults["/a"] = [Fault(stop_after=40_000)] * 6
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert [request.begin for request in server.log] == [40_000 * number for number in range(7)]
    assert pauses == [1.0] * 6, "each try made progress, so the pause does not grow"


def test_a_connection_that_gives_nothing_is_given_up_after_growing_pauses(server, get, pauses):
    server.standing["/a"] = Fault(stop_after=0)
    with pytest.raises(VbsError, match="the connection"):
        get(server.url("/a"))
    assert pauses == [1.0, 2.0, 4.0]
    assert len(server.log) == 4


def test_a_server_that_hangs_up_is_tried_again(server, get):
    server.faults["/a"] = [Fault(hang_up=True)] * 3
    assert get(server.url("/a")).read_bytes() == CONTENT


def test_progress_in_tiny_steps_is_not_followed_for_ever(server, get, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ANSWERS", 10)
    server.standing["/a"] = Fault(stop_after=1)
    with pytest.raises(VbsError, match="the connection"):
        get(server.url("/a"))
    assert len(server.log) == 10
    assert names(tmp_path) == ["a.bin.part"], "what came is kept for the next run"


def test_a_short_answer_without_a_length_is_found_by_its_hash(server, get):
    server.standing["/a"] = Fault(without_length=True, stop_after=70_000)
    assert get(server.url("/a"), server.url("/mirror")).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_refusal_leads_to_the_next_mirror_at_once(server, get, pauses, status):
    server.standing["/a"] = Fault(status=status)
    assert get(server.url("/a"), server.url("/mirror")).read_bytes() == CONTENT
    assert [request.path for request in server.log] == ["/a", "/mirror"]
    assert pauses == []


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_tried_again(server, get, status):
    server.faults["/a"] = [Fault(status=status)] * 2
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert [request.status for request in server.log] == [status, status, 200]


def test_a_mirror_goes_on_where_the_first_address_broke(server, get):
    server.faults["/a"] = [Fault(stop_after=200_000)]
    server.standing["/a"] = Fault(status=404)
    assert get(server.url("/a"), server.url("/mirror")).read_bytes() == CONTENT
    assert server.log[-1].begin == 200_000


def test_a_wrong_hash_leads_to_the_next_mirror_from_zero(server, get, tmp_path):
    server.content["/a"] = OTHER
    assert get(server.url("/a"), server.url("/mirror")).read_bytes() == CONTENT
    assert [(request.path, request.begin) for request in server.log] == [("/a", 0), ("/mirror", 0)]
    assert (tmp_path / "a.bin.wrong").read_bytes() == OTHER


def test_a_wrong_hash_everywhere_is_an_error_with_both_hashes(server, get, tmp_path):
    server.content["/a"] = OTHER
    with pytest.raises(DamagedArtifact) as caught:
        get(server.url("/a"), server.url("/gone"))
    for part in (OTHER, CONTENT):
        assert hashlib.sha256(part).hexdigest() in str(caught.value)
    assert str(tmp_path / "a.bin.wrong") in str(caught.value)
    assert HINT in caught.value.hint
    assert names(tmp_path) == ["a.bin.wrong"]
    assert (tmp_path / "a.bin.wrong").read_bytes() == OTHER


def test_a_stale_part_is_found_by_the_hash_and_the_same_address_asked_for_all(server, get, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(OTHER[:1000])
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert [request.begin for request in server.log] == [1000, 0]
    assert names(tmp_path) == ["a.bin"]


def test_a_part_longer_than_the_file_is_dropped(server, get, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT + b"more")
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert [request.status for request in server.log] == [416, 200]


def test_a_complete_part_is_not_downloaded_again(server, get, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    assert get(server.url("/a")).read_bytes() == CONTENT
    assert [request.sent for request in server.log] == [0]


def test_an_answer_far_longer_than_published_is_cut_off(server, get, tmp_path):
    server.content["/a"] = bytes(len(CONTENT) * 20)
    with pytest.raises(VbsError, match="far more than was published"):
        get(server.url("/a"))
    assert names(tmp_path) == []


def test_everything_dead_is_one_line_with_address_place_and_cure(server, get, tmp_path, pauses):
    first, second = dead_address(), server.url("/gone")
    with pytest.raises(VbsError) as caught:
        get(first, second)
    text = str(caught.value)
    assert "\n" not in text
    for part in (first, "404", str(tmp_path / "a.bin"), HINT):
        assert part in text


def test_offline_is_noticed_soon(get, pauses):
    with pytest.raises(VbsError, match="Connection refused"):
        get(dead_address(), dead_address())
    assert sum(pauses) <= 3


def test_a_redirect_is_followed_with_the_range(server, get, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:1000])
    server.standing["/old"] = Fault(location="/a")
    assert get(server.url("/old")).read_bytes() == CONTENT
    assert [(request.path, request.begin) for request in server.log] == [("/old", 1000), ("/a", 1000)]


def test_redirects_in_a_circle_end(server, get):
    server.standing["/old"] = Fault(location="/old")
    with pytest.raises(VbsError, match="redirects"):
        get(server.url("/old"))


def test_a_redirect_never_gives_up_encryption():
    assert redirected("https://a.org/x", "/y") == "https://a.org/y"
    assert redirected("https://a.org/x", "https://b.org/y") == "https://b.org/y"
    assert redirected("http://a.org/x", "https://b.org/y") == "https://b.org/y"
    for location in ("http://a.org/x", "HTTP://b.org/", "ftp://b.org/x"):
        with pytest.raises(Failure, match="not encrypted"):
            redirected("https://a.org/x", location)


def test_every_redirect_is_looked_at(server, get, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "redirected", lambda url, location: seen.append((url, location)) or server.url("/a"))
    server.standing["/old"] = Fault(location="/a")
    get(server.url("/old"))
    assert seen == [(server.url("/old"), "/a")]


def test_too_little_space_is_told_before_the_download(server, get, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:100_000])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 199_999))
    with pytest.raises(VbsError, match=r"a\.bin needs .* MB more"):
        get(server.url("/a"))
    assert server.log == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 200_000))
    assert get(server.url("/a")).read_bytes() == CONTENT


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_is_told_with_the_path(server, get, tmp_path):
    (tmp_path / "a.bin.part").symlink_to("/dev/full")
    with pytest.raises(VbsError, match=r"cannot write .*a\.bin\.part: No space left"):
        get(server.url("/a"))


def test_a_file_where_the_folder_should_be_is_told(server, tmp_path):
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(VbsError, match=r"cannot write .*taken"):
        fetch(remote(server.url("/a")), tmp_path / "taken", origin_hint=HINT)


def test_requests_and_gdown_are_imported_only_when_needed():
    tree = ast.parse(Path(module.__file__).read_text())
    at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not {"requests", "gdown", "urllib3"} & {
        name.split(".")[0]
        for node in at_once
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }


def test_a_drive_folder_already_there_needs_no_network(offline, tmp_path):
    for name in ("a.pth", "b.pth"):
        (tmp_path / name).write_bytes(b"content")
    assert fetch_drive_folder("id", ["a.pth", "b.pth"], tmp_path, origin_hint=HINT) == tmp_path


def test_a_drive_folder_out_of_reach_is_one_line_with_address_place_and_cure(offline, tmp_path, capfd):
    (tmp_path / "a.pth").write_bytes(b"content")
    recorder = Recorder()
    with pytest.raises(VbsError) as caught:
        fetch_drive_folder("id123", ["a.pth", "b.pth"], tmp_path, origin_hint=HINT, progress=recorder)
    text = str(caught.value)
    assert "\n" not in text
    for part in ("https://drive.google.com/drive/folders/id123", str(tmp_path), HINT):
        assert part in text
    assert recorder.said == ["downloading https://drive.google.com/drive/folders/id123"]
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def drive(monkeypatch):
    """A stand-in for gdown, for Google Drive cannot be run here: writes the given files and chats."""
    import gdown

    def holding(content, brought=("something",)):
        def download_folder(*, id, output, **_):
            print("Retrieving folder contents")
            print("Processing", file=sys.stderr)
            for name, data in content.items():
                path = Path(output) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            return brought and list(brought)

        monkeypatch.setattr(gdown, "download_folder", download_folder)

    return holding


def test_files_in_a_subfolder_of_the_drive_are_moved_up(drive, tmp_path, capfd):
    drive({"a.pth": b"a", "captures/b.pth": b"b", "captures/old/b.pth": b"older"})
    assert fetch_drive_folder("id", ["a.pth", "b.pth"], tmp_path, origin_hint=HINT) == tmp_path
    assert (tmp_path / "a.pth").read_bytes() == b"a"
    assert (tmp_path / "b.pth").read_bytes() == b"b"
    assert capfd.readouterr() == ("", "")


def test_files_that_the_drive_lacks_are_named(drive, tmp_path):
    drive({"a.pth": b"a"})
    with pytest.raises(VbsError, match=r"does not hold b\.pth, c\.pth") as caught:
        fetch_drive_folder("id", ["a.pth", "b.pth", "c.pth"], tmp_path, origin_hint=HINT)
    assert HINT in caught.value.hint


@pytest.mark.parametrize("brought", [None, ()])
def test_a_drive_that_gives_nothing_is_an_error(drive, tmp_path, brought):
    drive({}, brought)
    with pytest.raises(VbsError, match=r"cannot download https://drive\.google\.com/drive/folders/id"):
        fetch_drive_folder("id", ["a.pth"], tmp_path, origin_hint=HINT)
