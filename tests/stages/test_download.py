"""`vbs download`: made once, found again, replaced only on request; and the sentences that it says."""

import hashlib
import json

import numpy as np
import pytest
import soundfile

from tests.fixtures.cifar10 import check_is_content, packed, write_python2
from tests.fixtures.datasets import captures, corpus
from tests.fixtures.jobs import Heard
from tests.fixtures.server import Fault, serving
from vbs_cli.data import Request, cifar10, open_dataset
from vbs_cli.data.fetch import Remote, fetch
from vbs_cli.errors import Busy, InvalidInput, MissingArtifact
from vbs_cli.locks import locked
from vbs_cli.protocols import protocol
from vbs_cli.stages.download import download, ensure_data, list_datasets


@pytest.fixture
def files(tmp_path):
    return captures(tmp_path / "files")


def test_a_second_time_it_is_there_and_nothing_is_written(tmp_path, files):
    first = download(tmp_path / "data", "radio", Request(origin=files))
    stamp = (first.folder / "dataset.json").stat().st_mtime_ns
    heard = Heard()
    again = download(tmp_path / "data", "radio", Request(origin=files), progress=heard)
    assert again == first
    assert (first.folder / "dataset.json").stat().st_mtime_ns == stamp
    assert "radio is there already (captures, files)" in heard.said[0]


def test_the_same_files_elsewhere_are_the_same_data(tmp_path, files):
    download(tmp_path / "data", "radio", Request(origin=files))
    files.rename(tmp_path / "moved")
    download(tmp_path / "data", "radio", Request(origin=tmp_path / "moved"))


def test_another_source_does_not_overwrite_without_force(tmp_path, files):
    data = tmp_path / "data"
    before = download(data, "radio", Request(origin=files))
    for other in (Request(simulate=True), Request()):
        with pytest.raises(InvalidInput, match=r"holds other data: captures, files, 12 / 6 / 6 examples; .*--force"):
            download(data, "radio", other)
    assert open_dataset(data, "radio") == before
    other = captures(tmp_path / "other", sizes=(9, 6, 6))
    assert download(data, "radio", Request(origin=other), force=True).counts["train"] == 9


def test_what_is_missing_or_cut_is_made_again(tmp_path, files):
    data = download(tmp_path / "data", "radio", Request(origin=files))
    for harm in (lambda path: path.unlink(), lambda path: path.write_bytes(b"")):
        harm(data.folder / "x_val.npy")
        heard = Heard()
        assert download(tmp_path / "data", "radio", Request(origin=files), progress=heard) == data
        assert "x_val.npy is" in heard.said[0]
        assert len(data.split("val")) == 6


def test_a_failed_replacement_leaves_the_old_data(tmp_path, files):
    before = download(tmp_path / "data", "radio", Request(origin=files))
    (files / "X_test.pth").write_bytes(b"nonsense")
    with pytest.raises(Exception, match=r"X_test\.pth"):
        download(tmp_path / "data", "radio", Request(origin=files), force=True)
    assert open_dataset(tmp_path / "data", "radio") == before
    assert before.split("test") is not None


def test_two_at_once_are_kept_apart(tmp_path, files):
    with (
        locked(tmp_path / "data", name=".radio.lock", hint=""),
        pytest.raises(Busy, match=r"in use by process .* --data"),
    ):
        download(tmp_path / "data", "radio", Request(origin=files))


def test_what_was_left_out_is_said(tmp_path):
    folder = corpus(tmp_path / "corpus")
    soundfile.write(folder / "LibriSpeech/dev-clean/84/12/84-12-0000.flac", np.zeros(5, np.int16), 16_000)
    heard = Heard()
    download(tmp_path / "data", "librispeech", Request(origin=folder), progress=heard)
    assert "librispeech: left out 1 examples: shorter than the crop" in heard.said


def test_nothing_but_the_dataset_stays(tmp_path, files):
    download(tmp_path / "data", "radio", Request(origin=files))
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [".radio.lock", "radio"]


def test_what_a_killed_process_left_is_neither_read_nor_kept(tmp_path):
    folder = corpus(tmp_path / "corpus")
    packed(folder, tmp_path / "corpus.tar.gz")
    for leftover in (".librispeech.vbs-tmp", ".librispeech.source.vbs-tmp"):
        (tmp_path / "data" / leftover / "old").mkdir(parents=True)
        (tmp_path / "data" / leftover / "old" / "train_split.txt").write_text("1-1-1")
    data = download(tmp_path / "data", "librispeech", Request(origin=tmp_path / "corpus.tar.gz"))
    assert data.counts == {"train": 12, "val": 3, "test": 3}
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [".librispeech.lock", "librispeech"]


def test_the_list_tells_what_there_is_and_what_is_prepared(tmp_path, files):
    download(tmp_path / "data", "radio", Request(origin=files))
    rows = {row["dataset"]: row for row in list_datasets(tmp_path / "data")}
    assert set(rows) == {"radio", "librispeech", "cifar10", "cifar10-c", "folder"}
    assert rows["radio"]["prepared"] == "captures, files"
    assert rows["radio"]["bytes"] > 0
    assert rows["cifar10"]["prepared"] is None
    assert rows["cifar10"]["download_bytes"] == 170_498_071


@pytest.fixture
def official(tmp_path, monkeypatch):
    """A small archive of the official format on a server of its own, and where vbs looks for it."""
    write_python2(tmp_path / "cifar-10-batches-py")
    content = packed(tmp_path / "cifar-10-batches-py", tmp_path / "cifar-10-python.tar.gz").read_bytes()
    with serving() as server:
        server.content = {"/mirror": content}
        urls = (server.url("/dead"), server.url("/mirror"))
        remote = Remote("cifar-10-python.tar.gz", urls, hashlib.sha256(content).hexdigest(), len(content))
        monkeypatch.setattr(cifar10, "ARCHIVE", remote)
        yield server


def test_the_command_brings_an_official_archive_and_keeps_it(tmp_path, vbs, official):
    done = vbs(tmp_path, "download", "--dataset", "cifar10")
    assert done.code == 0, done.err
    check_is_content(open_dataset(tmp_path / "data", "cifar10"))
    asked = len(official.log)
    assert vbs(tmp_path, "download", "--dataset", "cifar10", "--force").code == 0
    assert len(official.log) == asked
    assert (tmp_path / "data/downloads/cifar-10-python.tar.gz").is_file()


def test_a_download_that_was_cut_off_goes_on_with_the_next_command(tmp_path, vbs, official, monkeypatch):
    monkeypatch.setitem(fetch.__kwdefaults__, "pause", lambda seconds: None)
    official.standing["/mirror"] = Fault(stop_after=0)
    official.faults["/mirror"] = [Fault(stop_after=1000)]
    failed = vbs(tmp_path, "download", "--dataset", "cifar10")
    assert failed.code == 1
    assert "data/downloads/cifar-10-python.tar.gz by hand" in failed.err
    official.standing.clear()
    official.log.clear()
    assert vbs(tmp_path, "download", "--dataset", "cifar10").code == 0
    assert [request.begin for request in official.log if request.path == "/mirror"] == [1000]


def test_a_wrong_archive_is_kept_aside_and_nothing_is_prepared(tmp_path, vbs, official):
    official.content["/mirror"] = official.content["/mirror"][:-1] + b"x"
    done = vbs(tmp_path, "download", "--dataset", "cifar10")
    assert done.code == 1
    assert cifar10.ARCHIVE.sha256 in done.err
    assert (tmp_path / "data/downloads/cifar-10-python.tar.gz.wrong").is_file()
    assert not (tmp_path / "data/cifar10").exists()


def test_a_run_simulates_radio_and_names_the_command_for_the_others(tmp_path):
    with pytest.raises(MissingArtifact, match=r"no cifar10 data in .*vbs download --dataset cifar10"):
        ensure_data(tmp_path / "data", protocol("cifar10", "quick"))


def test_the_command_line_brings_and_lists(tmp_path, files, vbs):
    done = vbs(tmp_path, "download", "--dataset", "radio", "--from", "files", "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert (row["train"], row["classes"], row["shape"]) == (12, 3, "2 x 20")
    shown = vbs(tmp_path, "download", "--list")
    assert shown.code == 0
    assert "captures, files" in shown.out
    assert "170.5 MB" in shown.out
    assert " kB " in shown.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "no --dataset is given; vbs download --list shows what there is"),
        (("--dataset", "cifar"), 2, "did you mean 'cifar10'?"),
        (("--dataset", "cifar10", "--simulate"), 2, "--simulate means nothing to cifar10"),
        (("--dataset", "cifar10", "--from", "nowhere"), 2, "there is nothing at nowhere"),
        (("--dataset", "folder"), 2, "--from DIR"),
        (("--dataset", "folder", "--from", ".", "--size", "0"), 2, "--size"),
        (("--dataset", "folder", "--from", ".", "--crop", "nan"), 2, "--crop"),
        (("--dataset", "radio"), 1, "https://drive.google.com/drive/folders/14_K8s2uzS8qTCoZv9reSJ9M3M2GNAeVm"),
        (("--dataset", "librispeech"), 1, "https://www.openslr.org/resources/12/train-clean-100.tar.gz"),
        (("--dataset", "cifar10"), 1, "data/downloads/cifar-10-python.tar.gz"),
    ],
)
def test_errors_are_one_line_with_the_cure(tmp_path, vbs, words, code, message):
    done = vbs(tmp_path, "download", *words)
    assert done.code == code, done.err
    assert message in done.err
    assert done.err.splitlines()[-1].startswith("error: ")
    assert done.out == ""
