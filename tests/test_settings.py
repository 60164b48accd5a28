"""Precedence, coercion and refusals."""

import math

import pytest

from tests.conftest import SMALL
from vbs_cli.errors import DamagedArtifact, InvalidInput, MissingArtifact, UnknownName
from vbs_cli.protocols import from_toml, protocol, resolve
from vbs_cli.settings import (
    assignments,
    given_settings,
    override,
    to_toml,
)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    monkeypatch.delenv("VBS_DEVICE", raising=False)


def test_the_paper_s_protocol_for_radio():
    s = protocol("radio", "paper")
    assert (s.width, s.epochs, s.batch, s.lr, s.seeds) == (512, 30, 32, 1e-3, 10)
    assert (s.kernel, s.levels, s.max_level, s.draws, s.dropout) == (10, 20, 1.0, 10, 0.5)
    assert s.options["vbs"] == {"alpha": 1.0, "beta": "mean+0.5"}


def test_flag_beats_variable_beats_file_beats_saved_beats_profile(tmp_path, monkeypatch):
    config = tmp_path / "c.toml"
    config.write_text("epochs = 11\nbatch = 12\nwidth = 13\nseeds = 5\n")
    monkeypatch.setenv("VBS_EPOCHS", "21")
    monkeypatch.setenv("VBS_BATCH", "22")
    s = resolve(given_settings({"epochs": 31, "lr": None}, config), saved=SMALL)
    assert (s.epochs, s.batch, s.width, s.seeds) == (31, 22, 13, 5)
    assert s.draws == SMALL.draws
    assert s.reliability_bins == protocol("radio", "quick").reliability_bins


def test_another_profile_starts_from_that_profile():
    assert resolve({"profile": "paper"}, saved=SMALL) == protocol("radio", "paper")


def test_settings_survive_a_round_trip_through_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(to_toml(SMALL))
    assert from_toml(path) == SMALL


def test_text_and_lists_become_the_right_types():
    s = override(SMALL, {"noises": "speckle,gaussian", "epochs": "4", "lr": "1e-2", "methods": ["vbs"]})
    assert (s.noises, s.epochs, s.lr, s.methods) == (("speckle", "gaussian"), 4, 0.01, ("vbs",))


def test_options_of_methods_are_merged():
    s = override(SMALL, {"options": {"vbs": {"alpha": 3.0}, "other": {"x": 1}}})
    assert s.options == {"vbs": {"alpha": 3.0, "beta": "mean+0.5"}, "other": {"x": 1}}


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 0},
        {"batch": 0},
        {"epochs": -1},
        {"lr": 0},
        {"lr": math.nan},
        {"max_level": -0.1},
        {"max_level": math.nan},
        {"max_level": math.inf},
        {"levels": 1},
        {"draws": 1},
        {"dropout": 1.0},
        {"kernel": 0},
        {"epochs": "many"},
        {"epochs": 2.5},
    ],
)
def test_wrong_numbers_are_refused(changes):
    with pytest.raises(InvalidInput, match=next(iter(changes))):
        override(SMALL, changes)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(UnknownName, match="did you mean 'radio'"):
        protocol("radoi", "quick")
    with pytest.raises(UnknownName, match="did you mean 'quick'"):
        protocol("radio", "quik")
    with pytest.raises(UnknownName, match="did you mean 'epochs'"):
        override(SMALL, {"epoch": 3})


def test_a_missing_or_broken_file_is_an_error(tmp_path):
    with pytest.raises(MissingArtifact):
        given_settings({}, tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("epochs = ")
    with pytest.raises(DamagedArtifact, match="TOML"):
        given_settings({}, tmp_path / "bad.toml")


def test_levels_are_even_and_readable():
    assert override(SMALL, {"levels": 11}).level_values() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert len(set(protocol("radio", "paper").level_values())) == 20


def test_any_setting_can_be_assigned():
    flags = {"epochs": None, "lr": 0.1}
    assert assignments(["weight-decay=1e-4", "epochs = 3", "compile=yes"], flags) == {
        "weight_decay": "1e-4",
        "epochs": "3",
        "compile": "yes",
    }
    changed = override(SMALL, assignments(["weight_decay=1e-4", "compile=yes", "methods=vbs"], {}))
    assert (changed.weight_decay, changed.compile, changed.methods) == (1e-4, True, ("vbs",))


@pytest.mark.parametrize(
    ("text", "message"),
    [("epochs", "NAME=VALUE"), ("lr=3", "lr is given twice"), ("options=1", "calibrate --option"), ("", "NAME=VALUE")],
)
def test_assignments_that_make_no_sense_are_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        assignments([text], {"lr": 0.1})


@pytest.mark.parametrize("changes", [{"select": "wurst"}, {"precision": "float8"}, {"compile": "perhaps"}])
def test_words_that_are_no_choice_are_refused(changes):
    with pytest.raises(InvalidInput):
        override(SMALL, changes)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("0", False), (True, True), ("off", False)])
def test_truth_has_several_names(text, value):
    assert override(SMALL, {"compile": text}).compile is value
