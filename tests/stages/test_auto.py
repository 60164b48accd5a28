"""Settings by data: what they are chosen by, what becomes of them, and that no test data are read."""

import json
from dataclasses import replace

import pytest

from tests.conftest import SMALL
from tests.fixtures.jobs import job_in
from vbs_cli import open_run
from vbs_cli.stages import auto
from vbs_cli.stages.evaluate import evaluate


def test_settings_are_chosen_without_a_look_at_the_test_data(workplace, monkeypatch):
    read = []
    real = auto.read_record
    monkeypatch.setattr(auto, "read_record", lambda job, p: read.append(p) or real(job, p))
    job = job_in(workplace)
    before = {name for name in job.run.store.entries if "/val" not in name}
    auto.choose(job, "gaussian")
    assert {p.split for p in read} == {"val"}
    assert {name for name in job.run.store.entries if "/val" not in name} == before


def test_the_noise_is_stated_and_the_others_are_held_out(workplace):
    chosen = auto.choose(job_in(workplace), "speckle")
    assert (chosen.noise, tuple(chosen.levels)) == ("speckle", (0.25, 0.5))
    assert [row["noise"] for row in chosen.held_out] == ["gaussian"]
    assert all(row["low"] <= row["value"] <= row["high"] for row in chosen.held_out)


def test_a_held_out_noise_has_no_say(workplace):
    alone = job_in(workplace, replace(SMALL, noises=("gaussian",)))
    assert auto.choose(alone, "gaussian").tried == auto.choose(job_in(workplace), "gaussian").tried


def test_the_choice_becomes_a_setting_that_evaluate_uses(workplace, vbs):
    done = vbs(workplace, "calibrate", "--auto", "--json")
    assert done.code == 0
    found = json.loads(done.out)
    best = found["tried"][0]
    run = open_run(workplace / "runs" / "radio")
    assert run.settings.kernel == best["kernel"]
    assert run.settings.options["vbs"] == {"alpha": best["alpha"], "beta": best["beta"]}
    assert run.methods[0]["vbs"].alpha == best["alpha"]
    assert [row["noise"] for row in found["held_out"]] == ["speckle"]
    evaluate(job_in(workplace, run.settings))
    assert open_run(run.path).methods[1]["vbs"].alpha == best["alpha"]


def test_a_second_choice_is_the_first(workplace, vbs, request):
    first = json.loads(vbs(workplace, "calibrate", "--auto", "--json").out)
    request.getfixturevalue("no_network")
    second = json.loads(vbs(workplace, "calibrate", "--auto", "--json").out)
    assert second["tried"] == first["tried"]
    assert second["rows"] == first["rows"]


def test_the_command_shows_the_best_few_and_says_what_was_held_out(workplace, vbs):
    done = vbs(workplace, "calibrate", "--auto", "--auto-noise", "speckle")
    assert "under speckle noise at 0.25 and 0.50; held out: gaussian, and the test data" in done.out
    assert "is now a setting of the run" in done.out
    planned = vbs(workplace, "calibrate", "--auto", "--dry-run")
    assert "seed-0/conventional/val-gaussian-0.50.safetensors" in planned.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--auto", "--alpha", "2"], "--auto chooses kernel, alpha and beta"),
        (["--auto", "--kernel", "2"], "--auto chooses kernel, alpha and beta"),
        (["--auto-noise", "speckle"], "--auto-noise is for --auto"),
        (["--auto", "--auto-noise", "affine"], "affine is a noise for images"),
        (["--auto", "--auto-noise", "specle"], "speckle"),
    ],
)
def test_wrong_use_is_told_and_changes_nothing(workplace, vbs, words, message):
    before = (workplace / "runs" / "radio" / "run.toml").read_bytes()
    done = vbs(workplace, "calibrate", *words)
    assert done.code == 2
    assert message in done.err
    assert (workplace / "runs" / "radio" / "run.toml").read_bytes() == before
