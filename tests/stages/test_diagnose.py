"""Whether variance-based smoothing fits a run: what is passed over, what is shown, and real captures."""

import json
from dataclasses import replace

import pytest

from tests.conftest import SMALL
from tests.fixtures.jobs import hashes, job_in
from vbs_cli import VarianceSmoothing, diagnose, open_run
from vbs_cli.artifacts.passes import known_passes, read_record, specs_for
from vbs_cli.artifacts.plan import planned
from vbs_cli.artifacts.work import Work, parse_work
from vbs_cli.errors import InvalidInput
from vbs_cli.run import layout
from vbs_cli.stages import diagnose as stage
from vbs_cli.stages.sweep import sweep

WORDS = {"fits", "fits-with-settings", "does-not-fit"}


def diagnosis(job, *noises):
    """As text, in which what is undefined equals itself."""
    return repr(stage.diagnose(stage.with_method(job), noises))


def made_names(job, before):
    return sorted(set(job.run.store.entries) - before)


def test_a_swept_run_needs_only_noised_validation_data_and_keeps_its_tables(workplace):
    job = stage.with_method(job_in(workplace))
    before, tables = set(job.run.store.entries), hashes(workplace)
    stage.diagnose(job, ["gaussian", "speckle"])
    added = made_names(job, before)
    assert added == [
        f"logits/seed-{seed}/conventional/val-gaussian-{level}.safetensors"
        for seed in (0, 1)
        for level in ("0.25", "0.50")
    ]
    assert {name: value for name, value in hashes(workplace).items() if name not in added} == tables


def test_a_second_diagnosis_runs_no_network_and_says_the_same(workplace, request):
    first = diagnosis(job_in(workplace), "gaussian")
    request.getfixturevalue("no_network")
    assert diagnosis(job_in(workplace), "gaussian") == first


def test_a_noise_that_was_not_swept_is_passed_at_a_few_levels_by_conventional_networks_alone(workplace):
    job = stage.with_method(job_in(workplace))
    before = set(job.run.store.entries)
    stage.diagnose(job, ["salt-and-pepper"])
    added = made_names(job, before)
    assert all("/conventional/" in name for name in added)
    assert [name for name in added if "seed-0" in name and "/val-" not in name] == [
        f"logits/seed-0/conventional/salt-and-pepper-{level}.safetensors" for level in ("0.25", "0.50", "0.75", "1.00")
    ]


def test_a_long_sweep_is_read_at_a_few_levels_the_strongest_among_them(workplace):
    sweep(job_in(workplace), ["gaussian"], [i / 10 for i in range(11)])
    found = stage.noise_passes(stage.with_method(job_in(workplace)), "gaussian")
    levels = [p.level for p in found if p.seed == 0]
    assert len(levels) == stage.FEW - 1
    assert levels[-1] == 1.0


def test_the_library_says_the_same_of_one_seed_s_records(workplace):
    settings = replace(SMALL, seeds=1)
    found = diagnosis(job_in(workplace, settings), "gaussian")
    run = open_run(workplace / "runs" / "radio")
    noisy = {"gaussian": [(level, run.logits(0, noise="gaussian", level=level)) for level in (0.5, 1.0)]}
    noisy_val = [run.logits(0, "val", noise="gaussian", level=level) for level in (0.25, 0.5)]
    method = VarianceSmoothing(**settings.options["vbs"])
    alone = diagnose(run.logits(0), noisy, run.logits(0, "val"), method=method, noisy_val=noisy_val)
    assert repr(alone) == found


def test_cleaned_caches_are_made_again_to_be_read(workplace, vbs):
    first = diagnosis(job_in(workplace), "gaussian")
    assert vbs(workplace, "clean", "--caches").code == 0
    assert diagnosis(job_in(workplace), "gaussian") == first


def test_a_run_without_the_method_is_diagnosed_all_the_same(workplace):
    job = job_in(workplace, replace(SMALL, methods=("conventional",)))
    assert stage.diagnose(stage.with_method(job), ["gaussian"]).verdict in WORDS


def test_a_run_of_dropout_networks_alone_cannot_be_diagnosed(workplace):
    job = job_in(workplace, replace(SMALL, methods=("mc-dropout",)))
    with pytest.raises(InvalidInput, match="no conventional networks"):
        stage.with_method(job)


def test_noised_validation_data_are_a_piece_of_work_and_no_sweep(workplace):
    job = job_in(workplace)
    passes = stage.validation_passes(job, "gaussian", [0.5])
    assert [p.word for p in passes] == ["val:gaussian@0.5"] * 2
    assert specs_for(job, passes[:1]) == ("val:gaussian@0.5",)
    assert parse_work(job, "0/conventional", ["val:gaussian@0.5"]).passes(job) == passes[:1]
    [record] = Work(0, "conventional", ("val:gaussian@0.5",)).artifacts(planned(job, listed=passes))
    assert record.name == passes[0].name
    diagnosis(job, "gaussian")
    assert all(p.split == "test" for p, _ in known_passes(job))
    assert read_record(job_in(workplace), passes[0]).parts is not None


def test_the_command_gives_rows_a_verdict_and_advice_as_json(workplace, vbs):
    done = vbs(workplace, "diagnose", "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert (found["schema"], found["command"]) == (1, "diagnose")
    assert found["verdict"] in WORDS
    assert found["advice"]
    assert {row["noise"] for row in found["rows"]} == {"clean", "gaussian", "speckle", "validation"}
    assert {row["speaks"] for row in found["rows"]} <= {"for", "against", "neutral"}
    assert set(found["rows"][0]) == {"question", "noise", "value", "low", "high", "speaks", "reference"}


def test_the_command_shows_what_speaks_for_and_against_and_ends_with_the_verdict(workplace, vbs):
    done = vbs(workplace, "diagnose", "--noise", "gaussian")
    assert "rank correlation of sigma_bar with the error rate" in done.out
    assert done.out.splitlines()[-1].split(":")[0] in WORDS
    assert "speckle" not in done.out
    planned = vbs(workplace, "diagnose", "--noise", "salt-and-pepper", "--dry-run")
    assert "val-salt-and-pepper-0.25.safetensors" in planned.out
    assert layout.logits(0, "conventional", "test", "salt-and-pepper", 1.0) in planned.out


@pytest.mark.outside_data("radio-captures")
def test_real_captures_whose_patches_grow_alike_under_noise_do_not_fit(tmp_path, vbs, monkeypatch, outside_data):
    monkeypatch.setenv("VBS_METHODS", "conventional,temperature,vbs")
    assert vbs(tmp_path, "download", "--dataset", "radio", "--from", str(outside_data)).code == 0
    small = ["--dataset", "radio", "--seeds", "1", "--width", "24", "--epochs", "4"]
    trained = json.loads(vbs(tmp_path, "train", *small, "--json").out)["rows"]
    assert trained[0]["val_accuracy"] > 0.9
    found = json.loads(vbs(tmp_path, "diagnose", "--json").out)
    assert found["verdict"] == "does-not-fit"
    told = {(row["question"], row["noise"]): row for row in found["rows"]}
    assert told["sigma_ratio", "gaussian"]["high"] < 1
    assert told["error_gain", "gaussian"]["low"] > 0.3
