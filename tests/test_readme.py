"""The README shows what was measured, not what somebody typed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PUBLISHED = ROOT / "runs" / "published"
MEAN = "mean over levels"


def rows(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]


def of_run(name):
    """Rows of the published run that `vbs run` shows: clean data, and means over the levels of each noise."""
    return [row for row in rows(PUBLISHED / "radio" / name) if row[0] == "clean" or row[0].endswith(MEAN)]


def test_the_transcript_shows_the_published_results():
    results = of_run("results.md")
    assert len(results) == 3 * 4
    for condition, method, *scores in results:
        assert condition.replace(MEAN, "mean over 4 levels, 3 seeds") in README
        assert re.search(r"\s+".join(map(re.escape, [method, *scores])), README), (condition, method)


def test_the_transcript_shows_the_published_differences():
    differences = of_run("differences.md")
    assert len(differences) == 3 * 3
    for _, method, *scores in differences:
        assert re.search(r"\s+".join(map(re.escape, [method, *scores])), README), method


TABLES = ["bench.md", "scaling.md", "kernels.md", "training.md", "sweep.md"]


@pytest.mark.parametrize("name", [*TABLES, "librispeech/ensemble-study.md"])
def test_tables_stand_as_they_were_published(name):
    lines = (PUBLISHED / name).read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) >= 5
    assert all(line in README.splitlines() for line in table)


def costs(name):
    """Of a published bench, by method and variant."""
    found = [row for row in rows(PUBLISHED / name) if row[1] in ("paper", "vbs")]
    return {(row[0], row[1]): row[2:] for row in found[: len(found) // 2]}


def test_the_papers_costs_stand_beside_those_that_were_measured():
    measured = costs("bench.md")
    told = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in README.splitlines() if " GB | " in line}
    assert list(told) == ["conventional", "temperature", "vbs", "mc-dropout", "ensemble"]
    for method, line in told.items():
        (_, peak, summed, *_, flops), (_, less, _, _, time, _, fewer) = (measured[method, v] for v in ("paper", "vbs"))
        assert line[4:] == [summed, peak, flops, less, fewer, f"{time} |"], method


def test_two_benches_agree():
    """Memory and FLOPs to a few percent; of the times, what the README says of both."""
    first, again = costs("bench.md"), costs("bench-again.md")
    for name, one in first.items():
        other = again[name]
        assert float(one[6]) == float(other[6]), name
        assert float(one[1]) == pytest.approx(float(other[1]), rel=0.3, abs=0.01), name
        if name in [("vbs", "paper"), ("vbs", "vbs"), ("mc-dropout", "vbs"), ("ensemble", "vbs")]:
            assert f"{name[0]} ({name[1]}) {one[4]} and {other[4]}" in README


@pytest.mark.parametrize(
    ("title", "folder", "suite"),
    [
        ("images, CIFAR-10", "cifar10", "images"),
        ("radio captures", "radio-captures", "radio"),
        ("speech", "speech", "speech"),
    ],
)
def test_scores_over_suites_stand_as_they_were_published(title, folder, suite):
    text = (PUBLISHED / "suites" / folder / f"suite-{suite}.md").read_text(encoding="utf-8")
    found = [line.strip("| ").split(" | ") for line in text.split("\n\n")[1].splitlines()[2:]]
    names = ("conventional", "temperature", "vbs", "mc-dropout", "ensemble", "vbs-ensemble")
    for word, column in (("mean", 4), ("worst", 7)):
        scores = {method: line[column - 1] for method, *line in found}
        shown = " | ".join(scores.get(name, "-") for name in names)
        assert f"| {title} | {word} ECE | {shown} |" in README.splitlines()


def test_the_bench_of_noises_is_told_as_it_was_published():
    found = [(row[0], row[2], float(row[5])) for row in rows(PUBLISHED / "noise.md")]
    images = [ratio for _, rival, ratio in found if "by image" in rival]
    signals = [ratio for _, rival, ratio in found if "by example" in rival]
    shares = [100 / ratio for name, _, ratio in found if name.startswith("suite")]
    assert f"images are {min(images):.0f} to {max(images):.0f} times as fast" in README
    assert f"sounds and radio signals {min(signals):.1f} to {max(signals):.0f} times" in README
    assert f"{min(shares):.1f} to {max(shares):.1f} % of the time of the passes" in README


@pytest.mark.parametrize("folder", ["radio", "radio-captures", "librispeech", "cifar10"])
def test_what_the_spread_tells_stands_as_it_was_published(folder):
    told = [row for row in rows(PUBLISHED / folder / "spread.md") if row[1] == "patches"]
    assert len(told) >= 2
    for row in told:
        assert f" | {' | '.join(row)} |\n" in README, row


def test_every_picture_and_file_that_the_readme_names_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_commands_of_the_front_door_are_there():
    assert "\npip install . && vbs run\n" in README
    assert "\npip install '.[test]' && pytest\n" in README
