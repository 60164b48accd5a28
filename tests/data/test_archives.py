"""What comes out of an archive lies inside the target, or nothing comes out."""

import contextlib
import gzip
import io
import os
import random
import stat
import struct
import tarfile
import warnings
import zipfile

import pytest

from vbs_cli.data import archives
from vbs_cli.data.archives import Limits, extract, is_archive, opened
from vbs_cli.errors import DamagedArtifact, InvalidInput, MissingArtifact, VbsError
from vbs_cli.progress import Progress, Task

NOISE = random.Random(0).randbytes(200_000)
LONG = "/".join(["a-folder-with-quite-a-long-name"] * 9)  # beyond what the plain tar header holds
TREE = {"train/cat/1.jpg": b"cat", "train/dog/1.jpg": NOISE, "empty": b"", "naïve.txt": b"x", f"{LONG}/deep.txt": b"y"}
TARS = {"tar": "w", "tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}
KINDS = [*TARS, "zip"]


def entry(name, kind=tarfile.REGTYPE, *, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def make_tar(path, entries, mode="w", **options):
    """A tar of (TarInfo or name, content)."""
    with tarfile.open(path, mode, **options) as archive:
        for info, content in entries:
            info = entry(info) if isinstance(info, str) else info
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def make_zip(path, entries):
    """A zip of (ZipInfo or name, content)."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for info, content in entries:
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


def make(path, kind, entries):
    entries = list(entries)
    return make_zip(path, entries) if kind == "zip" else make_tar(path, entries, TARS[kind])


def special(name, mode):
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def nothing_left(folder, archive):
    return os.listdir(folder) == [archive.name]


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_tree(tmp_path, kind):
    path = make(tmp_path / "no-telling-name", kind, TREE.items())
    assert is_archive(path)
    extract(path, tmp_path / "out")
    assert contents(tmp_path / "out") == TREE


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_of_either_kind_are_read(tmp_path, format):
    extract(make_tar(tmp_path / "a", TREE.items(), format=format), tmp_path / "out")
    assert contents(tmp_path / "out") == TREE


def test_folders_may_be_listed_before_after_and_twice(tmp_path):
    folder = entry("a/b", tarfile.DIRTYPE)
    path = make_tar(tmp_path / "a.tar", [(folder, b""), ("a/b/x", b"1"), (folder, b""), (entry("a", b"5"), b"")])
    extract(path, tmp_path / "out")
    assert contents(tmp_path / "out") == {"a/b/x": b"1"}
    zipped = make_zip(tmp_path / "a.zip", [("a/b/x", b"1"), ("a/b/", b""), ("c/", b"")])
    extract(zipped, tmp_path / "zipped")
    assert contents(tmp_path / "zipped") == {"a/b/x": b"1"}
    assert (tmp_path / "zipped" / "c").is_dir()


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_dot_in_front_of_names_is_ignored(tmp_path, kind):
    extract(make(tmp_path / "a", kind, [("./x/./y", b"1"), ("./z", b"2")]), tmp_path / "out")
    assert contents(tmp_path / "out") == {"x/y": b"1", "z": b"2"}


@pytest.mark.parametrize("kind", KINDS)
def test_litter_of_macos_is_skipped(tmp_path, kind):
    litter = ["__MACOSX/a", "x/._1.jpg", "x/.DS_Store", "._x/1"]
    extract(make(tmp_path / "a", kind, [*((n, NOISE) for n in litter), ("x/1.jpg", b"1")]), tmp_path / "out")
    assert contents(tmp_path / "out") == {"x/1.jpg": b"1"}


def test_rights_of_members_are_ignored(tmp_path):
    path = make_tar(tmp_path / "a.tar", [(entry("x", mode=0o7777), b"1"), (entry("y", mode=0), b"2")])
    extract(path, tmp_path / "out")
    (tmp_path / "plain").write_bytes(b"")
    usual = (tmp_path / "plain").stat().st_mode
    assert {(tmp_path / "out" / name).stat().st_mode for name in "xy"} == {usual}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "a/../b",
        "..",
        "/evil",
        "//evil",
        "C:/evil",
        "c:evil",
        "..\\evil",
        "a\\b",
        "\\\\host\\evil",
        "__MACOSX/../../evil",
        "/".join(["d"] * 5000),
        ".",
    ],
)
def test_a_name_that_could_lead_outside_is_refused_and_nothing_stays(tmp_path, kind, name):
    path = make(tmp_path / "a", kind, [("good", b"1"), (name, b"evil")])
    with pytest.raises(VbsError, match="is not safe to unpack") as caught:
        extract(path, tmp_path / "out")
    assert str(path) in str(caught.value)
    assert repr(name) in str(caught.value)
    assert nothing_left(tmp_path, path)


SPECIAL_TAR = {
    "symbolic link": entry("evil", tarfile.SYMTYPE, link="/etc/passwd"),
    "symbolic link inside": entry("evil", tarfile.SYMTYPE, link="good"),
    "hard link": entry("evil", tarfile.LNKTYPE, link="good"),
    "character device": entry("evil", tarfile.CHRTYPE),
    "block device": entry("evil", tarfile.BLKTYPE),
    "fifo": entry("evil", tarfile.FIFOTYPE),
    "contiguous file": entry("evil", tarfile.CONTTYPE),
    "unknown type": entry("evil", b"Z"),
    "litter that is a link": entry("._evil", tarfile.SYMTYPE, link="/etc"),
}


@pytest.mark.parametrize("what", SPECIAL_TAR)
def test_a_tar_with_anything_but_files_and_folders_is_refused(tmp_path, what):
    path = make_tar(tmp_path / "a.tar", [("good", b"1"), (SPECIAL_TAR[what], b"")])
    with pytest.raises(VbsError, match=r"evil' is a link, a device"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


def test_a_sparse_member_is_refused(tmp_path):
    info = entry("evil")
    info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(10**13), "GNU.sparse.numblocks": "1"}
    path = make_tar(tmp_path / "a.tar", [("good", b"1"), (info, b"x")], format=tarfile.PAX_FORMAT)
    with pytest.raises(VbsError, match="evil"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


def test_a_link_is_refused_before_anything_goes_through_it(tmp_path):
    (tmp_path / "outside").mkdir()
    link = entry("link", tarfile.SYMTYPE, link=str(tmp_path / "outside"))
    path = make_tar(tmp_path / "a.tar", [(link, b""), ("link/evil", b"1")])
    with pytest.raises(VbsError, match="'link'"):
        extract(path, tmp_path / "out")
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR])
def test_a_zip_with_anything_but_files_and_folders_is_refused(tmp_path, mode):
    path = make_zip(tmp_path / "a.zip", [("good", b"1"), (special("evil", mode | 0o777), b"/etc/passwd")])
    with pytest.raises(VbsError, match=r"'evil' is a link, a device"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


def test_an_encrypted_member_is_refused(tmp_path):
    path = make_zip(tmp_path / "a.zip", [("secret", b"1")])
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(VbsError, match="'secret' is encrypted"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize(
    ("names", "flaw"),
    [
        (["x", "x"], "'x' is there twice"),
        (["a/x", "a/./x"], "'a/./x' is there twice"),
        (["x", "x/y"], "'x/y' is both a file and a folder"),
        (["x", "x/y/z"], "'x/y/z' is both a file and a folder"),
        (["x/y", "x"], "'x' is both a file and a folder"),
    ],
)
def test_names_that_collide_are_refused(tmp_path, kind, names, flaw):
    path = make(tmp_path / "a", kind, [(name, b"1") for name in names])
    with pytest.raises(VbsError, match=flaw):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


@pytest.mark.parametrize("kind", KINDS)
def test_more_bytes_than_allowed_are_refused(tmp_path, kind):
    path = make(tmp_path / "a", kind, TREE.items())
    extract(path, tmp_path / "fits", limits=Limits(total=sum(map(len, TREE.values()))))
    with pytest.raises(VbsError, match="brings the content to more than"):
        extract(path, tmp_path / "out", limits=Limits(total=sum(map(len, TREE.values())) - 1))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_more_files_than_allowed_are_refused(tmp_path, kind):
    path = make(tmp_path / "a", kind, TREE.items())
    extract(path, tmp_path / "fits", limits=Limits(files=len(TREE)))
    with pytest.raises(VbsError, match="beyond the 4 files"):
        extract(path, tmp_path / "out", limits=Limits(files=len(TREE) - 1))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "tar.xz", "zip"])
@pytest.mark.parametrize("name", ["zeros", "._zeros"])
def test_a_bomb_is_refused_for_its_ratio(tmp_path, kind, name):
    path = make(tmp_path / "a", kind, [(name, bytes(3_000_000))])
    assert 200 * path.stat().st_size < 3_000_000
    with pytest.raises(VbsError, match=f"'{name}' brings the content to more than 1 MB"):
        extract(path, tmp_path / "out", limits=Limits(ratio=100, floor=1_000_000))
    assert nothing_left(tmp_path, path)
    extract(path, tmp_path / "out", limits=Limits(ratio=100, floor=3_000_000))


def test_the_usual_limits_stop_a_real_bomb(tmp_path):
    path = make_tar(tmp_path / "a.tar.xz", [("zeros", bytes(120_000_000))], "w:xz", preset=0)
    with pytest.raises(VbsError, match="brings the content to more than 100 MB"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


def test_a_zip_that_lies_about_its_size_is_refused(tmp_path):
    """Its directory tells of 10 bytes, or of more than there are."""
    for size in (10, 10**6):
        path = make_zip(tmp_path / "a.zip", [("x", NOISE)])
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, size)
        path.write_bytes(data)
        with pytest.raises(DamagedArtifact, match="is damaged"):
            extract(path, tmp_path / "out")
        assert nothing_left(tmp_path, path)


def test_a_long_name_that_would_fill_the_memory_is_refused(tmp_path):
    header = entry("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    path = make_tar(tmp_path / "a.tar.gz", [("good", b"1"), (header, bytes(2 * archives.HEADERS)), ("x", b"")], "w:gz")
    with pytest.raises(DamagedArtifact, match="too much between its members"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [0.01, 0.5, 0.9, 0.999])
def test_a_truncated_archive_is_damaged(tmp_path, kind, part):
    path = make(tmp_path / "a", kind, TREE.items())
    size = path.stat().st_size
    os.truncate(path, int(size * part) if kind != "tar" else int((size - 10_240) * part))
    assert is_archive(path)
    with pytest.raises(DamagedArtifact, match="is damaged") as caught:
        extract(path, tmp_path / "out")
    assert str(path) in str(caught.value)
    assert caught.value.hint
    assert nothing_left(tmp_path, path)


def test_a_tar_that_ends_between_two_members_is_damaged(tmp_path):
    path = make_tar(tmp_path / "a.tar", [("x", b"1"), ("y", b"2")])
    os.truncate(path, 1024)
    with pytest.raises(DamagedArtifact, match="breaks off"):
        extract(path, tmp_path / "out")


def test_a_broken_header_in_the_middle_is_not_taken_for_the_end(tmp_path):
    path = make_tar(tmp_path / "a.tar", [("x", b"1"), ("y", b"2"), ("z", b"3")])
    data = bytearray(path.read_bytes())
    data[1024 + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedArtifact, match="between its members"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "tar.xz", "zip"])
def test_a_flipped_bit_in_the_content_is_found(tmp_path, kind):
    path = make(tmp_path / "a", kind, [("x", NOISE)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    with pytest.raises(DamagedArtifact, match="is damaged"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


def test_a_checksum_at_the_very_end_is_read(tmp_path):
    path = make_tar(tmp_path / "a.tar.gz", [("x", NOISE)], "w:gz")
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedArtifact, match="CRC"):
        extract(path, tmp_path / "out")


@pytest.mark.parametrize("kind", KINDS)
def test_random_damage_is_never_anything_but_an_error_of_ours(tmp_path, kind):
    rng = random.Random(0)
    whole = make(tmp_path / "whole", kind, [("x", b"1" * 600), ("d/y", b"2"), (f"{LONG}/z", b"3")]).read_bytes()
    for number in range(100):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path = tmp_path / str(number)
        path.write_bytes(data)
        is_archive(path)
        target = tmp_path / "out" / str(number)
        try:
            extract(path, target)
        except VbsError:
            assert not target.exists()


@pytest.mark.parametrize("content", [b"", b"PK", b"text " * 200, b"\x89PNG" + NOISE])
def test_other_files_are_no_archives(tmp_path, content):
    (tmp_path / "x.tar").write_bytes(content)
    assert not is_archive(tmp_path / "x.tar")
    with pytest.raises(DamagedArtifact):
        extract(tmp_path / "x.tar", tmp_path / "out")


def test_zeros_a_compressed_text_a_folder_and_nothing_are_no_archives(tmp_path):
    (tmp_path / "zeros").write_bytes(bytes(20_000))
    assert not is_archive(tmp_path / "zeros")
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"text " * 1000))
    assert not is_archive(tmp_path / "x.gz")
    assert not is_archive(tmp_path)
    assert not is_archive(tmp_path / "nothing")


def test_a_tar_that_ends_with_a_zip_is_a_tar(tmp_path):
    inner = make_zip(tmp_path / "inner.zip", [("evil", b"1")]).read_bytes()
    path = make_tar(tmp_path / "a", [("inner.zip", inner)])
    extract(path, tmp_path / "out")
    assert contents(tmp_path / "out") == {"inner.zip": inner}


def test_what_lies_in_the_target_is_left_alone(tmp_path):
    path = make_tar(tmp_path / "a.tar", [("x", b"1")])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_bytes(b"precious")
    with pytest.raises(InvalidInput, match="not an empty folder"):
        extract(path, tmp_path / "out")
    assert contents(tmp_path / "out") == {"mine": b"precious"}


def test_what_cannot_be_written_is_told_with_the_path(tmp_path):
    path = make_tar(tmp_path / "a.tar", [("good", b"1"), ("n" * 300, b"1")])
    with pytest.raises(VbsError, match=r"cannot write .*nnn"):
        extract(path, tmp_path / "out")
    assert nothing_left(tmp_path, path)


def test_an_interruption_leaves_nothing(tmp_path):
    class Impatient(Task):
        def advance(self, amount):
            raise KeyboardInterrupt

    class Interrupting(Progress):
        def task(self, label, total):
            return contextlib.nullcontext(Impatient())

    path = make_tar(tmp_path / "a.tar", [("x", bytes(2 * archives.CHUNK)), ("y", b"")])
    with pytest.raises(KeyboardInterrupt):
        extract(path, tmp_path / "out", progress=Interrupting())
    assert nothing_left(tmp_path, path)


def test_a_folder_is_opened_as_it_is(tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    with opened(tmp_path, tmp_path / "scratch") as folder:
        assert folder == tmp_path
    assert contents(tmp_path) == {"x": b"1"}


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_opened_in_the_scratch_and_removed_afterwards(tmp_path, kind):
    path = make(tmp_path / "a", kind, TREE.items())
    with opened(path, tmp_path / "scratch") as folder:
        assert folder == tmp_path / "scratch"
        assert contents(folder) == TREE
    assert not (tmp_path / "scratch").exists()
    with pytest.raises(RuntimeError), opened(path, tmp_path / "scratch"):
        raise RuntimeError
    assert not (tmp_path / "scratch").exists()
    assert path.exists()


def test_the_scratch_of_a_killed_process_is_in_nobody_s_way(tmp_path):
    path = make_tar(tmp_path / "a.tar", TREE.items())
    with opened(path, tmp_path / "scratch") as folder:
        pass
    folder.mkdir()
    (folder / "half").write_bytes(b"")
    with opened(path, tmp_path / "scratch") as again:
        assert contents(again) == TREE


def test_what_cannot_be_opened_is_told_with_the_cure(tmp_path):
    (tmp_path / "text").write_text("text")
    with pytest.raises(InvalidInput, match="neither a folder nor") as caught, opened(tmp_path / "text", tmp_path):
        pass
    assert caught.value.hint
    with pytest.raises(MissingArtifact, match="does not exist") as missing, opened(tmp_path / "none", tmp_path):
        pass
    assert missing.value.hint
