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
    files.write_array(tmp_path / "x.npy", iter([values[:4], values[4:]]), shape=(10, 2, 3), dtype=np.float32)
    assert np.array_equal(np.load(tmp_path / "x.npy", allow_pickle=False), values)


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
