"""Noise sweeps: how often the network runs, what is kept, what is made again, and what it takes of the disk."""

from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest
import torch

from tests.conftest import COUNTS, SMALL
from tests.fixtures.jobs import Heard, do, hashes, job_in, states
from vbs_cli import files
from vbs_cli.artifacts import cells, passes, training
from vbs_cli.artifacts.work import Work, parse_work
from vbs_cli.data import base
from vbs_cli.errors import InvalidInput, VbsError
from vbs_cli.methods.variance import VarianceSmoothing
from vbs_cli.metrics import METRICS
from vbs_cli.models.dropout import Dropout
from vbs_cli.run import layout
from vbs_cli.stages.calibrate import calibrate
from vbs_cli.stages.clean import clean_caches
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.sweep import sweep
from vbs_cli.views import walk

LEVELS = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.fixture
def passed(monkeypatch):
    """Counts the examples that go through each network, by name; the first layer sees each pass once."""
    seen = Counter()
    real = walk.fast

    def counting(model, *args, **options):
        ready = real(model, *args, **options)
        name = "dropout" if any(isinstance(layer, Dropout) for layer in model) else "conventional"
        ready.net[0].register_forward_pre_hook(lambda module, inputs: seen.update({name: len(inputs[0])}))
        return ready

    monkeypatch.setattr(walk, "fast", counting)
    return seen


def test_a_sweep_is_one_pass_per_model_noise_and_level_for_all_methods_and_metrics(workplace, passed):
    job = job_in(workplace, replace(SMALL, methods=("conventional", "temperature", "vbs", "naive", "mc-dropout")))
    sweep(job, ["gaussian", "speckle"], [0.0, 0.1, 0.2])
    swept = 2 * 2 * 2  # seeds, noises, levels above zero
    assert passed == {"conventional": swept * COUNTS["test"], "dropout": swept * COUNTS["test"]}
    table = job.run.metrics
    cells = table[table["level"].isin([0.1, 0.2])].groupby(["seed", "noise", "level"])
    # Had each method and metric run the network for itself, these would have been as many passes as rows.
    assert (cells.size() == 5 * len(METRICS)).all()


def test_all_noises_of_a_level_share_one_walk_over_the_data(workplace, monkeypatch):
    blocks = Counter()
    real = base.Split.inputs

    def counted(self, index):
        blocks[self.name] += 1
        return real(self, index)

    monkeypatch.setattr(base.Split, "inputs", counted)
    do(job_in(workplace), 0, "conventional", "gaussian@0.1", "speckle@0.1", "salt-and-pepper@0.1")
    assert blocks == {"test": 1}
    do(job_in(workplace), 0, "conventional", "gaussian@0.2", "speckle@0.2", "gaussian@0.3")
    assert blocks == {"test": 3}


def test_all_seeds_and_networks_see_the_same_noisy_inputs(workplace, monkeypatch):
    seen = {}
    real = walk.distort

    def kept(x, **place):
        noisy = real(x, **place)
        seen.setdefault((place["noise"], place["level"]), []).append(noisy)
        return noisy

    monkeypatch.setattr(walk, "distort", kept)
    sweep(job_in(workplace), ["gaussian", "speckle"], [0.0, 0.3])
    assert set(seen) == {("gaussian", 0.3), ("speckle", 0.3)}
    for inputs in seen.values():
        assert len(inputs) == 4
        assert all(torch.equal(each, inputs[0]) for each in inputs)
    assert not torch.equal(seen["gaussian", 0.3][0], seen["speckle", 0.3][0])


def test_an_interrupted_sweep_goes_on_level_by_level(workplace, passed, monkeypatch):
    real = passes.walk
    calls = []

    def interrupted(*arguments, **options):
        calls.append(options["level"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(passes, "walk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(job_in(workplace), ["salt-and-pepper"], LEVELS)
    monkeypatch.setattr(passes, "walk", real)
    assert calls == LEVELS[1:4]
    passed.clear()
    sweep(job_in(workplace), ["salt-and-pepper"], LEVELS)
    assert passed == {"conventional": (8 - 2) * COUNTS["test"], "dropout": 8 * COUNTS["test"]}


def test_another_checkpoint_makes_again_what_depends_on_it_and_nothing_else(workplace, passed):
    job = job_in(workplace)
    weights, recipe = layout.weights(1, "conventional"), training.recipe(job, 1, "conventional")
    job.run.store.write(weights, (workplace / "runs/radio" / layout.weights(0, "conventional")).read_bytes(), recipe)
    sweep(job, ["gaussian"])
    # of one network: both splits as they are and two levels of the noise that was asked for
    assert passed == {"conventional": COUNTS["val"] + 3 * COUNTS["test"]}
    assert "speckle" not in set(job.run.metrics.query("seed == 1")["noise"])
    assert "speckle" in set(job.run.metrics.query("seed == 0")["noise"])


def test_levels_of_a_sweep_keep_their_patches_on_request_alone_and_go_on_doing_so(workplace, passed):
    name = layout.logits(0, "conventional", "test", "gaussian", 0.5)
    job = job_in(workplace)
    assert job.run.logits(0, noise="gaussian", level=0.5).parts is None
    sweep(replace(job, keep_patches=True), ["gaussian"])
    assert passed == {"conventional": 4 * COUNTS["test"], "dropout": 4 * COUNTS["test"]}
    assert job.run.logits(0, noise="gaussian", level=0.5).parts.shape == (COUNTS["test"], 4, 10)
    assert job.run.logits(0, view="draws", noise="gaussian", level=0.5).parts.shape == (COUNTS["test"], 4, 3)
    passed.clear()
    other = job_in(workplace, replace(SMALL, kernel=5))  # without asking for patches again
    sweep(other, ["gaussian"])
    assert not passed
    assert other.run.store.entries[name].settings["kernel"] == 5
    assert other.run.logits(0, noise="gaussian", level=0.5).parts is not None


def test_the_disk_that_is_announced_is_what_is_taken(workplace):
    heard = Heard()
    job = job_in(workplace, progress=heard)
    swept = passes.noise_passes(job, ["salt-and-pepper"], [0.25])
    for keep in (False, True):
        here = replace(job, keep_patches=keep)
        told = passes.disk_bytes(here, swept)
        sweep(here, ["salt-and-pepper"], [0.0, 0.25])
        taken = sum(job.run.store.entries[p.name].size for p in swept)
        assert told < taken < told + 1000 * len(swept)  # headers
    assert any(said.startswith("4 forward passes: ") and said.endswith(" free") for said in heard.said)


def test_without_room_on_the_disk_nothing_is_begun(workplace, no_network, monkeypatch):
    monkeypatch.setattr(files, "free_bytes", lambda folder: 1000)
    with pytest.raises(VbsError, match=r"has no room for .* of logits, 1.0 kB free; vbs clean --caches"):
        sweep(job_in(workplace), ["salt-and-pepper"])


def test_a_sweep_of_the_paper_s_size_stays_within_its_share_of_the_disk(workplace):
    """Ten seeds, two noises, 20 levels of radio: near 1.3 GB for a network, where all patches would take 100."""
    job = job_in(workplace)
    paper = replace(SMALL, seeds=10, kernel=10, levels=20, draws=10, width=4)
    data = replace(job.data, shape=(2, 1580), classes=20, counts={**job.data.counts, "test": 20_100})
    job = replace(job, run=replace(job.run, settings=paper), data=data)
    swept = [p for p in passes.noise_passes(job, ["gaussian", "speckle"]) if p.view == "patches"]
    assert 1.2e9 < passes.disk_bytes(job, swept) < 1.4e9
    assert passes.disk_bytes(replace(job, keep_patches=True), swept) > 45e9


def test_cleaned_caches_leave_every_result_up_to_date(workplace, no_network):
    before = hashes(workplace)
    rows = clean_caches(job_in(workplace))
    assert {row["state"] for row in rows} == {"cleaned"}
    assert not list((workplace / "runs/radio/logits").rglob("*.safetensors"))
    job = job_in(workplace)
    assert set(states(job).values()) == {"up to date", "cleaned"}
    sweep(job, SMALL.noises)
    assert job.run.store.written == 0
    assert hashes(workplace) == before
    assert clean_caches(job_in(workplace)) == []


def test_what_needs_cleaned_caches_makes_them_again_and_nothing_more(workplace, passed):
    clean_caches(job_in(workplace))
    job = job_in(workplace, replace(SMALL, options={"vbs": {"alpha": 3.0, "beta": "mean"}}))
    table = evaluate(job)
    # clean data for the fits and the reliability of both networks; noise for the one whose method has changed
    assert passed["conventional"] == 2 * (COUNTS["val"] + 5 * COUNTS["test"])
    assert passed["dropout"] == 2 * (COUNTS["val"] + COUNTS["test"])
    fresh = evaluate(job_in(workplace, job.run.settings, force=True))
    pd.testing.assert_frame_equal(table, fresh)


def test_scoring_again_with_another_alpha_touches_no_other_method(workplace, no_network, monkeypatch):
    scored = []
    real = cells.score_record
    monkeypatch.setattr(cells, "score_record", lambda method, record: scored.append(method) or real(method, record))
    job = job_in(workplace, replace(SMALL, options={"vbs": {"alpha": 2.0}}))
    before = job.run.metrics
    after = evaluate(job)
    of_tables = [method for method in scored if isinstance(method, VarianceSmoothing)]
    # all levels and the clean data of two seeds once for their scores and once for intervals, the conditions that are
    # shown once more for curves of risk; reliability has clean
    assert len(of_tables) == 2 * (5 + 5 + 3 + 1)
    assert len(scored) - len(of_tables) == 2 * 3  # of the others, the clean data for the reliability table alone
    others = before["method"] != "vbs"
    pd.testing.assert_frame_equal(before[others], after[others])
    assert not before[~others]["value"].equals(after[~others]["value"])


def test_tables_that_were_completed_bit_by_bit_are_those_made_at_once(workplace, no_network):
    other = replace(SMALL, methods=("conventional", "vbs"), options={"vbs": {"alpha": 2.0}})
    evaluate(job_in(workplace, other))
    evaluate(job_in(workplace))
    slowly = hashes(workplace)
    job = job_in(workplace)
    for name in (layout.METRICS, layout.REPLICATES, layout.INTERVALS, layout.RELIABILITY, layout.PROXY):
        job.run.store.remove(name)
    evaluate(job_in(workplace))
    assert hashes(workplace) == slowly


def test_a_condition_that_not_all_networks_have_passed_is_left_out(workplace):
    do(job_in(workplace), 0, "conventional", "speckle@0.3", "salt-and-pepper@0.3")
    heard = Heard()
    table = evaluate(job_in(workplace, progress=heard))
    assert 0.3 not in set(table["level"])
    assert heard.said == [
        "left out incomplete logits of salt-and-pepper; vbs noise-sweep --noise salt-and-pepper makes them again"
    ]


def test_words_name_passes_by_noise_where_all_of_the_run_s_levels_are_meant(made):
    job = job_in(made)
    every = passes.noise_passes(job, ["gaussian"])
    of_one = [p for p in every if (p.seed, p.view) == (0, "draws")]
    clean = [passes.Pass(0, "draws", "val")]
    assert passes.specs_for(job, [*clean, *of_one]) == ("val", "gaussian")
    assert passes.specs_for(job, of_one[1:]) == ("gaussian@1.0",)
    for asked in (of_one, of_one[1:], [passes.Pass(0, "draws", "test", "speckle", 0.05)]):
        assert Work(0, "dropout", passes.specs_for(job, asked)).passes(job) == asked


@pytest.mark.parametrize("word", ["gaussian@", "gaussian@0", "gaussian@nan", "gaussian@x", "hail@0.5", "@0.5"])
def test_levels_that_make_no_sense_are_no_work(made, word):
    with pytest.raises(InvalidInput, match="unknown work"):
        parse_work(job_in(made), "0/dropout", [word])


def test_the_spread_is_measured_against_the_errors_with_intervals(made):
    table = job_in(made).run.proxy
    assert set(zip(table["noise"], table["view"], strict=True)) == {
        (noise, view) for noise in ("gaussian", "speckle") for view in ("patches", "draws")
    }
    metrics = job_in(made).run.metrics
    cell = metrics[(metrics["noise"] == "gaussian") & (metrics["method"] == "conventional")]
    wide = cell.pivot_table(index=["seed", "level"], columns="metric", values="value")
    row = table[(table["noise"] == "gaussian") & (table["view"] == "patches")].set_index("quantity")
    last = wide.xs(1.0, level="level")
    assert row.loc["sigma_most", "value"] == pytest.approx(last["sigma_bar"].mean(), rel=1e-5)
    assert row.loc["error_most", "value"] == pytest.approx(1 - last["accuracy"].mean())
    known = row.dropna()  # so small a network may be wrong equally often at all levels, which leaves no correlation
    assert len(known) >= len(row) - 1
    assert (known["low"] <= known["value"] + 1e-12).all()
    assert (known["value"] <= known["high"] + 1e-12).all()


def test_another_noise_leaves_what_is_known_of_the_first(workplace):
    job = job_in(workplace)
    before = job.run.proxy
    clean_caches(job)
    sweep(job_in(workplace), ["salt-and-pepper"], [0.0, 0.5])
    after = job_in(workplace).run.proxy
    known = after[after["noise"] != "salt-and-pepper"].reset_index(drop=True)
    pd.testing.assert_frame_equal(known, before)
    assert (after["noise"] == "salt-and-pepper").sum() == len(before) / 2
    assert states(job_in(workplace))[layout.logits(0, "dropout", "test", "gaussian", 0.5)] == "cleaned"


def test_methods_are_fitted_without_the_sweeps(workplace, passed):
    clean_caches(job_in(workplace))
    calibrate(job_in(workplace, replace(SMALL, options={"vbs": {"alpha": 2.5}})))
    assert passed == {"conventional": 2 * COUNTS["val"], "dropout": 2 * COUNTS["val"]}
