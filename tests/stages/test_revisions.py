"""Results of code that has changed are caught and made again; those of earlier versions are read, not refused."""

import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import SMALL
from tests.fixtures.jobs import Heard, enter, hashes, job_in, states
from vbs_cli import files
from vbs_cli.artifacts import (
    cells,
    examples,
    exports,
    figures,
    intervals,
    passes,
    proxy,
    report,
    shifts,
    study,
    tables,
    training,
)
from vbs_cli.artifacts.plan import with_everything
from vbs_cli.data import NOISES
from vbs_cli.data.noise import Noise
from vbs_cli.logits import Logits
from vbs_cli.methods import METHODS
from vbs_cli.metrics import METRICS
from vbs_cli.models import MODELS
from vbs_cli.networks import NETWORKS
from vbs_cli.networks import training as loop
from vbs_cli.plots import FIGURES
from vbs_cli.run import formats, layout
from vbs_cli.stages.calibrate import calibrate
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.export import ExportChoice, export
from vbs_cli.stages.run import run_all
from vbs_cli.stages.status import status
from vbs_cli.stages.sweep import run_study, sweep
from vbs_cli.stages.train import train
from vbs_cli.views import VIEWS
from vbs_cli.views.members import Members

SCORES = {layout.METRICS, layout.REPLICATES, layout.INTERVALS, layout.SHIFTS}
OF_METHODS = {*SCORES, layout.RELIABILITY, layout.COVERAGE}  # tables of predictions
WITH_ENSEMBLE = replace(SMALL, methods=("conventional", "ensemble"))


def whys(job):
    """Why each artifact that is stale is so."""
    return {row["artifact"]: row["why"] for row in status(job) if row["state"] == "stale"}


def after(job, names):
    """Some artifacts and all that is made from them."""
    found = set(names)
    for artifact in with_everything(job).graph:
        if not found.isdisjoint(artifact.recipe.inputs):
            found.add(artifact.name)
    return found


def changed(title, before=1):
    return f"the code of {title} has changed (revision {before}, now revision {before + 1})"


def raised(monkeypatch, registry, name):
    """Raise the revision of something that is registered; returns the reason that status gives."""
    monkeypatch.setitem(registry._revisions, name, 2)
    return changed(f"{registry.kind} {name}")


def logits(*parts):
    """Whether a name is that of logits, in whose path some words occur."""
    return lambda name: name.startswith("logits/") and all(part in name for part in parts)


@pytest.mark.parametrize(
    ("registry", "name", "own"),
    [
        (METRICS, "brier", SCORES.__contains__),
        (METHODS, "vbs", {layout.METHODS, *OF_METHODS}.__contains__),
        # Without calibration it tells whether a prediction is wrong, which the spread is held against.
        (METHODS, "conventional", {layout.METHODS, *OF_METHODS, layout.PROXY}.__contains__),
        (NOISES, "speckle", lambda name: logits("speckle")(name) or name == layout.EXAMPLES),
        (VIEWS, "draws", logits("/dropout/")),
        (VIEWS, "patches", logits("/conventional/")),
        (NETWORKS, "dropout", lambda name: name.startswith("seed-") and "/dropout." in name),
        (MODELS, "conv1d-radio", lambda name: name.startswith("seed-")),
        (FIGURES, "shift", {"figures/shift.svg", "figures/shift.png"}.__contains__),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "kind", "own"),
)
def test_what_registered_code_made_is_stale_once_its_revision_is_raised(made, monkeypatch, registry, name, own):
    """And all that is made from it, and nothing else."""
    job = job_in(made)
    first = {each for each in states(job) if own(each)}
    expected = after(job, first)
    why = raised(monkeypatch, registry, name)
    found = whys(job)
    assert found.keys() == expected
    # The examples lose a noise whose records are stale, which is told first.
    assert {each for each, reason in found.items() if reason == why} == first - {layout.EXAMPLES}


@pytest.mark.parametrize(
    ("module", "title", "own"),
    [
        (training, "training", lambda name: name.startswith("seed-")),
        (passes, "forward pass", logits()),
        (tables, "tables", OF_METHODS.__contains__),
        (proxy, "proxy", {layout.PROXY}.__contains__),
        (shifts, "shifts", {layout.SHIFTS}.__contains__),
        (examples, "examples", {layout.EXAMPLES}.__contains__),
        (figures, "plotting", lambda name: name.startswith("figures/")),
        (report, "report", {layout.REPORT}.__contains__),
    ],
)
def test_what_a_stage_made_is_stale_once_its_revision_is_raised(made, monkeypatch, module, title, own):
    job = job_in(made)
    first = {each for each in states(job) if own(each)}
    expected = after(job, first)
    before = module.REVISION
    monkeypatch.setattr(module, "REVISION", before + 1)
    found = whys(job)
    assert found.keys() == expected
    assert {each for each, reason in found.items() if reason == changed(title, before)} == first


def test_studies_and_exports_have_revisions_too(workplace, monkeypatch):
    job = job_in(workplace)
    run_study(job, study.Exposure("gaussian", (0.0, 0.5)))
    export(job, ExportChoice("torchscript"))
    monkeypatch.setattr(study, "REVISION", 2)
    monkeypatch.setattr(exports, "REVISION", 2)
    found = whys(job_in(workplace))
    assert {name for name, why in found.items() if why == changed("study")} == {
        name for name in states(job) if name.startswith("studies/")
    }
    assert {name for name, why in found.items() if why == changed("export")} == {
        name for name in states(job) if name.startswith("export/")
    }


def values(table, **where):
    """The numbers of a table by what they are of."""
    for column, value in where.items():
        table = table[table[column] == value]
    keys = [name for name in ("seed", "method", "noise", "level", "metric") if name not in where]
    return table.set_index(keys)["value"].sort_index()


def test_a_broken_metric_does_not_pass_for_the_right_one(workplace, no_network, monkeypatch):
    job = job_in(workplace)
    before, intervals = job.run.metrics, job.run.intervals
    right = METRICS["brier"]
    enter(monkeypatch, METRICS, "brier", replace(right, measure=lambda scored: right(scored) + 100), revision=2)
    assert whys(job)[layout.METRICS] == changed("metric brier")
    table = evaluate(job)
    pd.testing.assert_series_equal(values(table, metric="brier"), values(before, metric="brier") + 100)
    pd.testing.assert_frame_equal(table[table["metric"] != "brier"], before[before["metric"] != "brier"])
    of_brier = job.run.intervals.query("metric == 'brier' and baseline == ''")["value"].to_numpy()
    was = intervals.query("metric == 'brier' and baseline == ''")["value"].to_numpy()
    np.testing.assert_allclose(of_brier, was + 100)
    assert states(job)[layout.METRICS] == "up to date"
    # Mended without another revision it would pass for the broken one; with one it does not.
    enter(monkeypatch, METRICS, "brier", right, revision=3)
    pd.testing.assert_frame_equal(evaluate(job_in(workplace)), before)


def test_a_mended_method_is_fitted_and_scored_again_without_a_network(workplace, no_network, monkeypatch):
    @dataclass(frozen=True)
    class Hotter(METHODS["vbs"]):
        def temperature(self, record):
            return 3 * super().temperature(record)

    job = job_in(workplace)
    before = job.run.metrics
    enter(monkeypatch, METHODS, "vbs", Hotter, revision=2)
    assert states(job)[layout.logits(0, "conventional", "val")] == "up to date"
    table = evaluate(job)
    others = before["method"] != "vbs"
    pd.testing.assert_frame_equal(table[others], before[others])
    assert (values(table, method="vbs", metric="entropy") > values(before, method="vbs", metric="entropy")).all()


def test_a_mended_noise_is_passed_again_and_nothing_else(workplace, monkeypatch):
    walked = Counter()
    real = passes.walk

    def counted(*arguments, noises, **options):
        walked.update(noises)
        return real(*arguments, noises=noises, **options)

    monkeypatch.setattr(passes, "walk", counted)
    speckle = NOISES["speckle"]
    stronger = Noise(speckle.draw, lambda x, draw, level: speckle.apply(x, draw, 2 * level))
    enter(monkeypatch, NOISES, "speckle", stronger, revision=2)
    job = job_in(workplace)
    before = job.run.logits(0, noise="speckle", level=0.5).logits
    heard = Heard()
    evaluate(replace(job, progress=heard))  # which makes no sweeps
    assert heard.said == ["left out stale logits of speckle; vbs noise-sweep --noise speckle makes them again"]
    sweep(job, SMALL.noises)
    assert walked == {"speckle": 2 * 2 * 2}  # seeds, networks, levels
    assert not torch.equal(job.run.logits(0, noise="speckle", level=0.5).logits, before)
    assert set(job.run.metrics["noise"]) == {"clean", "gaussian", "speckle"}


def test_a_view_of_all_seeds_that_joins_otherwise_is_fitted_and_scored_again(workplace, no_network, monkeypatch):
    """No recipe of a record tells how records are joined, so those of fits and tables do."""

    @dataclass(frozen=True)
    class Sharper(Members):
        def join(self, records, *, spreads):
            return super().join([Logits(3 * each.logits, labels=each.labels) for each in records], spreads=spreads)

    job = job_in(workplace, WITH_ENSEMBLE)
    before = evaluate(job)
    proxies = job.run.proxy
    enter(monkeypatch, VIEWS, "members", Sharper, revision=2)
    job = job_in(workplace, WITH_ENSEMBLE)
    expected = {layout.METHODS, *OF_METHODS, layout.PROXY}
    assert {name for name, why in whys(job).items() if why == changed("view members")} == expected
    table = evaluate(job)
    entropy = {"metric": "entropy", "seed": layout.TOGETHER}
    assert (values(table, **entropy) < values(before, **entropy)).all()
    pd.testing.assert_frame_equal(table[table["seed"] >= 0], before[before["seed"] >= 0])
    of_members = job.run.proxy.query("view == 'members' and quantity == 'sigma_most'")["value"].to_numpy()
    was = proxies.query("view == 'members' and quantity == 'sigma_most'")["value"].to_numpy()
    np.testing.assert_allclose(of_members, 3 * was, rtol=1e-5)


def test_settings_of_a_view_that_joins_are_part_of_what_is_made_from_it(workplace, no_network, monkeypatch):
    @dataclass(frozen=True)
    class Some(Members):
        factor: float = 1.0

        def join(self, records, *, spreads):
            scaled = [Logits(self.factor * each.logits, labels=each.labels) for each in records]
            return super().join(scaled, spreads=spreads)

    enter(monkeypatch, VIEWS, "members", Some)
    before = evaluate(job_in(workplace, WITH_ENSEMBLE))
    other = job_in(workplace, replace(WITH_ENSEMBLE, options={"members": {"factor": 3.0}}))
    assert whys(other)[layout.METRICS] == "joins.members.factor was 1.0, now 3.0"
    entropy = {"metric": "entropy", "seed": layout.TOGETHER}
    assert (values(evaluate(other), **entropy) < values(before, **entropy)).all()


def test_other_code_of_the_tables_keeps_no_row_of_the_earlier_ones(workplace, no_network, monkeypatch):
    """Rows that the same inputs and methods would give are else taken over from the table that is there."""
    scored, drawn = [], []
    score, draw = cells.score_record, intervals.bootstrap
    monkeypatch.setattr(cells, "score_record", lambda method, record: scored.append(method) or score(method, record))
    monkeypatch.setattr(intervals, "bootstrap", lambda *given, **named: drawn.append(given) or draw(*given, **named))
    before = job_in(workplace).run.metrics
    monkeypatch.setattr(tables, "REVISION", tables.REVISION + 1)
    pd.testing.assert_frame_equal(evaluate(job_in(workplace)), before)
    methods = 2 * len(SMALL.methods)  # of each seed
    assert len(scored) == methods * (5 + 5 + 3 + 1)  # scores; intervals; risks of those shown; the clean one
    assert len(drawn) == len(SMALL.methods) * 5


def test_an_unfinished_training_of_other_code_is_not_gone_on_with(data_only, monkeypatch):
    job = job_in(data_only, replace(SMALL, seeds=1, methods=("conventional",)))
    unfinished = layout.checkpoint(0, "conventional")
    job.run.store.write(unfinished, b"never read", training.recipe(job, 0, "conventional"))
    monkeypatch.setattr(training, "REVISION", 2)
    heard = Heard()
    assert train(replace(job, progress=heard)) == {}
    assert not any("goes on" in said for said in heard.said)
    assert job.run.store.entries[layout.weights(0, "conventional")].revisions["training"] == 2


def test_other_code_of_a_view_is_no_reason_to_train(workplace, monkeypatch):
    monkeypatch.setattr(loop, "train", None)
    raised(monkeypatch, VIEWS, "draws")
    before = hashes(workplace)
    job = job_in(workplace)
    run_all(job)
    assert hashes(workplace) == before  # the code has not really changed
    assert {entry.revisions["view draws"] for name, entry in job.run.store.entries.items() if "/dropout/" in name} == {
        2
    }
    assert set(states(job).values()) == {"up to date"}


def test_spreads_are_not_taken_again_from_parts_that_other_code_left(workplace, monkeypatch):
    """Another kernel needs no network; another kernel and other code do."""
    raised(monkeypatch, VIEWS, "patches")
    walked = []
    real = passes.walk
    monkeypatch.setattr(passes, "walk", lambda *given, **named: walked.append(given[1].name) or real(*given, **named))
    calibrate(job_in(workplace, replace(SMALL, kernel=2)))
    assert walked == ["val", "val"]


def test_the_recipe_of_a_pass_is_stated_once_or_twice_in_a_whole_run(data_only, monkeypatch):
    count = 0
    real = passes.recipe

    def counted(job, p):
        nonlocal count
        count += 1
        return real(job, p)

    monkeypatch.setattr(passes, "recipe", counted)
    every = 2 * 2 * (2 + 2 * 2)  # seeds, networks, clean splits and levels of two noises
    commands = [(2, run_all), (2, run_all), (1, evaluate), (1, status), (1, lambda job: sweep(job, SMALL.noises))]
    for most, command in commands:
        count = 0
        command(job_in(data_only))
        assert 0 < count <= most * every


ROLES = {"patches": "conventional", "draws": "dropout"}


def as_earlier(folder):
    """Make a finished run what the earlier version would have left: no revisions, and roles for networks and views."""
    run = folder / "runs/radio"
    for path in [*run.glob("manifest.json"), *run.glob(".parts/*.manifest.json")]:
        manifest = json.loads(path.read_text())
        for name, entry in manifest["artifacts"].items():
            manifest["artifacts"][name] = earlier_entry(run, name, entry)
        path.write_text(json.dumps(manifest))


def earlier_entry(run, name, entry):
    settings = dict(entry["settings"])
    if entry["stage"] == "train":
        settings["role"] = settings.pop("network")
    if entry["stage"] == "forward":
        del settings["network"]
        settings["role"] = ROLES[settings.pop("view")]
    entry = {**{key: value for key, value in entry.items() if key != "revisions"}, "settings": settings}
    if not name.endswith(".training.parquet"):
        return entry
    table = formats.table_from((run / name).read_bytes()).rename(columns={"network": "model"})
    data = formats.table_bytes(table)
    (run / name).write_bytes(data)
    return {**entry, "sha256": files.sha256_of(data), "size": len(data)}


def test_runs_of_earlier_versions_keep_their_weights_and_logits(workplace):
    as_earlier(workplace)
    job = job_in(workplace)
    kept = {name for name, state in states(job).items() if state == "up to date"}
    assert kept == {name for name in states(job) if name.startswith(("seed-", "logits/"))}
    unknown = "it was made before vbs recorded the revision of its code"
    assert set(whys(job).values()) == {unknown}
    assert set(job.run.training["network"]) == {"conventional", "dropout"}


def test_runs_of_earlier_versions_go_on_without_a_network_to_the_same_numbers(workplace, made, no_network):
    as_earlier(workplace)
    run_all(job_in(workplace))
    assert hashes(workplace) == hashes(made)
    assert set(states(job_in(workplace)).values()) == {"up to date"}
    job = job_in(workplace)
    run_all(job)
    assert job.run.store.written == 0


def test_other_code_makes_weights_of_earlier_versions_stale_too(workplace, monkeypatch):
    as_earlier(workplace)
    why = raised(monkeypatch, NETWORKS, "dropout")
    found = whys(job_in(workplace))
    assert found[layout.weights(0, "dropout")] == why
    assert layout.weights(0, "conventional") not in found


def test_an_unfinished_training_of_an_earlier_version_goes_on(data_only, made, monkeypatch):
    settings = replace(SMALL, seeds=1, methods=("conventional",))
    real, calls = loop.validate, iter((False, True))

    def interrupted(*arguments, **named):
        if next(calls):
            raise KeyboardInterrupt
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(job_in(data_only, settings))
    as_earlier(data_only)
    heard = Heard()
    assert train(job_in(data_only, settings, progress=heard)) == {}
    assert heard.said == ["train: seed 0 conventional goes on after epoch 1"]
    weights = layout.weights(0, "conventional")
    assert job_in(data_only).run.store.read(weights) == job_in(made).run.store.read(weights)
