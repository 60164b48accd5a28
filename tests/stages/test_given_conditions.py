"""Logits under conditions, from people without a network: what is read, refused, scored and diagnosed."""

import json
import shlex
from dataclasses import asdict

import numpy as np
import pytest

from tests.stages.test_given import MEMBERS, arrays, rows_of
from vbs_cli import Logits, TemperatureScaling, VarianceSmoothing, diagnose, open_run, score
from vbs_cli.data.given import condition_of, parse_conditions
from vbs_cli.errors import InvalidInput
from vbs_cli.run import layout
from vbs_cli.stages.given import read

FILES = ("--val", "val.npz", "--test", "test.npz")
PHONE = ("--condition", "phone=phone.npz")
NOISY = ("--condition", "gaussian@0.5=half.npz", "--condition", "gaussian=full.npz")
CLEAN_LEVELS = {("clean", 0.0)}


def write(folder, kind="patches"):
    """Write val.npz, test.npz, phone.npz with other examples, and half.npz and full.npz with those of the test file."""
    for name, examples, seed, spread in (("val", 120, 1, 0), ("test", 150, 2, 0), ("phone", 90, 3, 4)):
        found = arrays(kind, examples, seed)
        np.savez(folder / f"{name}.npz", **{**found, kind: blurred(found[kind], spread, seed)})
    for name, spread in (("half", 3), ("full", 6)):
        found = arrays(kind, 150, 2)
        np.savez(folder / f"{name}.npz", **{**found, kind: blurred(found[kind], spread, spread)})
    return folder


def blurred(scores, spread, seed):
    """Scores whose patches or members differ more, so that more predictions are wrong."""
    noise = np.random.default_rng(seed + 100).normal(size=scores.shape)
    return (scores + spread * noise).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path)


def record(folder, name, kernel=1):
    found = np.load(folder / f"{name}.npz")
    return Logits.from_patches(found["patches"], labels=found["labels"], kernel=kernel)


def scores_of(table, noise, level, method):
    rows = table[(table["noise"] == noise) & (table["level"] == level) & (table["method"] == method)]
    return rows.set_index("metric")["value"]


def evaluated(vbs, folder, *more):
    return rows_of(vbs(folder, "evaluate", *FILES, *more, "-q", "--json"))


def test_conditions_are_scored_as_the_library_scores_them(folder, vbs):
    table = evaluated(vbs, folder, *PHONE, *NOISY, "--kernel", "2")
    assert set(zip(table["noise"], table["level"], strict=True)) == CLEAN_LEVELS | {
        ("phone", 0.0), ("phone", 1.0), ("gaussian", 0.0), ("gaussian", 0.5), ("gaussian", 1.0),
    }  # fmt: skip
    val = record(folder, "val", 2)
    for name, (noise, level) in {"phone": ("phone", 1), "half": ("gaussian", 0.5), "full": ("gaussian", 1)}.items():
        given = record(folder, name, 2)
        for method, fitted in (("vbs", VarianceSmoothing().fit(val)), ("temperature", TemperatureScaling().fit(val))):
            found = scores_of(table, noise, level, method)
            for metric, value in score(fitted.predict_proba(given), given.labels).items():
                assert found[metric] == pytest.approx(value, abs=1e-6), (name, method, metric)
    shifts = open_run(folder / "runs/arrays").shifts
    assert set(shifts[shifts["over"] == "noise"]["name"]) == {"phone", "gaussian"}


def test_a_further_condition_leaves_the_scores_of_the_others_alone(folder, vbs):
    first = evaluated(vbs, folder, *NOISY)
    second = evaluated(vbs, folder, *NOISY, *PHONE)
    assert set(second["noise"]) - set(first["noise"]) == {"phone"}
    rest = second[second["noise"] != "phone"].reset_index(drop=True)
    assert rest.equals(first)


def test_another_file_under_the_same_name_gives_other_scores_there_alone(folder, vbs):
    first = evaluated(vbs, folder, *NOISY, *PHONE)
    np.savez(folder / "phone.npz", **arrays("patches", 80, 9))
    second = evaluated(vbs, folder, *NOISY, *PHONE)
    changed = first[first["value"].ne(second["value"]) & first["value"].notna()]
    assert set(zip(changed["noise"], changed["level"], strict=True)) == {("phone", 1.0)}


def test_conditions_that_are_not_given_again_leave_the_tables_without_a_word(folder, vbs):
    assert vbs(folder, "evaluate", *FILES, *PHONE, *NOISY, "-q").code == 0
    done = vbs(folder, "evaluate", *FILES, *PHONE)
    assert (done.code, "left out" in done.err, "gaussian" in done.out + done.err) == (0, False, False)
    assert set(open_run(folder / "runs/arrays").metrics["noise"]) == {"clean", "phone"}
    assert vbs(folder, "evaluate", *FILES, "-q").code == 0
    run = open_run(folder / "runs/arrays")
    assert set(run.metrics["noise"]) == {"clean"}
    assert run.shifts.empty
    assert {row["state"] for row in rows_of(vbs(folder, "status", "--json")).to_dict("records")} <= {
        "up to date", "missing",
    }  # fmt: skip


def test_another_window_needs_the_files_of_no_condition(folder, vbs):
    first = evaluated(vbs, folder, *PHONE)
    for file in folder.glob("*.npz"):
        file.rename(file.with_suffix(".gone"))
    second = rows_of(vbs(folder, "evaluate", "--kernel", "3", "-q", "--json"))
    sigma = [scores_of(table, "phone", 1, "vbs")["sigma_bar"] for table in (first, second)]
    assert sigma[1] < 0.8 * sigma[0]


def test_the_run_keeps_the_command_line_with_every_condition(folder, vbs):
    (folder / "phone.npz").rename(folder / "my phone.npz")
    given = ("evaluate", *FILES, "--condition", "phone=my phone.npz", *NOISY)
    assert vbs(folder, *given, "-q").code == 0
    described = json.loads((folder / "runs/arrays" / layout.DATASET).read_text())
    assert shlex.split(described["command"]) == ["vbs", *given]
    assert described["counts"] == {"val": 120, "test": 150, "phone": 90, "gaussian@0.5": 150, "gaussian": 150}


def test_members_under_a_condition_make_ensembles_there(tmp_path, vbs):
    table = evaluated(vbs, write(tmp_path, "members"), *PHONE)
    rows = table[(table["noise"] == "phone") & (table["level"] == 1)]
    assert sorted(rows[rows["method"] == "conventional"]["seed"].unique()) == list(range(MEMBERS))
    smoothed = rows[rows["method"] == "vbs-ensemble"].set_index("metric")["value"]
    given = np.load(tmp_path / "phone.npz")
    phone = Logits.from_members(given["members"], labels=given["labels"])
    fitted = open_run(tmp_path / "runs/arrays").methods[layout.TOGETHER]["vbs-ensemble"]
    expected = score(fitted.predict_proba(phone), phone.labels)
    assert smoothed["nll"] == pytest.approx(expected["nll"], abs=1e-6)
    refused = vbs(tmp_path, "diagnose")
    assert (refused.code, "was made from members" in refused.err, "patches (N, K, T)" in refused.err) == (2, True, True)


def test_the_diagnosis_of_a_run_is_the_library_s_own_and_needs_no_network(folder, vbs, no_network):
    evaluated(vbs, folder, *PHONE, *NOISY)
    before = sorted(folder.rglob("*.safetensors"))
    done = vbs(folder, "diagnose", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert sorted(folder.rglob("*.safetensors")) == before
    clean, val = (record(folder, name) for name in ("test", "val"))
    noisy = {
        "phone": [(1.0, record(folder, "phone"))],
        "gaussian": [(0.5, record(folder, "half")), (1.0, record(folder, "full"))],
    }
    parts = Logits.from_patches(np.load(folder / "val.npz")["patches"], labels=val.labels, keep_parts=True)
    expected = diagnose(clean, noisy, parts)
    assert (found["verdict"], found["advice"]) == (expected.verdict, expected.advice)
    assert found["rows"] == [pytest.approx(asdict(each), nan_ok=True) for each in expected.findings]
    assert "on phone" in found["advice"].lower()
    assert "phone noise" not in found["advice"]


def test_the_diagnosis_takes_the_conditions_that_are_named(folder, vbs):
    evaluated(vbs, folder, *PHONE, *NOISY)
    for words, noises in ((("--noise", "phone"), {"phone"}), (("--noise", "all", "--force"), {"phone", "gaussian"})):
        table = rows_of(vbs(folder, "diagnose", *words, "--json"))
        assert set(table["noise"]) == noises | {"clean", "validation"}
    done = vbs(folder, "diagnose", "--noise", "speckle")
    assert (done.code, "unknown condition 'speckle'" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("diagnose",), "--condition NAME=FILE"),
        (("noise-sweep",), "--condition NAME=FILE"),
        (("evaluate", "--condition", "phone=phone.npz"), "vbs evaluate --val FILE --test FILE --condition NAME=FILE"),
        (("evaluate", "--val", "val.npz", "--condition", "phone=phone.npz"), "--val and --test go together"),
    ],
)
def test_what_is_missing_for_conditions_is_named(folder, vbs, words, message):
    assert vbs(folder, "evaluate", *FILES, "-q").code == 0
    done = vbs(folder, *words)
    assert (done.code, message in done.err) == (2, True), done.err


def test_settings_are_never_chosen_on_a_condition(folder, vbs):
    evaluated(vbs, folder, *PHONE)
    done = vbs(folder, "calibrate", "--auto")
    assert (done.code, "phone is test data" in done.err) == (2, True), done.err
    for family in (("--family", "blur"), ("--suite", "cifar10-c")):
        done = vbs(folder, "noise-sweep", *family)
        assert (done.code, "has no network" in done.err) == (2, True), done.err


def test_plain_logits_are_scored_under_conditions_but_not_diagnosed(tmp_path, vbs):
    table = evaluated(vbs, write(tmp_path, "logits"), *PHONE)
    assert (
        scores_of(table, "phone", 1, "conventional")["accuracy"]
        < scores_of(table, "clean", 0, "conventional")["accuracy"]
    )
    done = vbs(tmp_path, "diagnose")
    assert (done.code, "was made from logits" in done.err, "files of patches" in done.err) == (2, True, True), done.err


@pytest.mark.parametrize(
    ("word", "expected"),
    [("phone", ("phone", 1.0)), ("gaussian@0.5", ("gaussian", 0.5)), ("a.b-c_2@20", ("a.b-c_2", 20))],
)
def test_a_word_is_a_name_and_perhaps_a_level(word, expected):
    assert condition_of(word) == expected
    [(found, path)] = parse_conditions([f"{word}=some=file.npz"]).items()
    assert (found, str(path)) == (word, "some=file.npz")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["phone"], "'phone' is no condition; write NAME=FILE"),
        (["phone="], "write NAME=FILE"),
        (["=phone.npz"], "cannot name a condition"),
        (["my phone=phone.npz"], "names are made of letters"),
        (["../phone=phone.npz"], "names are made of letters"),
        *(
            (([f"{name}=a.npz"]), "choose another name")
            for name in ("clean", "train", "val", "test", "all", "validation")
        ),
        *(
            (([f"phone@{level}=a.npz"]), "finite numbers above zero")
            for level in ("0", "-1", "nan", "inf", "x", "", "1@2")
        ),
        (["phone@0.1234567=a.npz"], "at most six digits"),
        (["phone=a.npz", "phone=b.npz"], "phone is given twice"),
        (["phone=a.npz", "phone@1=b.npz"], "phone@1 is given twice"),
    ],
)
def test_words_that_name_no_condition_are_refused(texts, message):
    with pytest.raises(InvalidInput, match=message):
        parse_conditions(texts)


def test_a_name_may_have_several_levels():
    assert list(parse_conditions(["a@0.2=x.npz", "a@0.4=y.npz", "a=z.npz"])) == ["a@0.2", "a@0.4", "a"]


def test_examples_that_methods_are_fitted_on_are_refused_and_those_that_are_scored_are_not(folder):
    paths = folder / "val.npz", folder / "test.npz"
    assert read(*paths, [f"same={folder / 'test.npz'}"]).described().counts["same"] == 150
    val, phone = (dict(np.load(folder / f"{name}.npz")) for name in ("val", "phone"))
    leaked = {name: np.concatenate([phone[name], val[name][:3]]) for name in phone}
    for dtype in (np.float32, np.float64):
        np.savez(folder / "leaked.npz", patches=leaked["patches"].astype(dtype), labels=leaked["labels"])
        with pytest.raises(InvalidInput, match=r"3 examples are in both .*val\.npz and .*leaked\.npz"):
            read(*paths, [f"phone={folder / 'leaked.npz'}"])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (arrays("patches", 50, 7, classes=5), r"phone\.npz differ: classes 4 and 5; give outputs of the same network"),
        (arrays("logits", 50, 7), r"phone\.npz differ: kind patches and logits"),
        ({"labels": np.zeros(3, int)}, r"phone\.npz holds labels; give labels and one of"),
        (
            {**arrays("patches", 50, 7), "labels": np.zeros(49, int)},
            r"phone\.npz has patches of 50 examples and 49 labels; ",
        ),
    ],
)
def test_files_of_conditions_must_be_of_the_same_network(folder, vbs, other, message):
    np.savez(folder / "phone.npz", **other)
    with pytest.raises(InvalidInput, match=message):
        read(folder / "val.npz", folder / "test.npz", [f"phone={folder / 'phone.npz'}"])
    assert vbs(folder, "evaluate", *FILES, *PHONE).code == 2
    assert not (folder / "runs").exists()


def test_a_file_that_is_not_there_is_wrong_use(folder, vbs):
    done = vbs(folder, "evaluate", *FILES, "--condition", "phone=none.npz")
    assert (done.code, "there is no none.npz" in done.err) == (2, True)
