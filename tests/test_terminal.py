"""What a terminal gets: curves beside the numbers, in signs that it has."""

import re

import pytest

from tests.fixtures.command import run_vbs
from vbs_cli.cli.tables import LEVEL_LEGEND, RELIABILITY_LEGEND
from vbs_cli.report.sparks import BARS, CALIBRATED

SWEEP = ("noise-sweep", "--noise", "speckle", "--levels", "3")
CURVES = rf"(?: +[{BARS}]{{3}} \d\.\d\d → \d\.\d\d){{3}}"


def test_a_sweep_ends_with_a_curve_per_method(workplace, vbs):
    done = vbs(workplace, *SWEEP)
    assert done.code == 0, done.err
    *_, title, columns, first, second, third, fourth, legend = done.out.splitlines()
    assert (title, legend) == ("along the levels", LEVEL_LEGEND)
    assert columns.split() == ["noise", "method", "accuracy", "ece", "entropy"]
    methods = ("conventional", "temperature", "vbs", "mc-dropout")
    for method, line in zip(methods, (first, second, third, fourth), strict=True):
        assert re.fullmatch(rf"speckle +{method}{CURVES} *", line), line
    assert "\x1b" not in done.out


def test_an_evaluation_ends_with_accuracy_along_confidence(workplace, vbs):
    *_, title, _, calibrated, first, _, _, _, legend = vbs(workplace, "evaluate").out.splitlines()
    assert (title, legend) == ("reliability", RELIABILITY_LEGEND)
    assert calibrated.startswith(CALIBRATED)
    assert first.startswith("conventional")
    assert set(BARS) & set(first)


@pytest.mark.parametrize("word", ["--json", "--markdown"])
def test_programs_and_pages_get_no_curves(workplace, vbs, word):
    done = vbs(workplace, *SWEEP, word)
    assert done.code == 0, done.err
    assert not set(BARS) & set(done.out)
    assert "along the levels" not in done.out


@pytest.mark.parametrize("words", [SWEEP, ("evaluate",)])
def test_a_terminal_of_plain_letters_gets_plain_letters(workplace, words):
    done = run_vbs(workplace, *words, env={"PYTHONIOENCODING": "ascii"})
    assert done.code == 0, done.err
    assert done.out.isascii()
    assert re.search(r"conventional( +\d\.\d{3} \+- \d\.\d{3}){4}", done.out)
    assert "\ndiff vs conventional " in done.out
    if words == SWEEP:
        assert re.search(r"speckle +vbs(?: +[.:=+*#@-]{3} \d\.\d\d -> \d\.\d\d){3}", done.out)
    widths = {len(line) for line in done.out.splitlines() if " +- " in line and line.startswith(("conv", "temp"))}
    assert len(widths) == 1  # the columns still stand in line


def test_names_that_the_terminal_cannot_write_do_not_stop_a_command(workplace):
    (workplace / "runs" / "radio").rename(workplace / "runs" / "rádio")
    # UTF-8 for the names of files, ASCII for what is written.
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    done = run_vbs(workplace, "status", "--run", "runs/rádio", env=env)
    assert done.code == 0, done.err
    assert done.out.startswith(r"runs/r\xe1dio: ")
