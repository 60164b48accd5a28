"""What the tests of the stages share."""

import pytest

from vbs_cli import forward
from vbs_cli.models import training


@pytest.fixture
def no_network(monkeypatch):
    """Any forward pass fails the test."""

    def refuse(*_, **__):
        raise AssertionError("a network ran")

    monkeypatch.setattr(forward, "run_patches", refuse)
    monkeypatch.setattr(forward, "run_draws", refuse)
    monkeypatch.setattr(training, "train", refuse)
