"""A batch that does not fit is refused before anything runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from vbs_cli.bench import BenchNetwork, estimate
from vbs_cli.bench.estimate import check_memory, dry_run
from vbs_cli.errors import InvalidInput, UnknownName, VbsError


def test_the_dry_run_finds_the_largest_layer(network: BenchNetwork) -> None:
    footprint = dry_run(network)
    first = 4 * network.width * ((400 + 2 * 2 - 10) // 5 + 1)  # what the first convolution returns
    assert footprint.example == 4 * 2 * 400
    assert footprint.layer == footprint.example + first
    assert dry_run(replace(network, width=64)).layer == 2 * 8 * first  # BatchNorm: as much in as out


def test_the_need_grows_with_the_batch_and_the_copies(network: BenchNetwork) -> None:
    footprint = dry_run(network)
    once = footprint.needed(10) - footprint.weights
    assert footprint.needed(20) - footprint.weights == 2 * once
    assert footprint.needed(10, copies=10) > 8 * once
    assert footprint.needed(10, networks=10) - footprint.needed(10) == 9 * footprint.weights


def test_a_batch_that_cannot_fit_names_the_option(network: BenchNetwork) -> None:
    with pytest.raises(VbsError, match=r"mc-dropout \(paper\) on a batch of 1000000000000 .*--batch"):
        check_memory(network, batch=10**12, draws=10, members=10, device="cpu")


def test_a_batch_that_fits_passes(network: BenchNetwork) -> None:
    check_memory(network, batch=1, draws=2, members=2, device="cpu")


def test_the_limit_of_a_container_counts(
    network: BenchNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("999000\n")
    monkeypatch.setattr(estimate, "CGROUP", tmp_path)
    assert estimate.available_bytes("cpu") == 1000
    with pytest.raises(VbsError, match=r"1\.0 kB are free"):
        check_memory(network, batch=1, draws=2, members=2, device="cpu")


@pytest.mark.parametrize("limit", [None, "max"])
def test_no_limit_is_no_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str | None) -> None:
    if limit:
        (tmp_path / "memory.max").write_text(limit)
        (tmp_path / "memory.current").write_text("5")
    monkeypatch.setattr(estimate, "CGROUP", tmp_path)
    assert estimate.free_of_container() == math.inf


def test_a_network_that_cannot_run_is_refused_too(network: BenchNetwork) -> None:
    with pytest.raises(InvalidInput, match="kernel 500 is longer"):
        check_memory(replace(network, kernel=500), batch=1, draws=2, members=2, device="cpu")
    with pytest.raises(UnknownName, match="conv1d-radio"):
        check_memory(replace(network, model="conv1d-radios"), batch=1, draws=2, members=2, device="cpu")
