"""The stages on a small run: what they make, what they leave alone, and what they notice."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from tests.conftest import SMALL
from tests.fixtures.jobs import Heard, all_numbers, enter, job_in, states
from vbs_cli.artifacts import passes, training
from vbs_cli.artifacts.work import NetworksFailed
from vbs_cli.data.noise import NOISES, distort, noises_for
from vbs_cli.errors import DamagedArtifact, InvalidInput, MissingArtifact, UnknownName, VbsError
from vbs_cli.methods import METHODS, Method, TemperatureMethod
from vbs_cli.metrics import METRICS
from vbs_cli.networks import training as loop
from vbs_cli.progress import Progress
from vbs_cli.run import layout
from vbs_cli.stages import plot
from vbs_cli.stages.calibrate import calibrate
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.report import report
from vbs_cli.stages.run import run_all
from vbs_cli.stages.sweep import chosen_noises, sweep
from vbs_cli.stages.train import train


def test_a_finished_run_is_up_to_date_and_running_again_makes_nothing(workplace, no_network):
    heard = Heard()
    job = job_in(workplace, progress=heard)
    assert set(states(job).values()) == {"up to date"}
    run_all(job)
    assert job.run.store.written == 0
    assert heard.announced == [0]


def test_the_tables_hold_every_method_noise_level_and_metric(made):
    table = job_in(made).run.metrics
    assert set(table["method"]) == set(SMALL.methods)
    assert set(table["metric"]) == set(METRICS)
    assert {(n, lv) for n, lv in zip(table["noise"], table["level"], strict=True)} == {
        ("clean", 0.0), *((n, lv) for n in ("gaussian", "speckle") for lv in (0.0, 0.5, 1.0))
    }  # fmt: skip
    keys = ["seed", "method", "noise", "level", "metric"]
    assert not table.duplicated(keys).any()
    assert len(table) == 2 * 4 * 7 * len(METRICS)
    assert (table["source"] == "simulated (sines)").all()
    assert np.isfinite(table["value"]).all()


def test_the_numbers_are_those_of_the_cached_logits(made):
    run = job_in(made).run
    record = run.logits(1, noise="gaussian", level=0.5)
    beta = run.methods[1]["vbs"].beta
    assert beta == pytest.approx(-run.logits(1, "val").sigma.double().mean().item() + 0.5)
    s = (record.sigma.double() + beta).clamp(min=1)
    log_p = (record.logits.double() / s[:, None]).log_softmax(1)
    expected = -log_p[torch.arange(70), record.labels].mean().item()
    table = run.metrics.set_index(["seed", "method", "noise", "level", "metric"])["value"]
    assert table[1, "vbs", "gaussian", 0.5, "nll"] == pytest.approx(expected, rel=1e-12)
    assert table[1, "vbs", "gaussian", 0.5, "sigma_bar"] == pytest.approx(record.sigma.mean().item(), rel=1e-5)


def test_temperature_methods_have_exactly_the_conventional_accuracy(made):
    table = job_in(made).run.metrics
    accuracy = table[table["metric"] == "accuracy"].pivot_table(
        index=["seed", "noise", "level"], columns="method", values="value"
    )
    for method in ("temperature", "vbs"):
        assert (accuracy[method] == accuracy["conventional"]).all()


def test_noise_of_level_zero_is_the_clean_data(made):
    table = job_in(made).run.metrics
    keys = ["seed", "method", "metric"]
    clean = table[table["noise"] == "clean"].set_index(keys)["value"]
    zero = table[(table["noise"] == "speckle") & (table["level"] == 0)].set_index(keys)["value"]
    assert clean.sort_index().equals(zero.sort_index())


def test_a_changed_alpha_is_scored_again_without_a_network(workplace, no_network):
    job = job_in(workplace, replace(SMALL, options={"vbs": {"alpha": 1e4, "beta": "q50"}}))
    before = job.run.metrics
    after = sweep(job, ["gaussian", "speckle"])
    entropy = [
        t[(t["method"] == "vbs") & (t["metric"] == "entropy") & (t["noise"] == "speckle")]["value"].mean()
        for t in (before, after)
    ]
    assert entropy[1] > entropy[0]


def test_another_kernel_needs_no_network_for_clean_data_and_makes_sweeps_stale(workplace, no_network):
    job = job_in(workplace, replace(SMALL, kernel=2))
    metrics = evaluate(job)
    assert set(metrics[metrics["method"] != "mc-dropout"]["noise"]) == {"clean"}
    assert torch.equal(job.run.logits(0).sigma, job.run.logits(0).at_kernel(2).sigma)
    assert states(job)["logits/seed-0/conventional/speckle-0.50.safetensors"] == "stale"
    assert states(job)["logits/seed-0/dropout/speckle-0.50.safetensors"] == "up to date"


def test_a_deleted_artifact_and_what_follows_are_made_again_to_the_same_bits(workplace):
    folder = workplace / "runs" / "radio"
    tables = {name: (folder / name).read_bytes() for name in (layout.METRICS, layout.METHODS)}
    before = (folder / layout.logits(0, "dropout", "val")).read_bytes()
    (folder / layout.logits(0, "dropout", "val")).unlink()
    job = job_in(workplace)
    run_all(job)
    assert job.run.store.written == 1
    assert (folder / layout.logits(0, "dropout", "val")).read_bytes() == before
    assert {name: (folder / name).read_bytes() for name in tables} == tables


def test_retraining_makes_everything_downstream_stale(workplace):
    job = job_in(workplace, replace(SMALL, epochs=1))
    train(job)
    found = states(job)
    kept = {name for name, state in found.items() if state == "up to date"}
    # what the networks saw is as it was
    assert kept == {name for name in found if name.startswith(("seed-", "figures/examples", "figures/noises"))}
    assert found[layout.METRICS] == found[layout.REPORT] == "stale"
    rows = {row["artifact"]: row for row in plot.plot(job)}
    assert rows["figures/shift.svg"]["state"] == "left out"
    assert "metrics.parquet is stale" in rows["figures/shift.svg"]["why"]
    assert rows["figures/shift.svg"]["why"].endswith("; vbs evaluate makes it again")
    assert rows["figures/training.svg"]["state"] == "drawn"
    with pytest.raises(MissingArtifact, match="vbs evaluate"):
        plot.plot(job, ["shift"])
    with pytest.raises(MissingArtifact, match="vbs evaluate"):
        report(job)


def test_settings_that_disagree_with_the_checkpoint_are_noticed_before_any_scoring(workplace):
    job = job_in(workplace, replace(SMALL, width=7))
    with pytest.raises(MissingArtifact, match=r"stale: width was 6, now 7; vbs train"):
        evaluate(job)


def test_other_sweeps_are_left_out_once_their_networks_are_trained_again(workplace):
    sweep(job_in(workplace), ["salt-and-pepper"])
    run_all(job_in(workplace))
    assert "salt-and-pepper" in set(job_in(workplace).run.metrics["noise"])
    heard = Heard()
    job = job_in(workplace, replace(SMALL, epochs=1), progress=heard)
    run_all(job)
    assert set(job.run.metrics["noise"]) == {"clean", "gaussian", "speckle"}
    again = "vbs noise-sweep --noise salt-and-pepper makes them again"
    assert heard.said[-1] == f"left out stale logits of salt-and-pepper; {again}"


def test_more_seeds_keep_the_first_ones(workplace):
    folder = workplace / "runs" / "radio"
    first = (folder / layout.weights(0, "conventional")).read_bytes()
    job = job_in(workplace, replace(SMALL, seeds=3))
    train(job)
    assert job.run.store.written == 2 * 4  # table, best and last weights and a checkpoint of each network
    assert (folder / layout.weights(0, "conventional")).read_bytes() == first


def test_seeds_without_a_sweep_have_no_place_in_its_curve(workplace):
    job = job_in(workplace, replace(SMALL, seeds=3))
    train(job)
    table = evaluate(job)
    assert set(table[table["noise"] == "clean"]["seed"]) == {0, 1, 2}
    for _, level in table[table["noise"] == "speckle"].groupby("level"):
        assert set(level["seed"]) == {0, 1}


def test_a_seed_has_the_same_weights_alone_and_among_others(made, data_only):
    alone = job_in(data_only)
    training.train_one(alone, seed=1, network="dropout")
    name = layout.weights(1, "dropout")
    assert alone.run.store.read(name) == job_in(made).run.store.read(name)


class StopsAfter(Progress):
    """Raises at the n-th call of `advance`."""

    def __init__(self, count):
        self.count = count

    def task(self, label, total):
        outer = super().task(label, total)
        progress = self

        class Wrapped:
            def __enter__(self):
                task = outer.__enter__()
                task.advance = self.advance
                return task

            def __exit__(self, *error):
                return outer.__exit__(*error)

            def advance(self, amount):
                progress.count -= 1
                if progress.count == 0:
                    raise KeyboardInterrupt

        return Wrapped()


@pytest.mark.parametrize("count", [2, 4, 6, 9, 20, 26])
def test_an_interrupted_run_goes_on_and_ends_like_one_that_was_not(data_only, made, count):
    with pytest.raises(KeyboardInterrupt):
        all_numbers(job_in(data_only, progress=StopsAfter(count)))
    all_numbers(job_in(data_only))
    for name, entry in job_in(made).run.store.entries.items():
        # training tables and the report hold seconds and paths
        if name.endswith((".safetensors", layout.METRICS, layout.RELIABILITY, layout.METHODS)):
            assert job_in(data_only).run.store.sha256(name) == entry.sha256, name


def test_one_seed_that_fails_does_not_stop_the_others(data_only, monkeypatch):
    real = loop.initialised

    def poisoned(build, *, seed, name):
        model = real(build, seed=seed, name=name)
        if (seed, name) == (0, "dropout"):
            with torch.no_grad():
                next(model.parameters()).fill_(float("nan"))
        return model

    monkeypatch.setattr(loop, "initialised", poisoned)
    job = job_in(data_only)
    failures = train(job)
    assert [piece.title for piece in failures] == ["seed 0 dropout"]
    told = str(NetworksFailed(failures))
    assert told.startswith("1 network failed, the others are done: seed 0 dropout: the loss became nan")
    found = states(job)
    assert found[layout.weights(0, "dropout")] == "missing"
    assert found[layout.weights(1, "dropout")] == found[layout.weights(0, "conventional")] == "up to date"


def test_force_makes_again_what_belongs_to_the_stage_only(workplace):
    job = job_in(workplace, force=True)
    evaluate(job)
    assert job.run.store.written == 4 + 7  # test logits of two seeds and two models, seven tables


def test_a_damaged_cache_stops_the_evaluation(workplace):
    path = workplace / "runs" / "radio" / layout.logits(0, "conventional", "test")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(DamagedArtifact, match="damaged"):
        evaluate(job_in(workplace))
    assert states(job_in(workplace))[layout.logits(0, "conventional", "test")] == "damaged"
    path.unlink()
    evaluate(job_in(workplace))
    assert set(states(job_in(workplace)).values()) == {"up to date"}
    sweep_path = workplace / "runs" / "radio" / layout.logits(1, "dropout", "test", "speckle", 1.0)
    sweep_path.write_bytes(sweep_path.read_bytes()[:-1])
    with pytest.raises(DamagedArtifact, match=r"speckle-1\.00"):
        evaluate(job_in(workplace))


def test_other_data_make_the_run_stale(workplace):
    from tests.conftest import small_preparation
    from vbs_cli.data import prepare

    prepare(workplace / "data", "radio", small_preparation(source="measured"))
    with pytest.raises(MissingArtifact, match="stale: data was"):
        calibrate(job_in(workplace))


def test_without_checkpoints_the_error_names_the_command(data_only):
    with pytest.raises(MissingArtifact, match="is missing; vbs train --dataset radio --seeds 2"):
        evaluate(job_in(data_only))


def test_noises_by_name_by_comma_and_all_of_them(made):
    job = job_in(made)
    assert chosen_noises(job, None) == ["gaussian", "speckle"]
    assert chosen_noises(job, ["speckle"]) == ["speckle"]
    assert chosen_noises(job, ["speckle,gaussian", "speckle"]) == ["speckle", "gaussian"]
    assert chosen_noises(job, ["all"]) == noises_for(job.data.shape)
    assert {NOISES[noise].family for noise in chosen_noises(job, None, ["filter", "level"])} == {"filter", "level"}
    with pytest.raises(UnknownName, match="unknown family 'blur'; known: noise"):
        chosen_noises(job, None, ["blur"])
    with pytest.raises(InvalidInput, match="affine is a noise for images; radio takes gaussian, speckle"):
        chosen_noises(job, ["gaussian,affine"])
    with pytest.raises(UnknownName, match="did you mean 'speckle'"):
        sweep(job, ["specle"])


def test_sweeps_of_other_levels_join_the_table(workplace):
    job = job_in(workplace)
    table = sweep(job, ["speckle"], [0.0, 0.25, 0.5, 0.75, 1.0])
    assert sorted(table["level"].unique()) == [0.0, 0.25, 0.5, 0.75, 1.0]
    everything = job.run.metrics
    assert sorted(everything[everything["noise"] == "gaussian"]["level"].unique()) == [0.0, 0.5, 1.0]


def test_figures_and_report_come_from_tables_alone(workplace, no_network):
    job = job_in(workplace)
    rows = plot.plot(replace(job, force=True), ["reliability"], ["pdf"])
    assert rows == [{"artifact": "figures/reliability.pdf", "state": "drawn", "why": ""}]
    assert (job.run.path / "figures/reliability.pdf").read_bytes().startswith(b"%PDF")
    page = report(job).read_text()
    assert "simulated (sines)" in page
    assert "vbs run --config" in page


def test_levels_share_their_cost_estimate(made):
    job = job_in(made)
    swept = passes.noise_passes(job, ["gaussian"])
    assert len(swept) == 2 * 2 * 2
    assert sum(passes.cost(job, p) for p in swept) == 2 * 2 * 70 * (1 + SMALL.draws)


def test_a_new_method_is_one_registered_class(workplace, no_network, monkeypatch):
    @dataclass(frozen=True)
    class Sharper(TemperatureMethod):
        factor: float = 0.5

        def temperature(self, record):
            return torch.full((len(record),), self.factor, dtype=torch.float64)

    enter(monkeypatch, METHODS, "sharper", Sharper)
    settings = replace(SMALL, methods=("conventional", "sharper"), options={"sharper": {"factor": 0.25}})
    table = evaluate(job_in(workplace, settings))
    entropy = table[(table["metric"] == "entropy") & (table["noise"] == "clean")].groupby("method")["value"].mean()
    assert set(entropy.index) == {"conventional", "sharper"}
    assert entropy["sharper"] < entropy["conventional"]
    with pytest.raises(UnknownName, match="unknown option of sharper 'fator'; did you mean 'factor'"):
        calibrate(job_in(workplace, replace(settings, options={"sharper": {"fator": 1.0}})))


def test_a_method_is_fitted_on_the_view_that_it_is_paired_with(workplace, monkeypatch):
    @dataclass(frozen=True)
    class Remembers(Method):
        seen: float = 0.0

        def fit(self, val):
            return replace(self, seen=val.logits.double().sum().item())

        def predict_proba(self, record):
            return record.mean_softmax.double()

    enter(monkeypatch, METHODS, "remembers", Remembers)
    job = job_in(workplace, replace(SMALL, methods=("conventional", "remembers", "remembers@draws")))
    for seed, methods in calibrate(job).items():
        for name, view in (("remembers", "patches"), ("remembers@draws", "draws")):
            assert methods[name].seen == job.run.logits(seed, "val", view=view).logits.double().sum().item()


def test_a_temperature_that_changes_a_prediction_stops_the_evaluation(workplace, monkeypatch):
    @dataclass(frozen=True)
    class Inverted(TemperatureMethod):
        def temperature(self, record):
            return torch.full((len(record),), -1.0, dtype=torch.float64)

    enter(monkeypatch, METHODS, "inverted", Inverted)
    with pytest.raises(VbsError, match="a temperature changed"):
        evaluate(job_in(workplace, replace(SMALL, methods=("conventional", "inverted"))))


def test_the_example_is_the_input_that_the_networks_saw(workplace):
    job = job_in(workplace)
    rows = job.run.table(layout.EXAMPLES)
    assert set(rows["noise"]) == {"gaussian", "speckle"}
    split = job.data.split("test")
    block, inputs = next(split.blocks())
    for _, row in rows.iterrows():
        x = distort(inputs, noise=row["noise"], level=row["level"], dataset="radio", split="test", block=block)[0]
        assert list(row["shape"]) == list(x.shape)
        assert torch.equal(torch.tensor(row["values"]).view(x.shape), x)
    assert rows["label"].iloc[0] == split.y[0]


def test_a_figure_of_some_methods_replaces_nothing(workplace, no_network):
    job = job_in(workplace)
    whole = (job.run.path / "figures/shift.svg").read_bytes()
    rows = plot.plot(job, ["shift"], ["svg"], ["vbs", "temperature"])
    assert rows[0]["artifact"] == "figures/shift.vbs+temperature.svg"
    some = (job.run.path / rows[0]["artifact"]).read_bytes()
    assert some != whole == (job.run.path / "figures/shift.svg").read_bytes()
    assert plot.plot(job, ["shift"], ["svg"], ["vbs", "temperature"])[0]["state"] == "up to date"
    assert states(job)["figures/shift.vbs+temperature.svg"] == "up to date"
    with pytest.raises(UnknownName, match="did you mean 'vbs'"):
        plot.plot(job, ["shift"], ["svg"], ["vsb"])


def test_what_was_left_out_is_in_the_rows_and_in_the_report_with_its_command(workplace):
    job = job_in(workplace)
    left_out = {row["artifact"]: row["why"] for row in plot.plot(job) if row["state"] == "left out"}
    assert set(left_out) == {"figures/cost.svg", "figures/ensemble-study.svg"}
    assert left_out["figures/cost.svg"].endswith("vbs bench makes it")
    page = report(job).read_text()
    assert "vbs noise-sweep --study ensemble makes it" in page
