"""The command line: exit codes, one-line errors, stdout and stderr, JSON."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.conftest import ENVIRONMENT, SMALL
from tests.fixtures.command import run_vbs
from tests.fixtures.jobs import enter
from vbs_cli import __version__
from vbs_cli import run as run_package
from vbs_cli.data import DATASETS
from vbs_cli.executors import Local
from vbs_cli.executors.cluster import Cluster
from vbs_cli.metrics import METRICS
from vbs_cli.pairs import known_pairs
from vbs_cli.run import Recipe, Store, locked, open_run
from vbs_cli.stages import train


def one_line(err: str) -> bool:
    return err.startswith("error: ") and err.count("\n") == 1


def test_the_commands_of_a_shell_script_work_as_written(data_only):
    done = run_vbs(data_only, "train", "--dataset", "radio", "--seeds", "3", env=ENVIRONMENT)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 1 + 3 * 2 + 1  # a heading, the networks, where the curves are
    done = run_vbs(data_only, "noise-sweep", "--noise", "speckle")
    assert done.code == 0, done.err
    assert re.search(r"^speckle \d\.\d\d, 3 seeds, simulated \(sines\)$", done.out, re.MULTILINE)
    assert "speckle, mean over 19 levels, 3 seeds, simulated (sines)" in done.out
    assert "mc-dropout" in done.out
    again = run_vbs(data_only, "noise-sweep", "--noise", "speckle")
    assert again.out == done.out
    assert again.err == "runs/radio: all is up to date\n"


def test_run_never_replaces_data_that_it_did_not_simulate_for_this_profile(workplace, vbs):
    done = vbs(workplace, "run")
    assert done.code == 2
    assert "holds other data: simulated (sines)" in done.err
    path = workplace / "data" / "radio" / "dataset.json"
    assert path.is_file()


def test_evaluate_gives_the_rows_of_the_table_as_json(workplace, vbs):
    done = vbs(workplace, "evaluate", "--json", "-q")
    assert done.code == 0
    assert done.err == ""
    result = json.loads(done.out)
    assert (result["schema"], result["command"]) == (1, "evaluate")
    assert set(result["rows"][0]) == {"dataset", "source", "seed", "method", "noise", "level", "metric", "value"}
    assert len(result["rows"]) == 2 * 4 * len(METRICS)
    columns = {"dataset", "source", "noise", "level", "method", "baseline", "metric", "value", "low", "high"}
    assert set(result["intervals"][0]) == columns


def test_evaluate_shows_intervals_differences_and_what_chance_would_score(workplace, vbs):
    done = vbs(workplace, "evaluate", "-q")
    lines = done.out.splitlines()
    assert lines[1].split() == ["method", "accuracy", "nll", "brier", "ece", "by", "chance", "entropy"]
    assert re.fullmatch(r"conventional( +\d\.\d{3} ± \d\.\d{3}){4} +\d\.\d{3} +\d\.\d{3} ± \d\.\d{3} *", lines[2])
    assert lines[6].split() == ["Δ", "vs", "conventional", "nll", "brier", "ece"]
    assert re.match(r"temperature +[+-]\d\.\d{3} \[[+-]\d\.\d{3}, [+-]\d\.\d{3}\]", lines[7])
    assert any(line.startswith("by chance: ") for line in lines)
    assert "| Δ vs conventional | nll | brier | ece |" in vbs(workplace, "evaluate", "-q", "--markdown").out
    other = vbs(workplace, "evaluate", "-q", "--against", "vbs")
    assert "Δ vs vbs" in other.out
    wrong = vbs(workplace, "evaluate", "-q", "--against", "vsb")
    assert (wrong.code, wrong.err) == (2, "error: unknown method 'vsb'; did you mean 'vbs'?\n")


def test_all_methods_are_compared_on_request(workplace, vbs):
    done = vbs(workplace, "evaluate", "--methods", "all", "--json")
    assert done.code == 0, done.err
    assert {row["method"] for row in json.loads(done.out)["rows"]} == set(known_pairs())
    shown = vbs(workplace, "calibrate")
    assert "4 rows of numbers" in shown.out
    assert vbs(workplace, "report").code == 0


def test_options_of_methods_are_given_by_name(workplace, vbs):
    done = vbs(workplace, "calibrate", "--option", "temperature.solver=adam", "--option", "vbs.beta=-0.5", "--json")
    rows = json.loads(done.out)["rows"]
    values = {(row["method"], row["parameter"]): row["value"] for row in rows if row["seed"] == 0}
    assert values["temperature", "solver"] == "adam"
    assert values["vbs", "beta"] == -0.5
    for wrong, said in (
        ("vbs.gamma=1", "unknown option of vbs 'gamma'"),
        ("vbs", "write METHOD.NAME=VALUE"),
        ("vsb.alpha=2", "unknown method 'vsb'; did you mean 'vbs'?"),
        ("dirichlet.odri=2", "unknown option of dirichlet 'odri'; did you mean 'odir'?"),
        ("vbs.spread=logit", "did you mean 'logits'"),
    ):
        refused = vbs(workplace, "calibrate", "--option", wrong)
        assert refused.code == 2
        assert said in refused.err


def test_export_writes_a_file_with_its_card_and_says_when_it_is_there(workplace, vbs):
    told = vbs(workplace, "export", "--to", "pt2", "--dry-run")
    assert re.search(r"export/radio-seed0.pt2 +missing", told.out)
    assert not (workplace / "runs/radio/export").exists()
    done = vbs(workplace, "export", "--to", "pt2")
    assert done.code == 0, done.err
    assert re.search(r"runs/radio/export/radio-seed0.pt2 +made +[\d.]+ kB( +\d\.\de[-+]\d\d){3}", done.out)
    assert "on 10 random and 64 test inputs" in done.out
    assert "card: runs/radio/export/radio-seed0.pt2.md" in done.out
    again = vbs(workplace, "export", "--to", "pt2", "--json")
    assert again.err == "runs/radio: all is up to date\n"
    (row,) = json.loads(again.out)["rows"]
    assert (row["state"], row["format"], row["seed"], row["method"]) == ("up to date", "pt2", 0, "vbs")
    copied = vbs(workplace, "export", "--to", "pt2", "--seed", "1", "--output", "ship/radio.pt2", "-q")
    assert copied.code == 0
    assert sorted(path.name for path in (workplace / "ship").iterdir()) == [
        "radio.pt2", "radio.pt2.json", "radio.pt2.md",
    ]  # fmt: skip
    assert re.search(r"^runs/radio: \d+ up to date$", vbs(workplace, "status").out, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to", "onx"], 2, "unknown format 'onx'; did you mean 'onnx'?"),
        ([], 2, "Missing option '--to'"),
        (["--to", "pt2", "--seed", "7"], 1, "there is no seed 7: runs/radio has seeds 0 to 1; vbs train --seeds 8"),
        (["--to", "pt2", "--method", "mc-dropout"], 2, "mc-dropout cannot be exported: it needs several passes"),
        (["--to", "pt2", "--method", "ensemble"], 2, "ensemble cannot be exported: it needs the networks of all seeds"),
    ],
)
def test_an_export_that_makes_no_sense_is_refused_in_a_line(made, vbs, words, code, said):
    done = vbs(made, "export", *words)
    assert done.code == code
    assert one_line(done.err)
    assert said in done.err


def test_export_without_its_libraries_names_the_extra(workplace, vbs, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    done = vbs(workplace, "export", "--to", "onnx")
    assert done.code == 2
    assert "pip install 'vbs-cli[export]'" in done.err
    assert not (workplace / "runs/radio/export").exists()


def test_export_before_calibration_names_it(workplace, vbs):
    (workplace / "runs/radio/methods.json").unlink()
    done = vbs(workplace, "export", "--to", "pt2")
    assert done.code == 1
    assert done.err == "error: runs/radio/methods.json is missing; vbs calibrate makes it\n"


def test_status_tells_artifact_and_state(workplace, vbs):
    done = vbs(workplace, "status", "--json")
    rows = json.loads(done.out)["rows"]
    assert {row["state"] for row in rows} == {"up to date"}
    (workplace / "runs/radio/methods.json").unlink()
    done = vbs(workplace, "status")
    assert re.search(r"methods.json +missing", done.out)
    assert re.search(r"metrics.parquet +stale", done.out)


def test_dry_run_changes_nothing(workplace, vbs):
    before = {path: path.stat().st_mtime_ns for path in workplace.rglob("*")}
    done = vbs(workplace, "train", "--epochs", "5", "--dry-run")
    assert done.code == 0
    assert "epochs was 2, now 5" in done.out
    assert {path: path.stat().st_mtime_ns for path in workplace.rglob("*")} == before


def test_calibrate_shows_the_fitted_numbers_and_remembers_its_options(workplace, vbs):
    done = vbs(workplace, "calibrate", "--alpha", "2", "--beta", "q75", "--json")
    rows = {(row["seed"], row["method"], row["parameter"]): row["value"] for row in json.loads(done.out)["rows"]}
    assert rows[0, "vbs", "alpha"] == 2.0
    assert rows[0, "vbs", "beta"] < 0
    assert 'beta = "q75"' in (workplace / "runs/radio/run.toml").read_text()


def test_several_runs_are_compared_in_one_file(workplace, vbs):
    shutil.copytree(workplace / "runs" / "radio", workplace / "runs" / "other")
    done = vbs(workplace, "report", "--run", "radio", "--run", "other", "-q")
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["runs/radio/report.html", "runs/other/report.html", "runs/comparison.html"]
    page = (workplace / "runs" / "comparison.html").read_text()
    assert "radio beside other" in page
    assert "No setting does." in page
    told = vbs(workplace, "report", "--run", "radio", "--run", "other", "--dry-run", "--json")
    assert [row["artifact"] for row in json.loads(told.out)["rows"]] == ["report.html", "report.html"]
    wrong = vbs(workplace, "report", "--run", "radio", "--output", "a.html")
    assert (wrong.code, wrong.err.splitlines()[-1][:40]) == (2, "error: --output is for several runs; giv")
    assert vbs(workplace, "report", "--run", "radio", "--run", "other", "--publish", "x").code == 2


def test_plot_tells_what_it_left_out_and_which_command_would_help(workplace, vbs):
    done = vbs(workplace, "plot", "-q")
    assert done.code == 0, done.err
    assert re.search(r"cost +there is no runs/radio/bench.parquet; vbs bench makes it", done.out)
    rows = json.loads(vbs(workplace, "plot", "--json", "-q").out)["rows"]
    assert {row["state"] for row in rows} == {"up to date", "left out"}
    some = vbs(workplace, "plot", "reliability", "--methods", "vbs,temperature", "--format", "pdf", "-q")
    assert "figures/reliability.vbs+temperature.pdf" in some.out.replace("\n", "")
    assert (workplace / "runs/radio/figures/reliability.vbs+temperature.pdf").read_bytes().startswith(b"%PDF")


def test_plot_and_report_say_where_the_files_are(workplace, vbs):
    done = vbs(workplace, "plot", "shift")
    assert "runs/radio/figures/shift.svg" in done.out
    done = vbs(workplace, "report", "--publish", "shown")
    assert done.out.splitlines()[0] == "runs/radio/report.html"
    assert (workplace / "shown" / "shift.png").is_file()
    results = (workplace / "shown" / "results.md").read_text()
    assert "| gaussian 0.50 | vbs | " in results
    assert "over 70 examples and 2 seeds; data: radio, simulated (sines)." in results
    differences = (workplace / "shown" / "differences.md").read_text()
    assert "| gaussian 0.50 | vbs | " in differences
    assert "| gaussian | 0.50 | vbs | " in (workplace / "shown" / "sweep.md").read_text()
    assert "| speckle | draws | " in (workplace / "shown" / "spread.md").read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("train", "--dataset", "radio"), 1, "no radio data in data; vbs download --dataset radio --simulate"),
        (("evaluate",), 1, "no run in runs; vbs run"),
        (("noise-sweep", "--noise", "speckle"), 1, "no run in runs"),
        (("evaluate", "--run", "nothing"), 1, "no run in runs/nothing"),
        (("train", "--dataset", "raido"), 2, "unknown dataset 'raido'; did you mean 'radio'?"),
        (("download", "--dataset", "radioo"), 2, "did you mean 'radio'?"),
        (("train", "--profile", "fast"), 2, "unknown profile 'fast'; known: paper, quick"),
        (("train", "--seeds", "0"), 2, "--seeds"),
        (("train", "--sedes", "3"), 2, "--seeds"),
        (("train", "--lr", "nan"), 2, "lr is nan"),
        (("train", "--batch", "x"), 2, "--batch"),
        (("bench", "--batch", "0"), 2, "--batch"),
        (("trian",), 2, "train"),
        (("train", "--config", "none.toml"), 1, "none.toml"),
        (("train", "--device", "tpu"), 1, "no tpu device"),
    ],
)
def test_bad_use_gets_one_line_with_the_cure(tmp_path, vbs, words, code, message):
    done = vbs(tmp_path, *words)
    assert done.code == code
    assert one_line(done.err), done.err
    assert message in done.err
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("noise-sweep", "--noise", "specle"), 2, "unknown noise 'specle'; did you mean 'speckle'?"),
        (("noise-sweep", "--levels", "1"), 2, "--levels"),
        (("noise-sweep", "--max-level", "-1"), 2, "max_level is -1"),
        (("noise-sweep", "--max-level", "nan"), 2, "max_level is nan"),
        (("noise-sweep", "--study", "ensemble", "--max-level", "0"), 2, "max_level is 0"),
        (("noise-sweep", "--study", "ensemble", "--noise", "gaussian", "--noise", "speckle"), 2, "takes one noise"),
        (("clean",), 2, "nothing to clean is named; vbs clean --caches"),
        (("calibrate", "--beta", "q101"), 2, "unknown beta rule 'q101'"),
        (("calibrate", "--alpha", "0"), 2, "alpha is 0"),
        (("calibrate", "--kernel", "11"), 2, "kernel 11 is longer than the 10 patches"),
        (("calibrate", "--methods", "conventional,vsb"), 2, "unknown method 'vsb'; did you mean 'vbs'?"),
        (("plot", "relaibility"), 2, "did you mean 'reliability'?"),
        (("plot", "--format", "bmp"), 2, "bmp"),
        (("download", "--dataset", "radio", "--simulate"), 2, "holds other data"),
    ],
)
def test_wrong_values_leave_a_finished_run_as_it_was(workplace, vbs, words, code, message):
    before = (workplace / "runs/radio/metrics.parquet").read_bytes()
    toml = (workplace / "runs/radio/run.toml").read_bytes()
    done = vbs(workplace, *words)
    assert done.code == code
    assert one_line(done.err), done.err
    assert message in done.err
    assert (workplace / "runs/radio/metrics.parquet").read_bytes() == before
    assert (workplace / "runs/radio/run.toml").read_bytes() == toml
    assert vbs(workplace, "evaluate").code == 0


def test_a_second_process_on_the_same_run_is_sent_away(workplace, vbs):
    with locked(open_run(workplace / "runs" / "radio")):
        done = vbs(workplace, "evaluate")
    assert done.code == 1
    assert f"in use by process {os.getpid()}" in done.err


def test_a_run_that_cannot_be_written_is_refused_before_training(data_only, vbs):
    (data_only / "runs").write_text("a file where the folder should be")
    done = vbs(data_only, "train", "--dataset", "radio")
    assert done.code == 1
    assert one_line(done.err)
    assert "cannot write" in done.err


def test_a_run_can_be_scored_without_its_data(workplace, vbs):
    (workplace / "data").rename(workplace / "elsewhere")
    assert vbs(workplace, "evaluate").code == 0
    done = vbs(workplace, "train", "--epochs", "3")
    assert done.code == 1
    assert "vbs download" in done.err


def test_another_dataset_does_not_take_over_a_run(workplace, vbs, monkeypatch):
    before = (workplace / "runs/radio/run.toml").read_bytes()
    radio = DATASETS["radio"]
    protocols = {name: replace(settings, dataset="other") for name, settings in radio.protocols.items()}
    enter(monkeypatch, DATASETS, "other", replace(radio, protocols=protocols))
    (workplace / "c.toml").write_text('dataset = "other"')
    for words in (("--dataset", "other"), ("--config", "c.toml")):
        done = vbs(workplace, "train", "--run", "radio", *words)
        assert done.code == 2
        assert "runs/radio is a run of radio" in done.err
        done = vbs(workplace, "train", *words)  # no such data, and not in runs/radio
        assert "no other data in data" in done.err
    assert (workplace / "runs/radio/run.toml").read_bytes() == before


def test_version_and_help(tmp_path, vbs):
    assert vbs(tmp_path, "--version").out == f"vbs {__version__}\n"
    helped = vbs(tmp_path, "noise-sweep", "-h")
    assert helped.code == 0
    assert "vbs noise-sweep --noise speckle" in helped.out


def test_every_command_shows_two_examples(tmp_path, vbs):
    from vbs_cli.cli import app

    for command in app.registered_commands:
        examples = re.findall(rf"^ +vbs {command.name}\b", vbs(tmp_path, command.name, "--help").out, re.M)
        assert len(examples) >= 2, command.name


def test_no_escape_sequences_without_a_terminal(workplace):
    done = run_vbs(workplace, "evaluate", "--force", env={"TERM": "xterm-256color"})
    assert done.code == 0
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_and_the_next_one_goes_on(data_only, made, number, code):
    environment = {**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": "1", "VBS_EPOCHS": "400", "VBS_SEEDS": "1"}
    command = [sys.executable, "-m", "vbs_cli", "train", "--dataset", "radio"]
    child = subprocess.Popen(command, cwd=data_only, env=environment, stderr=subprocess.PIPE, text=True)
    checkpoint = data_only / "runs/radio/seed-0/conventional.unfinished.safetensors"
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert "Traceback" not in err
    if number == signal.SIGINT:
        assert "goes on where it stopped: vbs train --dataset radio" in err
    assert checkpoint.exists()
    assert not list(data_only.rglob("*.vbs-tmp"))


def test_an_unforeseen_error_is_one_line_and_a_traceback_on_request(workplace, vbs, monkeypatch):
    from vbs_cli.stages import evaluate

    def broken(job):
        raise RuntimeError("surprise")

    monkeypatch.setattr(evaluate, "evaluate", broken)
    done = vbs(workplace, "evaluate")
    assert (done.code, one_line(done.err)) == (1, True)
    assert "surprise" in done.err
    assert "Traceback" in vbs(workplace, "evaluate", "--debug").err


def test_a_dry_run_of_everything_makes_no_data(tmp_path, vbs):
    done = vbs(tmp_path, "run", "--dry-run")
    assert done.code == 1
    assert "no radio data" in done.err
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_finished_just_before_is_not_forgotten(workplace, vbs, monkeypatch):
    real = run_package.locked

    @contextmanager
    def after_another(run):
        Store(run.path).write("late.bin", b"from the other process", Recipe("other", {}))
        with real(run) as locked_run:
            yield locked_run

    monkeypatch.setattr(run_package, "locked", after_another)
    assert vbs(workplace, "evaluate", "--force").code == 0
    assert Store(workplace / "runs/radio").read("late.bin") == b"from the other process"


def test_settings_are_assigned_by_name_and_kept(data_only, vbs, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    words = ("train", "--dataset", "radio", "--set", "weight_decay=0.01", "--set", "patience=7")
    assert vbs(data_only, *words).code == 0
    settings = open_run(data_only / "runs/radio").settings
    assert (settings.weight_decay, settings.patience) == (0.01, 7)
    done = vbs(data_only, "train", "--set", "epohcs=3")
    assert done.code == 2
    assert "did you mean 'epochs'" in done.err


def test_training_ends_with_a_table_and_curves(data_only, vbs, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    done = vbs(data_only, "train", "--dataset", "radio")
    assert done.code == 0
    assert "curves: runs/radio/figures/training.png" in done.out.replace("\n", "")
    assert (data_only / "runs/radio/figures/training.svg").is_file()
    assert vbs(data_only, "plot", "training").code == 0
    again = vbs(data_only, "train")
    assert "all is up to date" in again.err
    rows = json.loads(vbs(data_only, "train", "--json").out)["rows"]
    assert {row["state"] for row in rows} == {"done"}
    assert all(row["speed"] > 0 for row in rows)


def test_a_piece_of_work_can_be_done_by_hand(workplace, vbs):
    (workplace / "runs/radio/seed-1/dropout.safetensors").unlink()
    done = vbs(workplace, "work", "1/dropout", "train", "val")
    assert done.code == 0
    assert "seed-1/dropout.safetensors" in done.out
    states = {row["artifact"]: row["state"] for row in json.loads(vbs(workplace, "status", "--json").out)["rows"]}
    assert states["seed-1/dropout.safetensors"] == "up to date"
    assert states["logits/seed-1/dropout/val.safetensors"] == "up to date"
    assert vbs(workplace, "work", "9/dropout").code == 2


def test_a_crew_is_as_large_as_the_machine_unless_told(workplace, vbs, monkeypatch):
    crews = []
    monkeypatch.setattr(train, "train", lambda job: crews.append(job.crew) or {})
    monkeypatch.setattr("vbs_cli.executors.cores", lambda: 6)
    monkeypatch.delenv("VBS_JOBS")
    for words in ((), ("--jobs", "1"), ("--set", "threads=2"), ("--jobs", "4"), ("--cluster", "tcp://nowhere:1")):
        assert vbs(workplace, "train", *words).code == 0
    assert crews == [Local(6), None, Local(3), Local(4), Cluster("tcp://nowhere:1")]
    assert vbs(workplace, "train", "--jobs", "0").code == 2


def test_a_sweep_has_twenty_levels_unless_told_and_leaves_the_run_s_own_setting(workplace, vbs, monkeypatch):
    def planned(*words):
        rows = json.loads(vbs(workplace, "noise-sweep", "--noise", "speckle", "--dry-run", "--json", *words).out)[
            "rows"
        ]
        return sorted({row["artifact"].rsplit("-", 1)[1].removesuffix(".safetensors") for row in rows})

    assert len(planned()) == 19  # level zero is the clean data
    assert planned("--levels", "3", "--max-level", "0.6") == ["0.30", "0.60"]
    assert planned("--set", "levels=2") == ["1.00"]
    monkeypatch.setenv("VBS_LEVELS", "5")
    assert planned() == ["0.25", "0.50", "0.75", "1.00"]
    monkeypatch.delenv("VBS_LEVELS")
    assert vbs(workplace, "noise-sweep", "--noise", "speckle", "--levels", "2").code == 0
    assert open_run(workplace / "runs/radio").settings == SMALL


def test_a_sweep_tells_what_the_spread_knows_about_errors(workplace, vbs):
    done = vbs(workplace, "noise-sweep", "--levels", "3", "--json")
    told = json.loads(done.out)["proxies"]
    assert {(row["noise"], row["view"]) for row in told} >= {("gaussian", "patches"), ("speckle", "draws")}
    shown = vbs(workplace, "noise-sweep", "--levels", "3").out
    assert "does the spread tell when predictions are wrong?" in shown
    assert re.search(r"gaussian +patches +\d", shown)
    assert re.search(r"speckle +draws +\d", shown)


def test_caches_are_given_back_and_the_run_stays_up_to_date(workplace, vbs, no_network):
    there = sum(path.stat().st_size for path in (workplace / "runs/radio/logits").rglob("*.safetensors"))
    told = vbs(workplace, "clean", "--caches", "--dry-run", "--json")
    assert sum(row["bytes"] for row in json.loads(told.out)["rows"]) == there
    assert {row["state"] for row in json.loads(told.out)["rows"]} == {"there"}
    done = vbs(workplace, "clean", "--caches")
    assert re.search(r"runs/radio: .* in 24 files given back", done.out)
    again = vbs(workplace, "evaluate")
    assert again.code == 0
    assert again.err == "runs/radio: all is up to date\n"
    assert "24 cleaned" in vbs(workplace, "status").out
