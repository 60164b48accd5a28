"""Exports of a run: what is written, when it is written again, and what is refused."""

import json
from dataclasses import replace

import pytest
import torch

from tests.conftest import CLASSES, SHAPE, SMALL
from tests.fixtures.jobs import Heard, job_in, states
from vbs_cli import files
from vbs_cli.errors import InvalidInput, MissingArtifact, UnknownName, VbsError
from vbs_cli.export import FORMATS
from vbs_cli.export.module import OUTPUTS
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.stages.calibrate import calibrate
from vbs_cli.stages.clean import clean_caches
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.export import ExportChoice, aims, export

# Smoothing at work on every input, unlike that of the small run.
STRONG = replace(SMALL, options={"vbs": {"alpha": 3.0, "beta": 0.9}})
TS = ExportChoice("torchscript")  # which needs no library beside torch and is quickly written
NAME = "export/radio-seed0.torchscript"


def smoothed(folder, **extra):
    """The small run, calibrated anew so that smoothing is at work."""
    job = job_in(folder, STRONG, **extra)
    calibrate(job)
    return job


@pytest.mark.parametrize(
    "choice", [ExportChoice("onnx"), ExportChoice("pt2", 1), TS, ExportChoice("torchscript", method="temperature")]
)
def test_the_file_predicts_what_the_run_evaluates(workplace, choice):
    for library in FORMATS[choice.format].libraries:
        pytest.importorskip(library)
    job = smoothed(workplace)
    row = export(job, choice)
    assert row["state"] == "made"
    assert max(row[f"{name}_difference"] for name in OUTPUTS) <= 1e-5
    assert (row["random_inputs"], row["test_inputs"]) == (10, 64)
    with open(row["artifact"], "rb") as file:
        predict = FORMATS[choice.format].open(file.read())
    found = predict(job.data.split("test").inputs(slice(0, 70)))
    record, method = job.run.logits(choice.seed), job.run.methods[choice.seed][choice.method]
    torch.testing.assert_close(found["probabilities"].double(), method.predict_proba(record), rtol=0, atol=1e-5)
    torch.testing.assert_close(found["temperature"].double(), method.temperature(record), rtol=1e-5, atol=0)
    torch.testing.assert_close(found["sigma"], record.sigma, rtol=1e-5, atol=1e-8)
    if choice.method == "vbs":
        assert found["temperature"].min() > 2


def test_a_second_time_there_is_nothing_to_do_until_something_changes(workplace):
    job = smoothed(workplace)
    assert export(job, TS)["state"] == "made"
    written = job.run.store.written
    assert export(job, TS)["state"] == "up to date"
    assert job.run.store.written == written
    assert export(replace(job, force=True), TS)["state"] == "made"
    other = job_in(workplace, replace(STRONG, options={"vbs": {"alpha": 4.0, "beta": 0.9}}))
    calibrate(other)
    assert states(other)[NAME] == "stale"
    assert export(other, TS)["state"] == "made"
    assert states(other)[NAME] == "up to date"


def test_scores_that_come_later_renew_the_card_alone(workplace):
    job = smoothed(workplace)
    export(job, TS)
    before = job.run.store.sha256(NAME)
    assert json.loads(job.run.store.read(f"{NAME}.json"))["metrics"] == []
    assert "vbs evaluate" in job.run.store.read(f"{NAME}.md").decode()
    evaluate(job)
    assert export(job, TS)["state"] == "made"
    card = json.loads(job.run.store.read(f"{NAME}.json"))
    assert card["sha256"]["file"] == before == job.run.store.sha256(NAME)
    assert card["metrics"]
    assert card["intervals"]


def test_another_method_stands_beside_and_replaces_nothing(workplace):
    job = job_in(workplace)
    names = {aims(job, ExportChoice("pt2", method=method))[1][0] for method in ("vbs", "temperature", "conventional")}
    assert names == {f"export/radio-seed0{rest}.pt2" for rest in ("", "-temperature", "-conventional")}


def test_the_card_tells_what_one_must_know(workplace):
    job = job_in(workplace)
    export(job, TS)
    card = json.loads(job.run.store.read(f"{NAME}.json"))
    method = job.run.methods[0]["vbs"]
    assert card["what"] == "conv1d-radio of width 6 for 4 classes of radio, calibrated by vbs; seed 0 of the run radio"
    assert (card["method"]["alpha"], card["method"]["beta"], card["method"]["kernel"]) == (1.0, method.beta, 3)
    assert card["input"]["shape"] == ["batch", *SHAPE]
    assert "[-1, 1]" in card["input"]["scaling"]
    assert card["classes"] == [str(label) for label in range(CLASSES)]
    assert card["data"]["fingerprint"] == job.data.fingerprint
    assert card["sha256"] == {
        "file": files.sha256_of((job.run.path / NAME).read_bytes()),
        "weights": files.sha256_of((job.run.path / layout.weights(0, "conventional")).read_bytes()),
    }
    metrics = job.run.metrics
    own = metrics[(metrics["seed"] == 0) & (metrics["method"] == "vbs")]
    for row in card["metrics"]:
        same = own[(own["noise"] == row["noise"]) & (own["level"] == row["level"]) & (own["metric"] == row["metric"])]
        assert same["value"].tolist() == [row["value"]]
    assert {row["noise"] for row in card["metrics"]} == {"clean", "gaussian", "speckle"}
    assert {"vbs", "python", "torch", "numpy"} <= set(card["versions"])
    assert "simulated" in card["limits"]


def test_the_page_of_the_card_shows_its_numbers(workplace):
    job = job_in(workplace)
    export(job, TS)
    card = json.loads(job.run.store.read(f"{NAME}.json"))
    page = job.run.store.read(f"{NAME}.md").decode()
    assert page.startswith("# radio-seed0.torchscript\n")
    for told in (card["what"], card["sha256"]["file"], card["data"]["fingerprint"], card["limits"], "gaussian 1.00"):
        assert told in page
    (accuracy,) = (r["value"] for r in card["metrics"] if (r["noise"], r["metric"]) == ("clean", "accuracy"))
    assert f"| clean | {accuracy:.3f} |" in page
    assert "| kernel | 3 |" in page


def test_without_the_data_random_inputs_are_enough(workplace):
    heard = Heard()
    job = job_in(workplace, progress=heard)
    (workplace / "data" / "radio" / "x_test.npy").unlink()
    row = export(job, TS)
    assert row["test_inputs"] == 0
    assert "checked on random inputs alone" in heard.said[0]
    assert "of the test split, half" not in job.run.store.read(f"{NAME}.md").decode()


def test_a_run_whose_caches_were_cleaned_is_exported_all_the_same(workplace, no_network):
    job = job_in(workplace)
    clean_caches(job)
    assert export(job, TS)["state"] == "made"


def test_a_file_that_fails_its_check_is_not_left(workplace, monkeypatch):
    wrong = replace(
        FORMATS["torchscript"], open=lambda data: lambda x: {**opened(data)(x), "sigma": torch.ones(len(x))}
    )
    opened = FORMATS["torchscript"].open
    monkeypatch.setitem(FORMATS._entries, "torchscript", wrong)
    with pytest.raises(VbsError, match="the file's sigma are apart from the model's by") as refused:
        export(job_in(workplace), TS)
    assert refused.value.exit_code == 1
    assert not (workplace / "runs" / "radio" / "export").exists()


def test_a_copy_has_cards_of_its_own_name(workplace, tmp_path):
    job = job_in(workplace)
    place = tmp_path / "elsewhere" / "model.pt"
    row = export(job, TS, place)
    assert (row["artifact"], row["card"]) == (str(place), f"{place}.md")
    assert files.sha256_of(place.read_bytes()) == row["sha256"] == job.run.store.sha256(NAME)
    assert json.loads(place.with_name("model.pt.json").read_bytes())["file"] == "model.pt"
    assert place.with_name("model.pt.md").read_text().startswith("# model.pt\n")


def test_a_seed_that_was_not_trained_is_refused(workplace):
    with pytest.raises(MissingArtifact, match=r"no seed 2: .* has seeds 0 to 1; vbs train --seeds 3"):
        export(job_in(workplace), ExportChoice("pt2", seed=2))


def test_a_network_that_is_missing_names_the_training(workplace):
    (workplace / "runs" / "radio" / layout.weights(0, "conventional")).unlink()
    with pytest.raises(MissingArtifact, match=r"conventional\.safetensors is missing; vbs train"):
        export(job_in(workplace), TS)


def test_methods_that_are_not_fitted_to_this_network_name_calibrate(workplace):
    job = job_in(workplace)
    weights = layout.weights(0, "conventional")
    entry, tensors = job.run.store.entries[weights], formats.tensors_from(job.run.store.read(weights))
    other = formats.tensors_bytes({name: value * 1.5 for name, value in tensors.items()})
    job.run.store.write(weights, other, Recipe(entry.stage, entry.settings, revisions=entry.revisions))
    with pytest.raises(MissingArtifact, match=r"val.safetensors is stale: .* has changed; vbs calibrate"):
        export(job, TS)


def test_methods_that_are_missing_name_calibrate(workplace):
    (workplace / "runs" / "radio" / layout.METHODS).unlink()
    with pytest.raises(MissingArtifact, match=r"methods\.json is missing; vbs calibrate"):
        export(job_in(workplace), TS)


def test_a_method_that_the_run_leaves_out_names_how_it_is_fitted(workplace):
    job = job_in(workplace, replace(SMALL, methods=("conventional", "vbs")))
    with pytest.raises(MissingArtifact, match="vbs calibrate --methods conventional,vbs,temperature"):
        export(job, ExportChoice("pt2", method="temperature"))


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("mc-dropout", "several passes"),
        ("ensemble", "networks of all seeds"),
        ("vbs-ensemble", "networks of all seeds"),
        ("isotonic", "more than divide the logits"),
    ],
)
def test_methods_that_one_pass_cannot_give_are_refused_with_the_reason(method, why):
    with pytest.raises(InvalidInput, match=f"{method} cannot be exported: .*{why}"):
        ExportChoice("onnx", method=method)


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'onnx'"):
        ExportChoice("onx")
    with pytest.raises(UnknownName, match="did you mean 'temperature'"):
        ExportChoice("onnx", method="temperatur")
