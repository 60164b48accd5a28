"""Runs of logits that the user has: what is read, what is refused, and that the run is one like any other."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch

from tests.fixtures.malice import Malice
from vbs_cli import Logits, TemperatureScaling, VarianceSmoothing, open_run, score
from vbs_cli.data.given import read_given
from vbs_cli.errors import InvalidInput, NotFinite, UnknownName, VbsError

CLASSES, PATCHES, MEMBERS = 4, 9, 3


def arrays(kind, examples, seed, classes=CLASSES):
    """Overconfident scores of a classifier that is right more often than not."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    logits = rng.normal(size=(examples, classes))
    logits[np.arange(examples), labels] += 1.5
    logits *= 3
    noise = {"logits": (), "patches": (PATCHES,), "members": (MEMBERS,)}[kind]
    scores = logits.reshape(*logits.shape, *(1 for _ in noise)) + rng.normal(size=(*logits.shape, *noise))
    scores = np.moveaxis(scores, 2, 0) if kind == "members" else scores
    return {kind: scores.astype(np.float32), "labels": labels}


@pytest.fixture
def files(tmp_path):
    """Writes val.npz and test.npz of a kind, some arrays replaced."""

    def write(kind, **replaced):
        for name, examples, seed in (("val", 120, 1), ("test", 150, 2)):
            np.savez(tmp_path / f"{name}.npz", **{**arrays(kind, examples, seed), **replaced.get(name, {})})
        return "evaluate", "--val", "val.npz", "--test", "test.npz", "-q"

    return write


def rows_of(done):
    assert done.code == 0, done.err
    return pd.DataFrame(json.loads(done.out)["rows"])


def test_patches_are_scored_as_the_library_scores_them(tmp_path, vbs, files):
    table = rows_of(vbs(tmp_path, *files("patches"), "--kernel", "2", "--json"))
    val, test = (arrays("patches", n, seed) for n, seed in ((120, 1), (150, 2)))
    records = [Logits.from_patches(a["patches"], labels=a["labels"], kernel=2) for a in (val, test)]
    for name, method in (("vbs", VarianceSmoothing()), ("temperature", TemperatureScaling())):
        expected = score(method.fit(records[0]).predict_proba(records[1]), test["labels"])
        found = table[(table["method"] == name)].set_index("metric")["value"]
        assert {metric: pytest.approx(found[metric], abs=1e-6) for metric in expected} == expected
    assert set(table["method"]) == {"conventional", "temperature", "vbs", "naive"}
    assert set(table["source"]) == {"own patches, val.npz and test.npz"}


def test_plain_logits_have_no_spread_and_their_tables_say_so(tmp_path, vbs, files):
    table = rows_of(vbs(tmp_path, *files("logits"), "--json")).set_index(["method", "metric"])["value"]
    assert set(table.index.get_level_values(0)) == {"conventional", "temperature"}
    assert table["temperature", "ece"] < table["conventional", "ece"]
    for metric in ("sigma_bar", "auroc_sigma", "fpr95_sigma", "patch_accuracy"):
        assert pd.isna(table["conventional", metric])
    refused = vbs(tmp_path, "evaluate", "--run", "arrays", "--methods", "conventional,vbs")
    assert (refused.code, "no spread" in refused.err or "sub-predictions" in refused.err) == (2, True), refused.err


def test_members_are_networks_and_make_ensembles(tmp_path, vbs, files):
    table = rows_of(vbs(tmp_path, *files("members"), "--json"))
    own = table[table["method"] == "conventional"]
    assert sorted(own["seed"].unique()) == list(range(MEMBERS))
    smoothed = table[table["method"] == "vbs-ensemble"].set_index("metric")
    assert (smoothed["seed"] == -1).all()
    val, test = (arrays("members", n, seed) for n, seed in ((120, 1), (150, 2)))
    records = [Logits.from_members(a["members"], labels=a["labels"]) for a in (val, test)]
    expected = score(VarianceSmoothing().fit(records[0]).predict_proba(records[1]), test["labels"])
    run = open_run(tmp_path / "runs/arrays")
    assert run.methods[-1]["vbs-ensemble"].alpha == 1.0
    assert smoothed["value"]["accuracy"] == pytest.approx(expected["accuracy"])
    assert smoothed["value"]["sigma_bar"] == pytest.approx(float(records[1].sigma.mean()), rel=1e-5)


def test_the_run_is_one_like_any_other(tmp_path, vbs, files):
    command = files("patches")
    assert vbs(tmp_path, *command).code == 0
    assert vbs(tmp_path, "plot").code == 0
    assert vbs(tmp_path, "report").code == 0
    page = (tmp_path / "runs/arrays/report.html").read_text()
    assert "vbs evaluate --val val.npz --test test.npz" in page
    assert "own patches, val.npz and test.npz" in page
    status = vbs(tmp_path, "status", "--json")
    assert {row["state"] for row in json.loads(status.out)["rows"]} == {"up to date"}
    again = vbs(tmp_path, *command[:-1])
    assert "all is up to date" in again.err


def test_another_window_needs_no_network(tmp_path, vbs, files):
    first = rows_of(vbs(tmp_path, *files("patches"), "--json"))
    (tmp_path / "val.npz").unlink()
    second = rows_of(vbs(tmp_path, "evaluate", "--kernel", "3", "-q", "--json"))
    sigma = [t[(t["method"] == "vbs") & (t["metric"] == "sigma_bar")]["value"].item() for t in (first, second)]
    assert sigma[1] < sigma[0]


def test_other_files_are_other_results(tmp_path, vbs, files):
    command = files("logits")
    first = rows_of(vbs(tmp_path, *command, "--json"))
    np.savez(tmp_path / "test.npz", **arrays("logits", 150, 7))
    second = rows_of(vbs(tmp_path, *command, "--json"))
    assert first["value"].tolist() != second["value"].tolist()


def test_a_run_of_another_dataset_is_left_alone(workplace, vbs):
    for name, seed in (("val", 1), ("test", 2)):
        np.savez(workplace / f"{name}.npz", **arrays("logits", 50, seed))
    before = (workplace / "runs/radio/run.toml").read_bytes()
    assert vbs(workplace, "evaluate", "--val", "val.npz", "--test", "test.npz", "-q").code == 0
    assert (workplace / "runs/radio/run.toml").read_bytes() == before
    assert (workplace / "runs/arrays/metrics.parquet").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train",), "has no network"),
        (("noise-sweep",), "has no network"),
        (("noise-sweep", "--noise", "gaussian"), "has no network"),
        (("noise-sweep", "--study", "ensemble"), "has no network"),
        (("evaluate", "--methods", "conventional,mc-dropout"), "has no network"),
        (("evaluate", "--val", "val.npz"), "--val and --test go together"),
    ],
)
def test_what_only_a_network_could_do_is_refused(tmp_path, vbs, files, words, message):
    assert vbs(tmp_path, *files("patches")).code == 0
    done = vbs(tmp_path, *words)
    assert done.code == 2
    assert message in done.err


def test_cleaned_logits_must_be_given_again(tmp_path, vbs, files):
    command = files("patches")
    assert vbs(tmp_path, *command).code == 0
    assert vbs(tmp_path, "clean", "--caches").code == 0
    done = vbs(tmp_path, "calibrate", "--alpha", "2")
    assert (done.code, "vbs evaluate --val FILE --test FILE" in done.err) == (2, True)
    assert vbs(tmp_path, *command).code == 0


def test_examples_that_are_fitted_on_and_scored_are_refused(tmp_path, vbs, files):
    val = arrays("logits", 120, 1)
    test = arrays("logits", 150, 2)
    leaked = {name: np.concatenate([test[name][:-2], val[name][:2]]) for name in test}
    done = vbs(tmp_path, *files("logits", test=leaked))
    assert (done.code, "2 examples are in both val.npz and test.npz" in done.err) == (2, True)
    assert not (tmp_path / "runs").exists()


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        (lambda a: {"logits": softmax(a["logits"])}, InvalidInput, "look like probabilities"),
        (lambda a: {"labels": a["labels"][:-1]}, InvalidInput, "120 examples and 119 labels"),
        (lambda a: {"labels": a["labels"] + 1}, InvalidInput, "labels go from 1 to 4"),
        (lambda a: {"labels": a["labels"].astype(float)}, InvalidInput, "whole numbers"),
        (lambda a: {"labels": np.eye(4)[a["labels"]]}, InvalidInput, "whole numbers"),
        (lambda a: {"logits": a["logits"][:, :1]}, InvalidInput, "1 classes"),
        (lambda a: {"logits": a["logits"][:, 0]}, InvalidInput, r"expected numbers \(N, K\)"),
        (lambda a: {"logits": np.where(a["logits"] > 5, np.nan, a["logits"])}, NotFinite, "NaN or infinite logits"),
        (lambda a: {"patches": a["logits"][..., None]}, InvalidInput, "give labels and one of"),
        (lambda a: {"logits": a["logits"][:0], "labels": a["labels"][:0]}, InvalidInput, "no examples"),
    ],
)
def test_files_that_cannot_be_right_are_refused_by_name(tmp_path, changed, kind, message):
    good = arrays("logits", 120, 1)
    path = tmp_path / "val.npz"
    np.savez(path, **{**good, **changed(good)})
    with pytest.raises(kind, match=message) as caught:
        read_given(path)
    assert str(path) in str(caught.value)


def test_a_single_patch_has_no_spread(tmp_path):
    a = arrays("patches", 20, 1)
    np.savez(tmp_path / "val.npz", patches=a["patches"][:, :, :1], labels=a["labels"])
    with pytest.raises(InvalidInput, match="no standard deviation"):
        read_given(tmp_path / "val.npz")


def test_files_that_speak_of_different_things_are_refused(tmp_path, vbs, files):
    for other, message in (
        (arrays("logits", 150, 2, classes=5), "classes 4 and 5"),
        ({"patches": arrays("patches", 150, 2)["patches"]}, "give labels and one of"),
    ):
        done = vbs(tmp_path, *files("logits", test=other))
        assert (done.code, message in done.err) == (2, True), done.err


def test_a_pickle_is_refused_and_not_run(tmp_path):
    np.savez(tmp_path / "val.npz", logits=np.array([Malice(tmp_path / "owned")], dtype=object), labels=np.zeros(1, int))
    with pytest.raises(VbsError, match="cannot be read"):
        read_given(tmp_path / "val.npz")
    (tmp_path / "val.pkl").write_bytes(pickle.dumps(Malice(tmp_path / "owned")))
    with pytest.raises(UnknownName, match=r"unknown kind of file '\.pkl'"):
        read_given(tmp_path / "val.pkl")
    assert not (tmp_path / "owned").exists()


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(VbsError, match=r"there is no .*none\.npz"):
        read_given(tmp_path / "none.npz")
    for name in ("broken.npz", "broken.safetensors", "broken.parquet"):
        (tmp_path / name).write_bytes(b"not at all")
        with pytest.raises(VbsError, match=f"{name} cannot be read"):
            read_given(tmp_path / name)


@pytest.mark.parametrize("kind", ["logits", "patches", "members"])
def test_all_formats_hold_the_same(tmp_path, kind):
    a = arrays(kind, 30, 1)
    np.savez(tmp_path / "a.npz", **a)
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(value) for name, value in a.items()}, tmp_path / "a.safetensors"
    )
    by_example = np.swapaxes(a[kind], 0, 1) if kind == "members" else a[kind]
    table = pd.DataFrame({"labels": a["labels"], kind: [row.tolist() for row in by_example]})
    table.to_parquet(tmp_path / "a.parquet")
    first, *others = (read_given(tmp_path / f"a.{suffix}") for suffix in ("npz", "safetensors", "parquet"))
    for other in others:
        assert other.kind == kind
        torch.testing.assert_close(other.scores.float(), first.scores)
        assert torch.equal(other.labels, first.labels)
