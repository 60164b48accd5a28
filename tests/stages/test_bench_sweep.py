"""The bench of sweeps: what it compares is the same work, and the run is left alone."""

import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.conftest import SMALL
from tests.fixtures.jobs import hashes, job_in
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.report.costs import KERNEL_COLUMNS, kernel_lines
from vbs_cli.stages.bench_sweep import Stopwatch, bench_sweep, pass_per_score
from vbs_cli.stages.calibrate import calibrate


def test_both_ways_give_the_same_scores_and_the_run_is_left_alone(workplace):
    before = hashes(workplace)
    rows = bench_sweep(job_in(workplace), levels=3)
    assert hashes(workplace) == before
    assert [row["kernel"] for row in rows] == ["a level of a seed", "noise, caching, metrics", "another alpha"]
    assert rows[0]["max_diff"] < 1e-9
    assert all(row["ratio"] == pytest.approx(row["rival_ms"] / row["ours_ms"]) for row in rows)
    assert rows[1]["rival_ms"] > rows[1]["ours_ms"]  # some of the time was spent in networks
    assert all(len(line) == len(KERNEL_COLUMNS) for line in kernel_lines(rows))


def test_the_other_way_runs_the_network_for_every_method_and_score(workplace):
    job = job_in(workplace)
    passes = []

    def count(module, inputs):
        if isinstance(module, nn.Conv2d) and module.in_channels == 2 and not inputs[0].is_meta:
            passes.append(len(inputs[0]))

    hook = nn.modules.module.register_module_forward_pre_hook(count)
    scores, _ = pass_per_score(job, calibrate(job), "gaussian", 0.5)
    hook.remove()
    assert len(scores) == 4 * 6
    assert sum(passes) == 4 * 6 * 70


def test_a_stopwatch_tells_networks_from_the_rest():
    class Slow(nn.Module):
        def forward(self, x):
            time.sleep(0.02)
            return x

    watch = Stopwatch()
    with watch.running():
        nn.Sequential(Slow(), nn.Sequential(Slow()))(torch.ones(1))
        time.sleep(0.02)
    inside, outside = watch.networks, watch.whole - watch.networks
    assert inside >= 0.04
    assert outside >= 0.02
    Slow()(torch.ones(1))
    assert watch.networks == inside  # no hook stays behind


def test_what_cannot_be_measured_is_refused(workplace):
    with pytest.raises(InvalidInput, match="vbs is not among the run's methods"):
        bench_sweep(job_in(workplace, replace(SMALL, methods=("conventional",))))
    (workplace / "runs/radio/seed-0/conventional.safetensors").unlink()
    with pytest.raises(MissingArtifact, match="vbs train"):
        bench_sweep(job_in(workplace))
