"""A network small enough to be measured in a moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from vbs_cli.bench import BenchNetwork


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Here and in workers: on a machine with other work, threads that wait for each other take seconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def network() -> BenchNetwork:
    return BenchNetwork("conv1d-radio", shape=(2, 400), classes=5, width=8, dropout=0.5, kernel=3)
