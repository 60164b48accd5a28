"""Class folders and splits: what is given stays, what is not is drawn, and nothing is on both sides."""

from collections import Counter

import numpy as np
import pytest

from vbs_cli.data import splits
from vbs_cli.errors import VbsError
from vbs_cli.seeding import generator

TEXT = frozenset({".txt"})


def write(folder, counts):
    """Files a.txt ... that differ, in the given folders."""
    for name, count in counts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / name / f"{number:03d}.txt").write_text(f"{name} {number}")


def find(folder, left_out=None, **options):
    return splits.find(
        folder, TEXT, Counter() if left_out is None else left_out, skip_bad=options.get("skip_bad", False)
    )


def drawn(folder, seed=0):
    return splits.drawn(find(folder), generator("split", "folder", seed))


def names(examples):
    return [example.name for example in examples]


GIVEN = {f"{split}/{label}": 2 for split in ("train", "val", "test") for label in ("ant", "bee")}


@pytest.mark.parametrize("spelling", ["val", "valid", "validation", "Val", "VALID"])
def test_given_splits_stay_as_they_are(tmp_path, spelling):
    write(tmp_path, {name.replace("val", spelling): count for name, count in GIVEN.items()})
    tree = find(tmp_path)
    assert tree.classes == ("ant", "bee")
    found = drawn(tmp_path)
    assert names(found["val"]) == [f"{spelling}/{c}/{n}.txt" for c in ("ant", "bee") for n in ("000", "001")]
    assert [example.label for example in found["test"]] == [0, 0, 1, 1]


def test_without_val_a_fifth_of_train_is_drawn_from_every_class(tmp_path):
    write(tmp_path, {"train/ant": 20, "train/bee": 3, "test/ant": 2, "test/bee": 1})
    found = drawn(tmp_path)
    assert Counter(example.label for example in found["val"]) == {0: 4, 1: 1}
    assert Counter(example.label for example in found["train"]) == {0: 16, 1: 2}
    assert names(found["test"]) == ["test/ant/000.txt", "test/ant/001.txt", "test/bee/000.txt"]


def test_without_splits_all_three_are_drawn_from_every_class(tmp_path):
    write(tmp_path, {"ant": 40, "bee": 3})
    found = drawn(tmp_path)
    counts = {split: Counter(example.label for example in some) for split, some in found.items()}
    assert counts == {"train": {0: 28, 1: 1}, "val": {0: 4, 1: 1}, "test": {0: 8, 1: 1}}
    every = [name for some in found.values() for name in names(some)]
    assert len(set(every)) == 43
    assert all(names(some) == sorted(names(some)) for some in found.values())


def test_the_draw_depends_on_the_seed_alone(tmp_path):
    write(tmp_path, {"ant": 40, "bee": 40})
    assert drawn(tmp_path) == drawn(tmp_path)
    assert names(drawn(tmp_path)["val"]) != names(drawn(tmp_path, seed=1)["val"])


@pytest.mark.parametrize(
    ("counts", "needed"), [({"ant": 5, "bee": 2}, 3), ({"train/ant": 5, "train/bee": 1, "test/ant": 1}, 2)]
)
def test_a_class_with_too_few_examples_is_named(tmp_path, counts, needed):
    write(tmp_path, counts)
    with pytest.raises(VbsError, match=f"the class 'bee' has .* examples.*give it {needed} at least"):
        drawn(tmp_path)


def test_single_folders_at_the_top_are_entered(tmp_path):
    write(tmp_path / "archive" / "data", GIVEN)
    (tmp_path / "archive" / "README.md").write_text("")
    (tmp_path / "__MACOSX").mkdir()
    assert names(find(tmp_path).parts["val"])[0] == "val/ant/000.txt"


def test_hidden_files_and_other_suffixes_are_passed_over(tmp_path):
    write(tmp_path, {"ant": 3, "bee": 3, ".git": 2})
    for name in (".hidden.txt", "Thumbs.db", "desktop.ini", "notes.md"):
        (tmp_path / "ant" / name).write_text("x")
    assert len(find(tmp_path).parts["all"]) == 6


def test_files_deep_below_a_class_folder_count(tmp_path):
    write(tmp_path, {"ant/x/y": 2, "ant": 1, "bee": 3})
    assert names(find(tmp_path).parts["all"])[:3] == ["ant/000.txt", "ant/x/y/000.txt", "ant/x/y/001.txt"]


def test_suffixes_in_capitals_count(tmp_path):
    write(tmp_path, {"ant": 3, "bee": 3})
    (tmp_path / "bee" / "B.TXT").write_text("b")
    assert len(find(tmp_path).parts["all"]) == 7


def test_a_class_that_training_lacks_is_named(tmp_path):
    write(tmp_path, {**GIVEN, "test/cat": 1})
    with pytest.raises(VbsError, match="test has the class 'cat', which train has not"):
        find(tmp_path)


def test_one_class_is_not_enough(tmp_path):
    write(tmp_path, {"train/ant": 3, "test/ant": 3})
    with pytest.raises(VbsError, match="1 class folders, two are needed"):
        find(tmp_path)


def test_train_may_be_the_name_of_a_class(tmp_path):
    write(tmp_path, {"car": 3, "plane": 3, "train": 3})
    assert find(tmp_path).classes == ("car", "plane", "train")


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({**GIVEN, "more/ant": 1}, "there is 'more'"),
        ({**GIVEN, "valid/ant": 1}, "val and .*valid are for the same split"),
        ({"train/ant": 1, "val/ant": 1}, "no test folder"),
        ({"val/ant": 1, "test/ant": 1}, "no train folder"),
    ],
)
def test_split_folders_that_leave_doubt_are_refused(tmp_path, counts, message):
    write(tmp_path, counts)
    with pytest.raises(VbsError, match=message):
        find(tmp_path)


def test_files_outside_of_class_folders_are_refused_or_left_out(tmp_path):
    write(tmp_path, GIVEN)
    (tmp_path / "train" / "stray.txt").write_text("x")
    with pytest.raises(VbsError, match=r"1 files lie outside of the class folders, .*stray\.txt first"):
        find(tmp_path)
    left_out: Counter[str] = Counter()
    assert len(find(tmp_path, left_out, skip_bad=True).parts["train"]) == 4
    assert left_out == {"outside of the class folders": 1}


def test_the_same_content_in_two_splits_is_refused_or_left_out_of_the_later(tmp_path):
    write(tmp_path, GIVEN)
    for copy in ("val/bee/000.txt", "test/ant/001.txt"):
        (tmp_path / copy).write_text("train/ant 1")
    pair = r"train/ant/001\.txt and .*val/bee/000\.txt have the same content; there are 2 such pairs"
    with pytest.raises(VbsError, match=pair):
        find(tmp_path)
    left_out: Counter[str] = Counter()
    tree = find(tmp_path, left_out, skip_bad=True)
    assert left_out == {"in another split already": 2}
    assert {part: len(found) for part, found in tree.parts.items()} == {"train": 4, "val": 3, "test": 3}


def test_copies_inside_a_given_split_do_no_harm(tmp_path):
    write(tmp_path, GIVEN)
    (tmp_path / "train" / "ant" / "copy.txt").write_text("train/ant 1")
    assert len(find(tmp_path).parts["train"]) == 5


@pytest.mark.parametrize("above", ["", "train/"])
def test_copies_in_what_splits_are_drawn_from_are_refused_or_left_out(tmp_path, above):
    write(tmp_path, {f"{above}{label}": 4 for label in ("ant", "bee")})
    if above:
        write(tmp_path, {"test/ant": 1})
    (tmp_path / above / "ant" / "copy.txt").write_text(f"{above}ant 1")
    with pytest.raises(VbsError, match="have the same content; there are 1 such pairs"):
        find(tmp_path)
    left_out: Counter[str] = Counter()
    tree = find(tmp_path, left_out, skip_bad=True)
    assert left_out == {"the same as another": 1}
    assert not any("copy" in example.name for found in tree.parts.values() for example in found)


def test_large_files_are_compared_too(tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "WHOLE", 4)
    write(tmp_path, GIVEN)
    (tmp_path / "test" / "ant" / "001.txt").write_text("train/ant 1")
    with pytest.raises(VbsError, match="the same content"):
        find(tmp_path)


def test_names_that_would_break_a_line_are_escaped(tmp_path):
    write(tmp_path, {"ant": 3, "bee": 3})
    (tmp_path / "ant" / "a\nb.txt").write_text("x")
    assert "ant/a\\nb.txt" in names(find(tmp_path).parts["all"])


def test_drawn_positions_are_disjoint_and_complete():
    labels = np.random.default_rng(0).integers(0, 5, 200)
    places = splits.draw({"all": labels}, "abcde", generator("x"))
    assert sorted(place for _, some in places.values() for place in some) == list(range(200))
