"""Second test sets: prepared by a flag, passed through every network, and shown as conditions beside the clean one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import CLASSES, SHAPE, SMALL
from tests.fixtures.jobs import Heard, enter, job_in, states
from vbs_cli.artifacts.passes import further_passes
from vbs_cli.conditions import Condition, conditions
from vbs_cli.data import DATASETS, open_dataset
from vbs_cli.data.preparation import Batch, Preparation, prepare
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.run import layout
from vbs_cli.settings import override
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.plot import plot
from vbs_cli.stages.report import report
from vbs_cli.stages.second_test import named, with_second_tests
from vbs_cli.stages.sweep import chosen_noises, sweep

PHONE = Condition("phone", 1.0)


@pytest.fixture
def phone(tmp_path):
    """Sines of the same classes as heard by another device: louder, with more noise. 50 examples."""
    rng = torch.Generator().manual_seed(9)
    y = torch.arange(50) % CLASSES
    time = torch.arange(SHAPE[1]) / SHAPE[1]
    x = 1.3 * torch.sin(2 * torch.pi * (4 + 6 * y[:, None, None]) * time) + torch.randn(50, *SHAPE, generator=rng)
    np.savez(tmp_path / "phone.npz", x=x.float().numpy(), y=y.numpy())
    return tmp_path / "phone.npz"


def job_with(folder, *given, **options):
    job = with_second_tests(job_in(folder, **options), given)
    with job.run.settings_saved():
        return job


def test_every_network_and_view_runs_once_on_the_second_set_and_every_table_shows_it(workplace, phone):
    job = job_with(workplace, str(phone))
    assert job.run.settings.shifts == ("phone",)
    assert [(p.seed, p.view) for p in further_passes(job)] == [(s, v) for s in (0, 1) for v in ("patches", "draws")]
    table = evaluate(job)
    rows = PHONE.of(table)
    assert set(rows["method"]) == set(SMALL.methods)
    record = job.run.logits(0, noise="phone", level=1.0)
    assert len(record) == 50
    expected = float((record.logits.argmax(1) == record.labels).double().mean())
    mine = rows[(rows["seed"] == 0) & (rows["metric"] == "accuracy")].set_index("method")["value"]
    assert mine["conventional"] == mine["vbs"] == expected
    assert len(PHONE.of(job.run.intervals))
    assert "phone" in set(job.run.shifts.query("over == 'family'")["name"])
    assert PHONE in conditions(job.run.intervals)
    assert PHONE.name == "phone"
    # Its examples are not those of the clean split, so nothing grows between the two.
    assert "phone" not in set(job.run.proxy["noise"])


def test_what_is_there_stays_and_the_run_remembers_its_second_sets(workplace, phone, request):
    evaluate(job_with(workplace, f"phone={phone}"))
    request.getfixturevalue("no_network")
    heard = Heard()
    job = job_with(workplace, str(phone), progress=heard)
    assert any("is there already" in line for line in heard.said)
    evaluate(job)
    assert job.run.store.written == 0
    again = job_in(workplace, job.run.settings)
    assert {state for name, state in states(again).items() if "phone" in name} == {"up to date"}
    assert chosen_noises(again, None) == [*SMALL.noises, "phone"]


def test_a_second_set_with_other_content_is_passed_again(workplace, phone):
    evaluate(job_with(workplace, str(phone)))
    arrays = dict(np.load(phone))
    np.savez(phone, x=2 * arrays["x"], y=arrays["y"])
    with pytest.raises(InvalidInput, match="another name"):
        job_with(workplace, str(phone))
    job = job_with(workplace, f"other={phone}")
    before = job.run.logits(0, noise="phone", level=1.0)
    evaluate(job)
    assert not torch.equal(job.run.logits(0, noise="other", level=1.0).logits, before.logits)


def test_a_run_is_shown_without_the_inputs_of_its_second_set(workplace, phone, request):
    job = job_with(workplace, str(phone))
    evaluate(job)
    request.getfixturevalue("no_network")
    folder = workplace / "data" / "radio+phone"
    folder.rename(workplace / "elsewhere")
    job = job_in(workplace, job.run.settings)
    assert {state for name, state in states(job).items() if "phone" in name} == {"up to date"}
    pd.testing.assert_frame_equal(evaluate(job), job.run.metrics)
    assert len(PHONE.of(job.run.metrics))


def test_a_second_set_that_is_left_out_again_leaves_the_tables(workplace, phone):
    evaluate(job_with(workplace, str(phone)))
    job = job_in(workplace, override(replace(SMALL, shifts=("phone",)), {"shifts": ""}))
    assert job.run.settings.shifts == ()
    assert "phone" not in set(evaluate(job)["noise"])
    assert not any("phone" in name for name in states(job))


def test_a_sweep_of_a_second_set_takes_no_levels_but_its_own(workplace, phone):
    job = job_with(workplace, str(phone))
    table = sweep(job, ["phone"], [0.0, 0.5, 1.0])
    assert set(table["level"]) == {0.0, 1.0}


def test_figures_and_report_show_the_second_set(workplace, phone):
    job = job_with(workplace, str(phone))
    evaluate(job)
    drawn = {row["artifact"]: row for row in plot(job)}
    assert all(not row["why"] for name, row in drawn.items() if "families" in name or "shift" in name)
    assert "on phone" in report(job).read_text().lower()


def test_a_set_of_other_classes_or_shapes_is_refused_with_both(workplace, phone):
    arrays = dict(np.load(phone))
    np.savez(phone, x=arrays["x"][:, :, :100], y=arrays["y"])
    with pytest.raises(InvalidInput, match=r"\(2, 100\).*\(2, 200\)"):
        job_with(workplace, str(phone))
    np.savez(phone, x=arrays["x"], y=arrays["y"] + 3)
    with pytest.raises(InvalidInput, match="class"):
        job_with(workplace, str(phone))


def test_a_dry_run_prepares_nothing(workplace, phone):
    heard = Heard()
    job = with_second_tests(job_in(workplace, progress=heard), [str(phone)], only_tell=True)
    assert job.run.settings.shifts == ()
    assert "would be prepared" in heard.said[0]
    assert not (workplace / "data" / "radio+phone").exists()


def test_sets_are_named_by_their_path_or_by_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my phone.tar.gz").write_bytes(b"")
    assert named("my phone.tar.gz") == ("my-phone", tmp_path.__class__("my phone.tar.gz"))
    assert named("day-2=my phone.tar.gz")[0] == "day-2"
    assert named("cifar10-c") == ("cifar10-c", None)
    assert named("some/where")[0] == "where"


def test_a_name_that_was_never_prepared_is_told_with_the_cure(made):
    with pytest.raises(MissingArtifact, match="--shift-from"):
        with_second_tests(job_in(made), ["day-2"])


def test_descriptions_of_second_sets_are_part_of_the_run(workplace, phone):
    job = job_with(workplace, str(phone))
    evaluate(job)
    assert layout.second_test("phone") in job.run.store.entries


@pytest.fixture
def weather(workplace, monkeypatch):
    """Official files of two corruptions at two levels, prepared for runs of the radio data."""
    base = open_dataset(workplace / "data", "radio")
    counts = dict.fromkeys(("rain@0.5", "rain@1", "hail@0.5", "hail@1"), 40)
    families = {"rain": "water", "hail": "ice"}
    enter(monkeypatch, DATASETS, "weather", replace(DATASETS["cifar10-c"], tests="radio", families=families))

    def batches(split):
        x = torch.randn(40, *SHAPE, generator=torch.Generator().manual_seed(len(split)))
        yield Batch(x, torch.arange(40) % CLASSES)

    preparation = Preparation("rainy days", "none", base.class_names, SHAPE, counts, batches)
    prepare(workplace / "data", "weather", preparation, recipe={}, command="vbs download --dataset weather")
    return "weather"


def test_corruptions_in_files_are_summed_up_as_a_suite_by_their_families(workplace, weather):
    job = job_with(workplace, weather)
    evaluate(job)
    rows = job.run.shifts.query("suite == 'weather files' and severity == 0 and statistic == 'mean' and baseline == ''")
    assert set(rows[rows["over"] == "family"]["name"]) == {"water", "ice"}
    assert set(rows[rows["over"] == "noise"]["name"]) == {"weather-rain", "weather-hail"}
    assert set(rows[rows["over"] == "all"]["conditions"]) == {4}
    shown = [each.name for each in conditions(job.run.intervals) if each.second_set]
    assert all(name[-4:] in ("0.50", "1.00") for name in shown)


def test_many_corruptions_are_shown_together_and_few_one_by_one(workplace, weather, vbs, monkeypatch):
    job_with(workplace, weather)
    apart = vbs(workplace, "evaluate", "-q")
    assert apart.code == 0, apart.err
    assert "weather-rain 0.50" in apart.out or "weather-rain 1.00" in apart.out
    assert "shifts of" not in apart.out
    monkeypatch.setattr("vbs_cli.cli.commands.FEW_NOISES", 1)
    together = vbs(workplace, "evaluate", "-q")
    assert "weather files: 4 shifts of 2 noises" in together.out
    assert "weather-rain" not in together.out
