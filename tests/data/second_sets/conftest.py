"""Fixtures of second test sets."""

import pytest

from tests.fixtures.datasets import (
    CLASSES,
    prepared,
    write_images,
)
from vbs_cli.data.shifted import prepare_shifted


@pytest.fixture
def shifted(tmp_path):
    """Prepare what lies in `second`, or elsewhere, as a test set `phone` of a base."""

    def go(base, origin=None, name="phone", **options):
        return prepare_shifted(tmp_path / "data", base, origin or tmp_path / "second", name, **options)

    return go


@pytest.fixture
def second(tmp_path):
    (tmp_path / "second").mkdir()
    return tmp_path / "second"


@pytest.fixture
def images(tmp_path):
    """Base of images in three classes."""
    write_images(tmp_path / "own", CLASSES)
    return prepared(tmp_path, "folder", tmp_path / "own")
