"""The README shows what was measured, not what somebody typed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PUBLISHED = ROOT / "runs" / "published"


def rows(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]


def test_the_transcript_shows_the_published_results():
    results = rows(PUBLISHED / "radio" / "results.md")
    assert len(results) == 3 * 4
    for condition, method, *scores in results:
        assert condition in README
        assert re.search(r"\s+".join(map(re.escape, [method, *scores])), README), (condition, method)


def test_the_table_of_costs_stands_as_it_was_published():
    assert (PUBLISHED / "radio" / "costs.md").read_text(encoding="utf-8").strip() in README


def test_every_picture_and_file_that_the_readme_names_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_commands_of_the_front_door_are_there():
    assert "\npip install . && vbs run\n" in README
    assert "\npip install '.[test]' && pytest\n" in README
