"""The README shows what was measured, not what somebody typed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PUBLISHED = ROOT / "runs" / "published"


@pytest.mark.parametrize("path", sorted(PUBLISHED.rglob("*.md")), ids=lambda path: path.name)
def test_published_tables_stand_in_the_readme_as_they_are(path):
    assert path.read_text(encoding="utf-8").strip() in README


def test_there_are_published_tables():
    assert list(PUBLISHED.rglob("*.md"))


def test_every_picture_and_file_that_the_readme_names_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_commands_of_the_front_door_are_there():
    assert "\npip install . && vbs run\n" in README
    assert "\npip install '.[test]' && pytest\n" in README
