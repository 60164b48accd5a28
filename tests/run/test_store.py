"""Artifacts are trusted only when everything about them is right."""

import json

import pytest

from vbs_cli import files
from vbs_cli.errors import DamagedArtifact, MissingArtifact
from vbs_cli.run import Recipe, Store
from vbs_cli.run.store import change

RECIPE = Recipe("make", {"width": 4})


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.write("a.bin", b"aaa", RECIPE)
    store.write("b.bin", b"bbb", Recipe("use", {}, ("a.bin",)))
    return store


def test_what_was_written_is_current_also_for_the_next_process(store):
    again = Store(store.folder)
    assert again.state("a.bin", RECIPE).current
    assert again.state("b.bin", Recipe("use", {}, ("a.bin",))).current
    assert again.read("a.bin") == b"aaa"


def test_another_setting_makes_it_stale_and_says_why(store):
    state = store.state("a.bin", Recipe("make", {"width": 8}))
    assert str(state) == "stale: width was 4, now 8"


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ({"vbs": {"alpha": 1.0}}, {"vbs": {"alpha": 2.0}}, "vbs.alpha was 1.0, now 2.0"),
        ({"a": 1}, {"a": 1, "b": 2}, "b was unset, now 2"),
        ({"a": 1, "b": 2}, {"a": 1}, "b was 2, now unset"),
        ({"metrics": ["ece"]}, {"metrics": ["ece", "mce"]}, "mce is new among the metrics"),
        ({"metrics": ["ece", "mce"]}, {"metrics": ["ece"]}, "mce is no longer among the metrics"),
    ],
)
def test_the_reason_is_the_very_setting_that_differs(was, now, why):
    assert change("", was, now) == why


def test_a_changed_input_makes_it_stale(store):
    store.write("a.bin", b"AAA", RECIPE)
    assert str(store.state("b.bin", Recipe("use", {}, ("a.bin",)))) == "stale: a.bin has changed"


def test_an_added_or_removed_input_makes_it_stale(store):
    store.write("c.bin", b"c", RECIPE)
    assert "c.bin is new" in str(store.state("b.bin", Recipe("use", {}, ("a.bin", "c.bin"))))
    assert "no longer part" in str(store.state("b.bin", Recipe("use", {})))


@pytest.mark.parametrize("content", [b"", b"aab", b"aaaa", b"garbage"])
def test_a_damaged_file_is_an_error_with_a_way_out(store, content):
    (store.folder / "a.bin").write_bytes(content)
    fresh = Store(store.folder)
    assert fresh.state("a.bin", RECIPE).kind == "damaged"
    for use in (lambda: fresh.read("a.bin"), lambda: fresh.is_current("a.bin", RECIPE)):
        with pytest.raises(DamagedArtifact, match=r"a\.bin is damaged.*rm "):
            use()


def test_a_file_that_changes_under_a_running_process_is_noticed(store):
    assert store.is_current("a.bin", RECIPE)
    (store.folder / "a.bin").write_bytes(b"bad")
    assert store.state("a.bin", RECIPE).kind == "damaged"


def test_a_deleted_file_is_missing(store):
    (store.folder / "a.bin").unlink()
    assert store.state("a.bin", RECIPE).kind == "missing"
    with pytest.raises(MissingArtifact):
        store.read("a.bin")


@pytest.mark.parametrize("write", range(1, 4))
def test_a_crash_at_any_write_of_a_replacement_leaves_the_old_or_the_new_one(store, monkeypatch, write):
    """Replacing an artifact takes three writes: announcement, new bytes, new entry. Each fails once."""
    calls = 0
    real = files.write_bytes

    def failing(path, data):
        nonlocal calls
        calls += 1
        if calls == write:
            raise OSError(28, "No space left on device")
        real(path, data)

    monkeypatch.setattr(files, "write_bytes", failing)
    with pytest.raises(OSError, match="No space"):
        store.write("a.bin", b"new", Recipe("make", {"width": 8}))
    monkeypatch.undo()
    after = Store(store.folder)
    replaced = write == 3
    assert after.state("a.bin", Recipe("make", {"width": 8})).current == replaced
    assert after.state("a.bin", RECIPE).current != replaced
    assert after.read("a.bin") == (b"new" if replaced else b"aaa")
    after.write("a.bin", b"new", Recipe("make", {"width": 8}))
    assert Store(store.folder).read("a.bin") == b"new"


def test_the_manifest_holds_hash_size_and_origin(store):
    manifest = json.loads((store.folder / "manifest.json").read_text())
    entry = manifest["artifacts"]["b.bin"]
    assert entry["sha256"] == files.sha256_of(b"bbb")
    assert entry["size"] == 3
    assert entry["inputs"] == {"a.bin": files.sha256_of(b"aaa")}


def test_a_new_file_that_the_manifest_does_not_know_is_not_trusted(store):
    (store.folder / "c.bin").write_bytes(b"half or whole, who knows")
    assert Store(store.folder).state("c.bin", RECIPE).kind == "missing"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"artifacts": {"a": 1}}'])
def test_a_damaged_manifest_is_an_error(store, content):
    (store.folder / "manifest.json").write_text(content)
    with pytest.raises(DamagedArtifact, match=r"manifest\.json"):
        Store(store.folder)


def test_a_part_writes_beside_the_others_and_everybody_sees_it(store):
    part = Store(store.folder, part="seed-0")
    part.write("b.bin", b"BBB", Recipe("use", {}, ("a.bin",)))
    part.write("c.bin", b"ccc", RECIPE)
    assert Store(store.folder).read("b.bin") == b"BBB"
    assert Store(store.folder, part="seed-1").read("c.bin") == b"ccc"
    assert json.loads((store.folder / "manifest.json").read_text())["artifacts"].keys() == {"a.bin", "b.bin"}
    assert Store(store.folder).parts() == ["seed-0"]


def test_what_a_part_has_made_is_taken_over_and_its_manifest_goes(store):
    Store(store.folder, part="seed-0").write("b.bin", b"BBB", RECIPE)
    whole = Store(store.folder)
    whole.take_over("seed-0")
    whole.take_over("seed-0")  # a second time is nothing
    assert whole.written == 1
    assert whole.parts() == []
    assert Store(store.folder).read("b.bin") == b"BBB"


def test_a_part_goes_on_with_what_it_had_written(store):
    Store(store.folder, part="seed-0").write("c.bin", b"ccc", RECIPE)
    Store(store.folder, part="seed-0").write("d.bin", b"ddd", RECIPE)
    whole = Store(store.folder)
    whole.take_over("seed-0")
    assert {"c.bin", "d.bin"} <= whole.entries.keys()


def test_the_run_may_be_saved_while_a_part_is_at_work(store):
    part = Store(store.folder, part="seed-0")
    part.write("c.bin", b"first", RECIPE)
    whole = Store(store.folder)
    part.write("c.bin", b"second", RECIPE)
    whole.write("e.bin", b"e", RECIPE)  # with what it knew of the part, which is old by now
    assert Store(store.folder).read("c.bin") == b"second"


@pytest.mark.parametrize("arrived", [True, False])
def test_a_part_that_dies_while_it_replaces_a_file_loses_neither(store, monkeypatch, arrived):
    part = Store(store.folder, part="seed-0")
    real = files.write_bytes

    def dies(path, data):
        if path.name == "b.bin" and not arrived:
            raise KeyboardInterrupt
        real(path, data)
        if path.name == "b.bin":
            raise KeyboardInterrupt

    monkeypatch.setattr(files, "write_bytes", dies)
    with pytest.raises(KeyboardInterrupt):
        part.write("b.bin", b"BBB", RECIPE)
    assert Store(store.folder).read("b.bin") == (b"BBB" if arrived else b"bbb")


def test_cleaned_bytes_are_gone_and_what_was_made_from_them_stands(store):
    use = Recipe("use", {}, ("a.bin",))
    store.clean(["a.bin"])
    assert not (store.folder / "a.bin").exists()
    again = Store(store.folder)
    assert str(again.state("a.bin", RECIPE)) == "cleaned"
    assert not again.is_current("a.bin", RECIPE)
    assert not again.has("a.bin")
    assert again.state("b.bin", use).current
    assert str(again.state("a.bin", Recipe("make", {"width": 8}))) == "stale: width was 4, now 8"
    with pytest.raises(MissingArtifact):
        again.read("a.bin")


def test_what_was_cleaned_can_be_made_again(store):
    store.clean(["a.bin"])
    store.write("a.bin", b"aaa", RECIPE)
    again = Store(store.folder)
    assert again.state("a.bin", RECIPE).current
    assert again.state("b.bin", Recipe("use", {}, ("a.bin",))).current


def test_a_cleaning_that_was_cut_short_gave_back_nothing_and_can_be_repeated(store, monkeypatch):
    """The manifest is written first, so that a file that is still there is one too many, never one too few."""
    monkeypatch.setattr(files.Path, "unlink", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.clean(["a.bin"])
    monkeypatch.undo()
    again = Store(store.folder)
    assert str(again.state("a.bin", RECIPE)) == "cleaned"
    again.clean(["a.bin"])
    assert not (store.folder / "a.bin").exists()
