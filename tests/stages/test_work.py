"""Networks at work: one after another and side by side; and what becomes of the others when one fails."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import ENVIRONMENT, SMALL
from tests.fixtures.command import run_vbs
from tests.fixtures.jobs import Heard, all_numbers, enter, hashes, job_in, saved_job, states, wait_for
from vbs_cli.artifacts import training, work
from vbs_cli.artifacts.plan import planned, with_plan
from vbs_cli.artifacts.work import Work
from vbs_cli.errors import InvalidInput, UnknownName, VbsError
from vbs_cli.executors import Local
from vbs_cli.networks import NETWORKS, Network
from vbs_cli.networks import training as loop
from vbs_cli.run import formats, layout, locked, part_of
from vbs_cli.run.formats import checkpoint_from
from vbs_cli.stages.run import run_all
from vbs_cli.stages.sweep import sweep
from vbs_cli.stages.train import train
from vbs_cli.views import VIEWS
from vbs_cli.views.patches import Patches


def test_side_by_side_gives_the_same_bits_as_one_after_another(made, data_only):
    done = run_vbs(data_only, "train", "--dataset", "radio", "--seeds", "1", "--jobs", "2", env=ENVIRONMENT)
    assert done.code == 0, done.err
    assert "seed 0 dropout: done in" in done.err
    assert hashes(data_only) == {name: sha256 for name, sha256 in hashes(made).items() if name.startswith("seed-0")}
    assert not list((data_only / "runs/radio/.parts").glob("*.json"))


def test_a_whole_run_side_by_side_gives_the_same_bits_too(made, data_only):
    run_all(saved_job(data_only, crew=Local(2)))
    assert hashes(data_only) == hashes(made)


def test_the_order_of_the_networks_does_not_matter(made, data_only):
    job = with_plan(job_in(data_only))
    pieces = [Work(seed, network, ("train", "val")) for seed in (1, 0) for network in ("dropout", "conventional")]
    assert work.run_all_work(job, pieces) == {}
    training.tidy(job)
    assert hashes(data_only).items() <= hashes(made).items()


def test_what_does_not_show_up_here_is_an_error(data_only, monkeypatch):
    """As when a worker has a folder of the same name that is not shared."""
    monkeypatch.setattr(work, "VISIBLE_WITHIN", 0.1)
    job = with_plan(job_in(data_only))
    assert "share that folder" in work.missing_after_wait(job, Work(0, "dropout", ("train",)))


def test_an_interrupted_crew_leaves_its_checkpoints_to_the_next(data_only, made):
    environment = {**os.environ, **ENVIRONMENT, "VBS_EPOCHS": "3000", "VBS_JOBS": "2", "VBS_DEVICE": "cpu"}
    command = [sys.executable, "-m", "vbs_cli", "train", "--dataset", "radio"]
    process = subprocess.Popen(command, cwd=data_only, env=environment, stderr=subprocess.PIPE, text=True)
    folder = data_only / "runs" / "radio"
    wait_for(lambda: len(list(folder.glob("seed-*/*.unfinished.safetensors"))) >= 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on where it stopped" in err
    assert not list(folder.rglob("*.vbs-tmp"))
    found = states(job_in(data_only, replace(SMALL, epochs=3000)))
    assert found[layout.weights(0, "dropout")] == "missing"
    job = job_in(data_only, replace(SMALL, epochs=3000))
    with locked(job.run) as run:
        assert run.store.parts() == []  # taken over
        unfinished = [name for name in run.store.entries if "unfinished" in name]
        assert len(unfinished) >= 2
        for name in unfinished:
            assert checkpoint_from(run.store.read(name)).epoch >= 1


def test_a_part_that_somebody_works_on_is_left_to_them(data_only):
    job = saved_job(data_only)
    with part_of(job.run, "seed-0-dropout") as part:
        part.store.write("seed-0/dropout.safetensors", b"half", training.recipe(job, 0, "dropout"))
        with locked(job.run) as run:
            assert run.store.parts() == ["seed-0-dropout"]
            assert run.store.read("seed-0/dropout.safetensors") == b"half"
        with pytest.raises(VbsError, match="in use by process"), part_of(job.run, "seed-0-dropout", wait=0):
            pass
    with locked(job.run) as run:
        assert run.store.parts() == []
        assert run.store.read("seed-0/dropout.safetensors") == b"half"


def poisoned(monkeypatch, fault):
    """Let the training of seed 0's MC-dropout network fail."""
    real = loop.train

    def failing(*arguments, seed, name, **named):
        if (seed, name) == (0, "dropout"):
            raise fault
        return real(*arguments, seed=seed, name=name, **named)

    monkeypatch.setattr(loop, "train", failing)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"), "out of memory; a smaller --batch"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out of memory; a smaller --batch"),
        (ZeroDivisionError("by nothing"), "ZeroDivisionError: by nothing; this is a fault of vbs; --debug shows where"),
        (OSError(5, "Input/output error"), "Input/output error"),
    ],
)
def test_whatever_happens_to_one_network_the_others_are_trained(data_only, monkeypatch, vbs, fault, reason):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    poisoned(monkeypatch, fault)
    done = vbs(data_only, "train", "--dataset", "radio")
    assert done.code == 1
    assert "seed 0 dropout failed" in done.err
    assert done.err.splitlines()[-1].startswith("error: 1 network failed, the others are done: seed 0 dropout:")
    assert reason in " ".join(done.err.split())
    assert done.out.count("done") == 3
    assert "failed:" in done.out
    shown = json.loads(vbs(data_only, "train", "--json").out)["rows"]
    assert [row["state"].split(":")[0] for row in shown] == ["done", "done", "done", "failed"]
    assert states(job_in(data_only))[layout.weights(0, "dropout")] == "missing"


def test_debug_shows_where_a_network_failed(data_only, monkeypatch, vbs):
    poisoned(monkeypatch, ZeroDivisionError("by nothing"))
    done = vbs(data_only, "train", "--dataset", "radio", "--epochs", "1", "--width", "4", "--seeds", "1", "--debug")
    assert "ZeroDivisionError: by nothing" in done.err
    assert "Traceback" in done.err


def test_nonsense_stops_everything(data_only, monkeypatch):
    poisoned(monkeypatch, InvalidInput("makes no sense"))
    with pytest.raises(InvalidInput):
        train(job_in(data_only))


def test_a_damaged_checkpoint_fails_its_network_alone_side_by_side(data_only):
    job = saved_job(data_only, replace(SMALL, seeds=1), crew=Local(2))
    job.run.store.write(layout.checkpoint(0, "dropout"), b"whole", training.recipe(job, 0, "dropout"))
    (job.run.path / layout.checkpoint(0, "dropout")).write_bytes(b"wrong")
    failures = train(job)
    assert [piece.title for piece in failures] == ["seed 0 dropout"]
    assert "damaged" in str(next(iter(failures.values())))
    assert states(job)[layout.weights(0, "conventional")] == "up to date"


def test_early_stopping_and_the_best_weights(data_only):
    job = job_in(data_only, replace(SMALL, epochs=60, lr=0.05, patience=3, seeds=1, methods=("conventional",)))
    assert train(job) == {}
    table = job.run.table(layout.training(0, "conventional"))
    best = int(table["val_loss"].idxmin())
    assert len(table) < 60
    assert len(table) - 1 - best == 3
    weights = {name: job.run.store.read(name) for name in (layout.weights(0, "conventional"),)}
    assert job.run.store.read(layout.best_weights(0, "conventional")) not in weights.values()
    # the best epoch is what a training of so many epochs ends with
    shorter = job_in(data_only, replace(job.run.settings, epochs=best + 1, patience=0))
    kept = job.run.store.read(layout.best_weights(0, "conventional"))
    assert train(shorter) == {}
    assert shorter.run.store.read(layout.weights(0, "conventional")) == kept


def test_choosing_the_best_weights_needs_no_training(workplace, monkeypatch):
    monkeypatch.setattr(loop, "train", None)
    job = job_in(workplace, replace(SMALL, select="best"))
    assert train(job) == {}
    found = states(job)
    assert found[layout.weights(0, "dropout")] == "up to date"
    assert found[layout.logits(0, "dropout", "val")] == "stale"
    sweep(job, ["gaussian"])
    entry = job.run.store.entries[layout.logits(0, "dropout", "val")]
    assert list(entry.inputs) == [layout.best_weights(0, "dropout")]


def test_a_network_works_on_the_threads_of_the_settings(data_only, monkeypatch):
    seen = set()
    real = loop.train

    def watched(*arguments, **named):
        seen.add(torch.get_num_threads())
        return real(*arguments, **named)

    monkeypatch.setattr(loop, "train", watched)
    train(job_in(data_only, replace(SMALL, threads=2, epochs=1)))
    assert seen == {2}
    assert torch.get_num_threads() == 1


def test_a_forced_training_begins_anew_and_gives_the_same(workplace):
    job = job_in(workplace, force=True)
    name = layout.weights(1, "conventional")
    before = job.run.store.read(name)
    job.run.store.write(layout.checkpoint(1, "conventional"), b"never read", training.recipe(job, 1, "conventional"))
    assert train(job) == {}
    assert job.run.store.read(name) == before
    assert layout.checkpoint(1, "conventional") not in job.run.store.entries


def test_curves_for_tensorboard_hold_every_epoch_once(data_only, monkeypatch):
    job = job_in(data_only, replace(SMALL, seeds=1, epochs=3, methods=("conventional",)), tensorboard=True)
    real = loop.validate
    calls = iter(range(10))

    def interrupted(*arguments, **named):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(loop, "validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(job)
    assert train(job_in(data_only, job.run.settings, tensorboard=True)) == {}
    board = job.run.path / layout.board(0, "conventional")
    table = job_in(data_only).run.table(layout.training(0, "conventional"))
    assert shown_on(board) == list(zip(table["epoch"], table["val_loss"], strict=True))


def shown_on(board):
    events = EventAccumulator(str(board))
    events.Reload()
    return [(event.step, pytest.approx(event.value)) for event in events.Scalars("val_loss")]


def test_networks_that_were_trained_before_come_to_the_board_too(workplace):
    job = job_in(workplace, tensorboard=True)
    assert train(job) == {}
    table = job.run.table(layout.training(1, "dropout"))
    assert shown_on(job.run.path / layout.board(1, "dropout")) == list(
        zip(table["epoch"], table["val_loss"], strict=True)
    )


@dataclass(frozen=True)
class Averaged(Network):
    """Keeps a running mean of its weights."""

    artifacts: ClassVar = ("average",)
    momentum: float = 0.5

    def after_epoch(self, model, memory, *, epoch):
        now = {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}
        return {name: value.lerp(memory[name], self.momentum) if memory else value for name, value in now.items()}

    def finish(self, model, memory, data, *, seed, device):
        return {"average": dict(memory)}


@dataclass(frozen=True)
class AveragedPatches(Patches):
    network: ClassVar = "averaged"
    names: ClassVar = {}
    folder: ClassVar = ""


OWN = replace(SMALL, seeds=1, epochs=3, methods=("conventional", "conventional@averaged-patches"))


@pytest.fixture
def own_network(monkeypatch):
    enter(monkeypatch, NETWORKS, "averaged", Averaged)
    enter(monkeypatch, VIEWS, "averaged-patches", AveragedPatches)


def test_further_artifacts_of_a_network_are_trained_and_missed_like_its_weights(data_only, own_network, monkeypatch):
    job = job_in(data_only, OWN)
    assert train(job) == {}
    further = layout.further(0, "averaged", "average")
    assert further == "seed-0/averaged.average.safetensors"
    assert states(job)[further] == "up to date"
    average, weights = (formats.tensors_from(job.run.store.read(n)) for n in (further, layout.weights(0, "averaged")))
    assert average.keys() < weights.keys()
    assert not torch.equal(average["0.weight"], weights["0.weight"])
    before = job.run.store.sha256(further)
    (job.run.path / further).unlink()
    heard = Heard()
    again = job_in(data_only, OWN, progress=heard)
    assert train(again) == {}
    assert heard.said == ["train: 1 of 2 networks are there already"]
    assert again.run.store.sha256(further) == before
    other = job_in(data_only, replace(OWN, options={"averaged": {"momentum": 0.9}}))
    assert str(other.run.store.state(further, training.recipe(other, 0, "averaged"))) == (
        "stale: momentum was 0.5, now 0.9"
    )


def test_what_a_network_remembers_outlasts_an_interruption(data_only, own_network, monkeypatch):
    job = job_in(data_only, replace(OWN, methods=("conventional@averaged-patches",)))
    further, real, calls = layout.further(0, "averaged", "average"), loop.validate, iter((0, 0, 1))

    def interrupted(*arguments, **named):
        if next(calls):
            raise KeyboardInterrupt
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(job)
    heard = Heard()
    stopped = job_in(data_only, job.run.settings, progress=heard)
    assert train(stopped) == {}
    assert heard.said == ["train: seed 0 averaged goes on after epoch 2"]
    average = stopped.run.store.read(further)
    (data_only / "runs").rename(data_only / "elsewhere")
    whole = job_in(data_only, job.run.settings)
    assert train(whole) == {}
    assert whole.run.store.read(further) == average


def test_a_view_of_a_network_of_one_s_own_is_scored_beside_the_others(data_only, own_network):
    job = job_in(data_only, OWN)
    all_numbers(job)
    assert set(job.run.metrics["method"]) == {"conventional", "conventional@averaged-patches"}
    assert states(job)["logits/seed-0/averaged-patches/speckle-0.50.safetensors"] == "up to date"
    records = [job.run.logits(0, view=view).logits for view in ("patches", "averaged-patches")]
    assert not torch.equal(*records)


def test_a_network_that_leaves_other_artifacts_than_it_announces_is_refused(data_only, own_network, monkeypatch):
    monkeypatch.setattr(Averaged, "finish", lambda self, *arguments, **named: {"mean": {}})
    with pytest.raises(InvalidInput, match=r"network averaged left \['mean'\] and announces \['average'\]"):
        train(job_in(data_only, OWN))


@pytest.mark.parametrize(
    ("name", "what", "message"),
    [
        ("7/dropout", (), "unknown network '7/dropout'"),
        ("0/dropuot", (), "did you mean '0/dropout'"),
        ("dropout", (), "unknown network"),
        ("0/dropout", ("tarin",), "did you mean 'train'"),
    ],
)
def test_work_that_does_not_exist_is_refused(workplace, name, what, message):
    with pytest.raises(UnknownName, match=message):
        work.parse_work(job_in(workplace), name, what)


def test_by_default_work_is_all_that_the_settings_call_for(workplace):
    job = job_in(workplace)
    piece = work.parse_work(job, "1/conventional", ())
    assert piece.what == ("train", "val", "test", "gaussian", "speckle")
    assert len(piece.artifacts(planned(job, listed=piece.passes(job)))) == 3 + 2 + 2 * 2
