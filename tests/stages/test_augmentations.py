"""Test-time augmentation through the stages: another view of the networks that are there."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import COUNTS, SMALL
from tests.fixtures.jobs import Heard, do, enter, hashes, job_in, saved_job, states
from vbs_cli.artifacts import passes
from vbs_cli.artifacts.passes import Pass
from vbs_cli.artifacts.work import parse_work
from vbs_cli.errors import InvalidInput, UnknownName
from vbs_cli.executors import Local
from vbs_cli.networks import training as loop
from vbs_cli.run import layout
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.sweep import sweep
from vbs_cli.views import VIEWS
from vbs_cli.views.augmentations import Augmentations

AUGMENTED = replace(SMALL, methods=("conventional", "vbs", "tta", "vbs-tta"), options={"augmentations": {"count": 3}})


def record_names(job):
    return {name for name in job.run.store.entries if name.startswith("logits/")}


def test_it_is_scored_beside_the_others_and_nothing_is_trained(workplace, vbs, monkeypatch):
    monkeypatch.setattr(loop, "train", None)
    before = record_names(job_in(workplace))
    done = vbs(workplace, "evaluate", "--methods", "conventional,vbs,tta,vbs-tta", "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]
    assert {row["method"] for row in rows} == {"conventional", "vbs", "tta", "vbs-tta"}
    added = record_names(job_in(workplace)) - before
    assert added == {
        f"logits/seed-{seed}/augmentations/{split}.safetensors" for seed in (0, 1) for split in ("val", "test")
    }
    told = json.loads(vbs(workplace, "status", "--json").out)["rows"]
    states = {row["artifact"]: row["state"] for row in told}
    assert {states[name] for name in (*added, layout.METHODS, layout.METRICS)} == {"up to date"}
    # The run's noises have not been read in this way yet.
    assert states["logits/seed-0/augmentations/speckle-0.50.safetensors"] == "missing"


def test_its_numbers_are_the_mean_over_the_changed_inputs(workplace):
    job = job_in(workplace, AUGMENTED)
    table = evaluate(job).set_index(["seed", "method", "metric"])["value"]
    record = job.run.logits(1, view="augmentations")
    assert record.parts.shape == (COUNTS["test"], 4, 3)
    # The first copy is the input itself.
    torch.testing.assert_close(record.parts[:, :, 0], job.run.logits(1).logits)
    probs = record.parts.double().softmax(1).mean(2)
    expected = -probs[torch.arange(len(probs)), record.labels].log().mean().item()
    assert table[1, "tta", "nll"] == pytest.approx(expected, rel=1e-5)
    assert table[1, "vbs-tta", "sigma_bar"] == pytest.approx(record.sigma.mean().item(), rel=1e-5)
    # Whole predictions are its parts, as with ensembles.
    validation = job.run.logits(1, "val", view="augmentations").sigma
    assert job.run.methods[1]["vbs-tta"].beta == pytest.approx(-np.percentile(validation, 75), rel=1e-5)


def test_a_sweep_reads_the_noisy_inputs_in_both_ways(workplace):
    heard = Heard()
    job = job_in(workplace, AUGMENTED, progress=heard)
    table = sweep(job, ["gaussian"])
    assert set(table["method"]) == set(AUGMENTED.methods)
    assert "8 forward passes" in heard.said[1]  # two seeds; val, test and two levels
    assert states(job)[layout.logits(1, "augmentations", "test", "gaussian", 1.0)] == "up to date"
    assert set(zip(job.run.proxy["noise"], job.run.proxy["view"], strict=True)) == {
        ("gaussian", "patches"), ("gaussian", "augmentations"),
    }  # fmt: skip
    assert any("left out incomplete logits of speckle" in said for said in heard.said)


def test_the_disk_that_is_announced_is_what_is_taken(workplace):
    job = job_in(workplace, AUGMENTED)
    evaluate(job)
    every = [Pass(seed, "augmentations", split) for seed in (0, 1) for split in ("val", "test")]
    taken = sum(job.run.store.entries[p.name].size for p in every)
    assert passes.disk_bytes(job, every) < taken < passes.disk_bytes(job, every) + 1000 * len(every)
    assert passes.cost(job, every[0]) == 3 * passes.cost(job, Pass(0, "patches", "val")) == 3 * COUNTS["val"]


def test_its_settings_make_its_passes_stale_and_no_others(workplace):
    evaluate(job_in(workplace, AUGMENTED))
    other = job_in(workplace, replace(AUGMENTED, options={"augmentations": {"count": 3, "strength": 0.5}}))
    found = states(other)
    assert found[layout.logits(0, "augmentations", "test")] == "stale"
    assert found[layout.logits(0, "conventional", "test")] == "up to date"
    assert found[layout.METRICS] == "stale"


def test_its_passes_are_pieces_of_work_of_the_conventional_network(workplace):
    job = job_in(workplace, AUGMENTED)
    do(job, 1, "conventional", "augmentations/test", "augmentations/val:gaussian@0.5")
    assert {name for name in record_names(job_in(workplace)) if "augmentations" in name} == {
        "logits/seed-1/augmentations/test.safetensors",
        "logits/seed-1/augmentations/val-gaussian-0.50.safetensors",
    }
    work = parse_work(job, "0/conventional", ())
    assert work.what[:5] == ("train", "val", "augmentations/val", "test", "augmentations/test")
    assert set(work.what[5:]) == {"gaussian", "speckle", "augmentations/gaussian", "augmentations/speckle"}
    swept = passes.noise_passes(job, ["gaussian"])
    assert set(work.passes(job)) >= {p for p in swept if p.seed == 0}
    for word in ("draws/test", "augmentations/tset", "augmentations/train", "nothing/test"):
        with pytest.raises(UnknownName, match="unknown work"):
            parse_work(job, "0/conventional", (word,))
    # A run that does not compare it has no such passes.
    with pytest.raises(UnknownName, match="unknown work"):
        parse_work(job_in(workplace), "0/conventional", ("augmentations/test",))


def test_side_by_side_gives_the_same_bits(workplace):
    sweep(job_in(workplace, AUGMENTED), ["speckle"])
    alone = hashes(workplace)
    job = saved_job(workplace, AUGMENTED)
    for name in record_names(job):
        if "augmentations" in name:
            job.run.store.remove(name)
    sweep(replace(job, crew=Local(2)), ["speckle"])
    assert hashes(workplace) == alone


def test_a_plain_word_means_the_patches_whatever_other_views_there_are(made, monkeypatch):
    others = dict(VIEWS.items())
    monkeypatch.setattr(VIEWS, "_entries", {"first": Augmentations, **others})
    enter(monkeypatch, VIEWS, "last", Augmentations)
    job = job_in(made)
    assert parse_work(job, "0/conventional", ("test",)).passes(job) == [Pass(0, "patches", "test")]
    assert parse_work(job, "0/dropout", ("test",)).passes(job) == [Pass(0, "draws", "test")]
    assert Pass(0, "patches", "test").word == "test"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 1}, "count of augmentations is 1; a spread needs at least two"),
        ({"strength": 2.0}, "strength of augmentations is 2.0; it must be between 0 and 1"),
        ({"strenght": 0.5}, "unknown option of augmentations 'strenght'; did you mean 'strength'"),
    ],
)
def test_options_that_make_no_sense_are_refused(workplace, no_network, options, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate(job_in(workplace, replace(AUGMENTED, options={"augmentations": options})))


@pytest.mark.parametrize("method", ["tta", "vbs-tta"])
def test_a_file_with_one_pass_cannot_hold_it(made, vbs, method):
    done = vbs(made, "export", "--to", "pt2", "--method", method)
    assert done.code == 2
    assert (
        f"error: {method} cannot be exported: it needs a pass for every changed input, and a file makes one" in done.err
    )


def test_the_terminal_tells_what_its_parts_are(workplace, vbs):
    words = ("--methods", "conventional,tta")
    assert vbs(workplace, "evaluate", *words).code == 0
    done = vbs(workplace, "noise-sweep", "--noise", "speckle", "--levels", "3")
    assert done.code == 0, done.err
    assert re.search(r"speckle +augmentations +\d", done.out)
