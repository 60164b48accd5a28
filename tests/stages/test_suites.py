"""Suites of shifts on a small run: sweeps at levels of their own, and the table that sums them up."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import SMALL
from tests.fixtures.jobs import enter, job_in, states
from vbs_cli.conditions import MEAN, conditions
from vbs_cli.data import SUITES, Suite
from vbs_cli.data.noise import ANY, PICTURES, RADIO
from vbs_cli.errors import InvalidInput, UnknownName
from vbs_cli.metrics import bootstrap, scored
from vbs_cli.run import layout
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.plot import plot
from vbs_cli.stages.report import publish, report
from vbs_cli.stages.sweep import suite_levels, sweep
from vbs_cli.summary import suites_in, with_means

PAIR = Suite("two noises", ANY, {"gaussian": (0.25, 1.0), "clipping": (0.4, 0.8)})
TWO_METHODS = replace(SMALL, methods=("conventional", "vbs"))


def own(table, **wanted):
    """Rows of a table of shifts that are a method's own values."""
    found = table[(table["baseline"] == "") & (table["suite"] == wanted.pop("suite", "pair"))]
    for name, value in wanted.items():
        found = found[found[name] == value]
    return found


@pytest.fixture
def swept(workplace, monkeypatch):
    enter(monkeypatch, SUITES, "pair", PAIR)
    job = job_in(workplace, TWO_METHODS)
    sweep(job, suite_levels(job, "pair"))
    return job


def test_a_suite_is_swept_at_its_own_levels_and_a_level_that_is_there_serves_it(workplace, monkeypatch):
    enter(monkeypatch, SUITES, "pair", Suite("", ANY, {"gaussian": (0.25, 0.5)}))
    job = job_in(workplace, TWO_METHODS)
    table = sweep(job, suite_levels(job, "pair"))
    assert set(table["noise"]) == {"gaussian"}
    passed = [name for name in job.run.store.entries if "gaussian-0.25" in name and "conventional" in name]
    assert len(passed) == 2
    assert job.run.store.written == 2 + 1 + 7 + 1  # passes of two seeds, fits, tables, examples


def test_means_over_a_suite_are_those_of_its_scores_and_their_intervals_are_paired_over_shifts(swept):
    table, metrics = swept.run.shifts, swept.run.metrics
    at = [("gaussian", 0.25), ("gaussian", 1.0), ("clipping", 0.4), ("clipping", 0.8)]
    ece = (
        metrics[(metrics["method"] == "vbs") & (metrics["metric"] == "ece")].groupby(["noise", "level"])["value"].mean()
    )
    [mean] = own(table, over="all", severity=0, statistic="mean", method="vbs", metric="ece").to_dict("records")
    [worst] = own(table, over="all", severity=0, statistic="worst", method="vbs", metric="ece").to_dict("records")
    assert mean["value"] == pytest.approx(np.mean([ece[key] for key in at]))
    assert mean["conditions"] == 4
    # The worst of the means over seeds, since a score is the mean over seeds.
    assert worst["value"] == pytest.approx(max(ece[key] for key in at))
    drawn = []
    for noise, level in at:
        records = [swept.run.logits(seed, noise=noise, level=level) for seed in (0, 1)]
        methods = [swept.run.methods[seed]["vbs"] for seed in (0, 1)]
        cells = [scored(m.predict_proba(r), r.labels) for m, r in zip(methods, records, strict=True)]
        drawn.append(bootstrap({"vbs": cells}, metrics=["ece"]).columns["vbs", "ece"])
    replicates = torch.stack(drawn).mean(0)[1:].numpy()
    low, high = mean["value"] + np.quantile(replicates - replicates.mean(), [0.025, 0.975])
    assert (mean["low"], mean["high"]) == pytest.approx((low, high), abs=1e-9)


def test_a_suite_is_summed_up_by_noise_family_and_severity(swept):
    table = swept.run.shifts
    assert set(table["suite"]) == {"", "pair"}
    means = own(table, statistic="mean", method="vbs", metric="nll")
    assert set(zip(means["over"], means["name"], means["severity"], strict=True)) == {
        *(("noise", name, 0) for name in PAIR.levels),
        *(("family", name, k) for name in ("noise", "level") for k in (0, 1, 2)),
        *(("all", "", k) for k in (0, 1, 2)),
    }
    assert not len(own(table, statistic="worst", metric="entropy"))
    everything = own(table, suite="", over="noise", name="gaussian", statistic="mean", method="vbs", metric="nll")
    assert everything["conditions"].tolist() == [3]  # 0.25 of the suite, 0.5 and 1 of the sweep before


def test_differences_are_from_every_other_method_and_means_stand_beside_the_levels(swept):
    rows = swept.run.shifts.query("over == 'all' and severity == 0 and metric == 'brier' and statistic == 'mean'")
    pairs = rows[rows["suite"] == "pair"].set_index(["method", "baseline"])["value"]
    assert pairs["vbs", "conventional"] == pytest.approx(pairs["vbs", ""] - pairs["conventional", ""])
    assert pairs["conventional", "vbs"] == -pairs["vbs", "conventional"]
    shown = conditions(with_means(swept.run.intervals, swept.run.shifts))
    assert [each.noise for each in shown if each.level == MEAN] == ["clipping", "gaussian", "speckle"]
    assert suites_in(swept.run.shifts) == ["pair"]


def test_settings_chosen_under_a_noise_are_also_judged_without_its_family(workplace, no_network):
    job = job_in(workplace, replace(TWO_METHODS, tuned_on="gaussian"))
    evaluate(job)
    assert not len(own(job.run.shifts, suite="", over="unseen"))  # both sweeps are of one family


def test_settings_chosen_under_a_noise_are_judged_on_the_other_families(swept, workplace, no_network):
    job = job_in(workplace, replace(TWO_METHODS, tuned_on="gaussian"))
    assert states(job)[layout.SHIFTS] == "stale"
    assert states(job)[layout.REPLICATES] == "up to date"
    evaluate(job)
    rows = own(job.run.shifts, over="unseen", severity=0, statistic="mean", method="vbs", metric="ece")
    assert rows["name"].tolist() == ["noise"]
    [clipped] = own(job.run.shifts, over="noise", name="clipping", statistic="mean", method="vbs", metric="ece")[
        "value"
    ]
    assert rows["value"].tolist() == [pytest.approx(clipped)]


def test_a_suite_for_other_inputs_is_refused_with_those_that_fit(made, monkeypatch):
    job = job_in(made)
    monkeypatch.setattr(SUITES, "_entries", {"pictures": Suite("", PICTURES, {"fog": (1.0,)})})
    with pytest.raises(InvalidInput, match="the suite pictures is for images; --noise all sweeps"):
        suite_levels(job, "pictures")
    monkeypatch.setitem(SUITES._entries, "waves", Suite("", [RADIO], {"snr": (1.0,)}))
    with pytest.raises(InvalidInput, match="the suite pictures is for images; for radio there is --suite waves"):
        suite_levels(job, "pictures")
    with pytest.raises(UnknownName, match="unknown suite 'wave'; did you mean 'waves'"):
        suite_levels(job, "wave")


def test_a_level_beyond_the_last_of_a_noise_is_refused_before_anything_is_passed(workplace, no_network):
    job = job_in(workplace)
    with pytest.raises(InvalidInput, match="clipping noise has no level 2; its levels end at 1"):
        sweep(job, ["clipping"], [0.0, 1.0, 2.0])
    assert job.run.store.written == 0


def test_report_figures_and_published_tables_show_the_suite(swept, tmp_path):
    drawn = {row["artifact"]: row for row in plot(swept)}
    assert drawn["figures/families.svg"]["state"] == drawn["figures/noises.svg"]["state"] == "drawn"
    page = report(swept).read_text()
    assert "Does it hold under all shifts together?" in page
    assert "pair: 4 shifts of 2 noises" in page
    assert "pair: 4 shifts of 2 noises, worst" in page
    published = publish(swept, tmp_path / "published")
    assert {"suite-pair.md", "shifts.parquet", "noises.png"} <= set(published)
    text = (tmp_path / "published" / "suite-pair.md").read_text()
    assert "| mean ece by family | noise | level |" in text or "| mean ece by family | level | noise |" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--suite", "radio", "--noise", "snr"), "a suite has its own noises and levels"),
        (("--suite", "radio", "--family", "RF"), "a suite has its own noises and levels"),
        (("--suite", "radio", "--levels", "3"), "a suite has its own noises and levels"),
        (("--study", "ensemble", "--suite", "radio"), "the ensemble study takes one noise"),
        (("--study", "ensemble", "--family", "RF"), "the ensemble study takes one noise"),
        (("--family", "blur"), "unknown family 'blur'"),
        (("--noise", "fog"), "fog is a noise for images; radio takes gaussian"),
        (("--suite", "images"), "the suite images is for images; for radio there is --suite radio"),
    ],
)
def test_choices_that_contradict_each_other_or_the_data_are_refused_in_a_line(made, vbs, words, said):
    refused = vbs(made, "noise-sweep", *words)
    assert refused.code == 2
    assert said in refused.err
    assert refused.err.count("\n") == 1
