"""Files are wholly there or not at all."""

import os

import numpy as np
import pytest

from vbs_cli import files
from vbs_cli.errors import VbsError


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, operation):
    path = tmp_path / "a.bin"
    files.write_bytes(path, b"old")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, operation, fails)
    with pytest.raises(VbsError, match=r"cannot write .*a.bin: No space left"):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_arrays_are_written_in_chunks(tmp_path):
    values = np.arange(60, dtype=np.float32).reshape(10, 2, 3)
    rows = files.write_array(tmp_path / "x.npy", iter([values[:4], values[4:]]), row=(2, 3), dtype="float32")
    assert rows == 10
    assert np.array_equal(np.load(tmp_path / "x.npy", allow_pickle=False), values)


def test_the_number_of_rows_need_not_be_known_beforehand(tmp_path):
    for rows in (0, 1, 12_345):
        files.write_array(tmp_path / "x.npy", [np.ones(rows, np.int16)], row=(), dtype="int16")
        assert np.load(tmp_path / "x.npy", allow_pickle=False, mmap_mode="r" if rows else None).shape == (rows,)
    with pytest.raises(VbsError, match="rows of shape"):
        files.write_array(tmp_path / "x.npy", [np.ones((2, 3))], row=(4,), dtype="float32")
    assert len(np.load(tmp_path / "x.npy")) == 12_345


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / "deep").mkdir()
    leftover = tmp_path / "deep" / f".x.12-ab{files.TEMPORARY}"
    leftover.write_bytes(b"half")
    files.remove_temporaries(tmp_path)
    assert not leftover.exists()


def test_the_hash_of_json_does_not_depend_on_the_order_of_keys():
    assert files.sha256_of_json({"a": 1, "b": [2]}) == files.sha256_of_json({"b": [2], "a": 1})
    assert files.sha256_of_json({"a": 1}) != files.sha256_of_json({"a": 2})


def test_replacing_a_folder_keeps_one_whole_one(tmp_path):
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").write_text(name)
    files.replace_folder(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "content").read_text() == "new"
    assert os.listdir(tmp_path) == ["old"]


def test_a_growing_file_stays_when_its_writer_fails_and_goes_on_from_there(tmp_path):
    path = tmp_path / "deep" / "a.part"
    with pytest.raises(TypeError), files.growing(path, keep=True) as file:
        file.writelines([b"half", None])
    with files.growing(path, keep=True) as file:
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    with files.growing(path, keep=False) as file:
        file.write(b"anew")
    assert path.read_bytes() == b"anew"


def test_a_file_is_on_the_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    order, replace = [], os.replace
    (tmp_path / "a.part").write_bytes(b"whole")
    monkeypatch.setattr(os, "fsync", lambda handle: order.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda *paths: order.append("replace") or replace(*paths))
    files.put_in_place(tmp_path / "a.part", tmp_path / "a")
    assert order == ["fsync", "replace", "fsync"]
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_set_aside_replaces_the_one_before(tmp_path):
    for content in (b"first", b"second"):
        (tmp_path / "a.part").write_bytes(content)
        assert files.set_aside(tmp_path / "a.part", "a") == tmp_path / "a.wrong"
    assert (tmp_path / "a.wrong").read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["a.wrong"]


def test_scratch_never_overwrites(tmp_path):
    files.write_scratch(str(tmp_path / "a"), [b"1", b"2"])
    with pytest.raises(FileExistsError):
        files.write_scratch(str(tmp_path / "a"), [b"3"])
    assert (tmp_path / "a").read_bytes() == b"12"


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    missing = tmp_path / "none"
    for attempt in (
        lambda: files.make_folder(tmp_path / "file" / "below"),
        lambda: files.write_scratch(str(missing / "a"), []),
        lambda: files.set_aside(missing, "a"),
        lambda: files.put_in_place(missing, tmp_path / "a"),
        lambda: files.growing(tmp_path / "file" / "a", keep=True).__enter__(),
    ):
        with pytest.raises(VbsError, match="cannot write"):
            attempt()
