"""`vbs bench`: which network it measures, where the table goes, and how it is shown."""

import json

import pandas as pd
import pytest

from vbs_cli.bench import COLUMNS, CONTENDERS, compare, scaling
from vbs_cli.bench.kernels import Duel
from vbs_cli.bench.worker import Worker
from vbs_cli.report.costs import COST_COLUMNS, KERNEL_COLUMNS
from vbs_cli.run import Recipe, Store
from vbs_cli.run.formats import table_bytes
from vbs_cli.stages import bench as bench_stage

QUICKLY = ("--batch", "4", "--draws", "2", "--members", "2", "--repeats", "1", "-q")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """tests/bench/test_compare.py has the real processes."""
    monkeypatch.setattr(compare, "Remote", Worker)
    monkeypatch.setattr(scaling, "Remote", Worker)


def rows_of(done):
    assert done.code == 0, done.err
    return json.loads(done.out)["rows"]


def test_the_network_of_the_run_is_measured_and_its_settings_are_left_alone(workplace, vbs):
    before = (workplace / "runs/radio/run.toml").read_bytes()
    rows = rows_of(vbs(workplace, "bench", *QUICKLY, "--json"))
    assert [(row["method"], row["variant"]) for row in rows] == [(each.method, each.variant) for each in CONTENDERS]
    assert tuple(rows[0]) == COLUMNS
    assert (workplace / "runs/radio/run.toml").read_bytes() == before
    table = pd.read_parquet(workplace / "runs/radio/bench.parquet")
    assert set(table["dataset"]) == {"radio"}
    assert table["flops"].tolist() == [row["flops"] for row in rows]


def test_without_a_run_it_is_the_papers_network_for_cifar10(tmp_path, vbs, monkeypatch):
    seen = []
    monkeypatch.setattr(bench_stage, "bench", lambda network, **options: seen.append((network, options)) or [])
    assert vbs(tmp_path, "bench", "-q").code == 0
    [(network, options)] = seen
    assert (network.model, network.shape, network.classes, network.width) == ("nin", (3, 32, 32), 10, 192)
    assert (options["batch"], options["draws"], options["members"]) == (128, 10, 10)


def test_flags_describe_another_network_and_its_table_lies_beside_the_runs(workplace, vbs):
    done = vbs(workplace, "bench", *QUICKLY[:-1], "--dataset", "cifar10", "--width", "4")
    assert done.code == 0, done.err
    assert "nin of width 4 for inputs of 3 x 32 x 32 and 10 classes, batches of 4, cpu" in done.out
    assert "saved: runs/bench.parquet" in done.err
    table = pd.read_parquet(workplace / "runs/bench.parquet")
    assert set(table["dataset"]) == {"cifar10"}
    assert not (workplace / "runs/radio/bench.parquet").exists()
    both = vbs(workplace, "bench", "--run", "radio", "--dataset", "cifar10")
    assert (both.code, "leave out --dataset" in both.err) == (2, True)


def test_one_of_torchvisions_networks_is_measured_at_another_size(tmp_path, vbs):
    done = vbs(tmp_path, "bench", *QUICKLY, "--model", "resnet18", "--size", "64")
    assert done.code == 0, done.err
    assert "resnet18 for inputs of 3 x 64 x 64" in done.out


def test_the_tables_are_shown_with_what_they_mean(workplace, vbs):
    done = vbs(workplace, "bench", *QUICKLY)
    assert done.out.count("conventional  paper") == 2
    for said in ("as the paper did", "GFLOP/s here", "trace of its allocations"):
        assert said in done.out
    assert max(map(len, done.out.splitlines()[:14])) <= 120


def test_tables_for_a_page_and_for_a_paper(workplace, vbs):
    markdown = vbs(workplace, "bench", *QUICKLY, "--markdown").out
    assert f"| {' | '.join(COST_COLUMNS)} |" in markdown
    latex = vbs(workplace, "bench", *QUICKLY, "--latex").out
    assert latex.count(r"\begin{tabular}{ll") == latex.count(r"\end{tabular}") == 2
    assert "method & variant & memory & ratio" in latex
    assert r"conventional & paper &" in latex


def test_scaling_shows_costs_and_the_powers_by_which_they_grow(workplace, vbs, monkeypatch):
    monkeypatch.setattr(scaling, "BATCHES", (2, 4))
    monkeypatch.setattr(scaling, "CLASSES", (10, 20))
    monkeypatch.setattr(scaling, "SIZES", (1, 2))
    monkeypatch.setattr(scaling, "DRAWS", (2, 4))
    done = vbs(workplace, "bench", "--scaling", *QUICKLY)
    assert done.code == 0, done.err
    assert "grows with" in done.out
    found = json.loads(vbs(workplace, "bench", "--scaling", *QUICKLY, "--json").out)
    assert len(found["rows"]) == 8
    assert [row["against"] for row in found["exponents"]] == ["batch", "classes", "patches", "draws"]
    assert not (workplace / "runs/radio/bench.parquet").exists()


def test_a_table_of_an_earlier_version_is_measured_again_instead_of_shown(workplace, vbs):
    assert vbs(workplace, "bench", *QUICKLY).code == 0
    assert "figures/cost.svg" in vbs(workplace, "plot").out
    table = pd.read_parquet(workplace / "runs/radio/bench.parquet")[["method", "variant", "memory_bytes"]]
    Store(workplace / "runs/radio").write("bench.parquet", table_bytes(table), Recipe("bench", {"batch": 4}))
    assert "bench.parquet is of an earlier version; vbs bench makes it again" in vbs(workplace, "plot").out
    assert vbs(workplace, "report").code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--batch", "0"), 2, "--batch"),
        (("--members", "1"), 2, "--members"),
        (("--batch", "1000000000"), 1, "of memory, and"),
        (("--device", "cuda"), 1, "no cuda device"),
        (("--device", "abacus"), 1, "no abacus device"),
        (("--dataset", "cifar"), 2, "did you mean 'cifar10'?"),
        (("--model", "resnet18"), 2, "a single patch"),
    ],
)
def test_bad_use_gets_one_line_with_the_cure(tmp_path, vbs, words, code, message):
    done = vbs(tmp_path, "bench", *words)
    assert (done.code, message in done.err) == (code, True), done.err
    assert not (tmp_path / "runs").exists()


def test_bench_of_methods_needs_no_run_and_speaks_markdown(tmp_path, vbs, monkeypatch):
    few = [Duel("sum", "2", "python", "math", lambda: 3.0, lambda: sum([1.0, 2.0]), lambda a, b: abs(a - b))]
    monkeypatch.setattr(bench_stage, "duels", lambda: few)
    done = vbs(tmp_path, "bench", "methods", "-q", "--markdown")
    assert done.out.strip().splitlines()[:2] == [
        f"| {' | '.join(KERNEL_COLUMNS)} |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    row = json.loads(vbs(tmp_path, "bench", "methods", "-q", "--json").out)["rows"][0]
    assert set(row) == {"kernel", "size", "rival", "ours_ms", "rival_ms", "ratio", "max_diff"}
    wrong = vbs(tmp_path, "bench", "method")
    assert (wrong.code, wrong.err) == (2, "error: unknown bench 'method'; did you mean 'methods'?\n")
