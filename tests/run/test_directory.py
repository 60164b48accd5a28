"""Finding, opening and locking runs."""

import os
import stat
import time
from dataclasses import replace

import pytest

from tests.conftest import SMALL
from vbs_cli import TemperatureScaling, VarianceSmoothing, open_run
from vbs_cli.errors import Busy, MissingArtifact, VbsError
from vbs_cli.run import Run, Store, find_run, layout, locked
from vbs_cli.settings import to_toml


def test_an_opened_run_gives_tables_logits_and_fitted_methods(made):
    run = open_run(str(made / "runs" / "radio"))
    assert run.settings == SMALL
    assert list(run.metrics.columns) == ["dataset", "source", "seed", "method", "noise", "level", "metric", "value"]
    expected = ["dataset", "source", "seed", "method", "bin", "lower", "upper", "count", "accuracy", "confidence"]
    assert list(run.reliability.columns) == expected
    assert run.logits(0).logits.shape == (70, 4)
    assert run.logits(1, "val", view="draws").parts.shape == (60, 4, 3)
    assert run.logits(0, noise="speckle", level=0.5).parts is None
    methods = run.methods[1]
    assert isinstance(methods["temperature"], TemperatureScaling)
    assert isinstance(methods["vbs"], VarianceSmoothing)
    assert isinstance(methods["vbs"].beta, float)


def test_the_training_table_is_that_of_the_run_s_seeds(workplace):
    run = open_run(workplace / "runs" / "radio")
    assert set(run.training["seed"]) == {0, 1}
    assert set(replace(run, settings=replace(SMALL, seeds=1)).training["seed"]) == {0}


def test_a_run_without_training_names_the_command(tmp_path):
    (tmp_path / "run.toml").write_bytes(to_toml(SMALL))
    with pytest.raises(MissingArtifact, match="vbs train"):
        open_run(tmp_path).training  # noqa: B018


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(MissingArtifact, match="no run at"):
        open_run(tmp_path)


def test_the_latest_run_is_the_one_worked_on_last(workplace):
    runs = workplace / "runs"
    assert find_run(runs) == runs / "radio"
    (runs / "other").mkdir()
    (runs / "other" / "run.toml").write_text("")
    later = time.time() + 5
    os.utime(runs / "other" / "run.toml", (later, later))
    assert find_run(runs) == runs / "other"
    assert find_run(runs, "radio") == runs / "radio"
    assert find_run(runs, str(runs / "radio")) == runs / "radio"
    assert find_run(workplace / "nowhere") is None


def test_the_second_process_is_told_who_is_first(tmp_path):
    run = Run(tmp_path, SMALL, Store(tmp_path))
    with locked(run), pytest.raises(Busy, match=f"in use by process {os.getpid()}"), locked(run):
        pass
    with locked(run):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_refused_before_any_work(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(VbsError, match="cannot write"), locked(Run(tmp_path, SMALL, Store(tmp_path))):
        pass


@pytest.mark.parametrize(
    ("level", "label"), [(0.5, "0.50"), (1.0, "1.00"), (0.052632, "0.052632"), (0.0, "0.00"), (0.011864, "0.011864")]
)
def test_levels_have_names_that_never_collide(level, label):
    assert layout.level_label(level) == label
