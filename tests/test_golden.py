"""Results do not change unless the revision of their code does; else old runs would pass for current ones."""

import pytest

from tests.golden import every
from vbs_cli.metrics import METRICS, Metric

EVERY = {each.name: each for each in every()}
RECORD = "python -m tests.golden records it"


@pytest.mark.parametrize("name", EVERY)
def test_results_are_those_of_the_recorded_revision(name):
    golden = EVERY[name]
    remembered = golden.remembered
    if remembered is None:
        pytest.skip(f"{name} is new; {RECORD}")
    assert remembered["revision"] == golden.revision, f"{name} has another revision; {RECORD}"
    assert golden.same(remembered["numbers"]), f"results of {name} changed: raise its revision where it is registered"


def test_a_metric_that_gives_something_else_under_its_old_revision_is_noticed(monkeypatch):
    brier = METRICS["brier"]
    golden = EVERY["metric brier"]
    assert golden.same(golden.remembered["numbers"])
    broken = Metric(lambda predictions: brier(predictions) + 100, brier.better)
    monkeypatch.setitem(METRICS._entries, "brier", broken)
    assert not golden.same(golden.remembered["numbers"])
