"""Manifest entries of earlier versions, which had one word for the network and for the view of its weights."""

import json

import pytest

from vbs_cli.run import Store
from vbs_cli.run.legacy import upgraded

OF_A_PASS = {"data": "eb72", "seed": 0, "split": "test", "noise": "gaussian", "level": 0.25}


def entry(stage, inputs=(), **settings):
    """As the earlier version wrote it."""
    known = {"sha256": "98d1", "size": 3, "cleaned": False, "inputs": dict.fromkeys(inputs, "ab")}
    return {**known, "stage": stage, "settings": settings}


@pytest.mark.parametrize(("role", "own"), [("conventional", {}), ("dropout", {"dropout": 0.5})])
def test_weights_are_those_of_the_network_of_the_same_name(role, own):
    settings = {"data": "eb72", "seed": 1, "model": "conv1d-radio", "width": 32, **own}
    found = upgraded(entry("train", **settings, role=role))
    assert found["settings"] == {**settings, "network": role}
    assert found["revisions"] == {"training": 1, f"network {role}": 1, "model conv1d-radio": 1}
    assert found["sha256"] == "98d1"


@pytest.mark.parametrize(
    ("role", "view", "own"), [("conventional", "patches", {"kernel": 10}), ("dropout", "draws", {"draws": 10})]
)
def test_logits_are_those_of_the_view_that_the_role_stood_for(role, view, own):
    weights = f"seed-0/{role}.safetensors"
    found = upgraded(entry("forward", [weights], **OF_A_PASS, role=role, **own))
    assert found["settings"] == {**OF_A_PASS, "network": role, "view": view, **own}
    assert found["revisions"] == {"forward pass": 1, f"view {view}": 1, "noise gaussian": 1}
    assert found["inputs"] == {weights: "ab"}
    clean = upgraded(entry("forward", **{**OF_A_PASS, "noise": "clean", "level": 0.0}, role=role, **own))
    assert clean["revisions"] == {"forward pass": 1, f"view {view}": 1}


def test_further_spreads_are_extras_of_a_record():
    found = upgraded(entry("forward", **OF_A_PASS, role="conventional", kernel=3, spreads=["relu", "softmax"]))
    assert found["settings"]["extras"] == ["sigma_relu", "sigma_softmax"]
    assert "spreads" not in found["settings"]


def test_weights_that_were_trained_elsewhere_have_no_code_of_ours():
    found = upgraded(entry("train", seed=0, role="conventional", model="torchvision:resnet18", weights="12ab"))
    assert found["settings"] == {
        "seed": 0, "network": "conventional", "model": "torchvision:resnet18", "weights": "12ab",
    }  # fmt: skip
    assert found["revisions"] == {}


def test_nobody_knows_which_code_made_other_artifacts():
    earlier = entry("evaluate", ["methods.json"], dataset="radio", metrics=["ece"])
    assert upgraded(earlier) == earlier


def test_entries_of_today_stay_as_they_are():
    today = {**entry("train", seed=0, network="conventional"), "revisions": {"training": 2}}
    assert upgraded(today) == today


def test_a_store_reads_earlier_manifests_and_writes_its_own(tmp_path):
    entries = {"seed-0/dropout.safetensors": entry("train", seed=0, role="dropout", model="nin")}
    tables = {"metrics.parquet": entry("evaluate", metrics=["ece"])}
    written = {"format": 1, "artifacts": entries | tables, "replacing": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(written))
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0/dropout.safetensors").write_bytes(b"abc")
    store = Store(tmp_path)
    assert store.entries["seed-0/dropout.safetensors"].settings["network"] == "dropout"
    assert store.entries["metrics.parquet"].revisions is None
    store.remove("metrics.parquet")
    [kept] = json.loads((tmp_path / "manifest.json").read_text())["artifacts"].values()
    assert kept["settings"] == {"seed": 0, "model": "nin", "network": "dropout"}
    assert kept["revisions"] == {"training": 1, "network dropout": 1, "model nin": 1}
