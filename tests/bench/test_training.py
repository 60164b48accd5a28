"""The bench of training: its rival learns the same, with torch's own parts."""

import json
import multiprocessing
import re
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from vbs_cli.bench import BenchNetwork, training
from vbs_cli.bench.training import Lesson, Ours, Plain, bench_training, losses_apart, with_torch_dropout
from vbs_cli.errors import VbsError
from vbs_cli.models.dropout import Dropout
from vbs_cli.protocols import protocol
from vbs_cli.report.costs import KERNEL_COLUMNS
from vbs_cli.stages import bench as bench_stage

COLUMNS = ["kernel", "size", "rival", "ours_ms", "rival_ms", "ratio", "max_diff"]
NETWORKS = {
    "conv1d-radio": BenchNetwork("conv1d-radio", (2, 400), classes=5, width=8, dropout=0.5, kernel=3),
    "conv1d-speech": BenchNetwork("conv1d-speech", (1, 1280), classes=5, width=8, dropout=0.5, kernel=3),
    "nin": BenchNetwork("nin", (3, 16, 16), classes=5, width=8, dropout=0.5, kernel=1),
}


def lesson(model="conv1d-radio", *, dropout=False):
    return Lesson("tiny", NETWORKS[model], dropout, batch=6, lr=3e-3, weight_decay=5e-4, steps=3)


@pytest.fixture
def few_repeats(monkeypatch):
    monkeypatch.setattr(training, "REPEATS", 1)


@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("model", NETWORKS)
def test_from_the_same_start_both_loops_have_the_same_loss(model, dropout):
    assert losses_apart(lesson(model, dropout=dropout)) < 1e-3


def test_the_comparison_of_losses_would_notice_another_learning_rate():
    order = lesson().order(1)
    other = Plain(replace(lesson(), lr=1e-1))
    assert abs(Ours(lesson()).over(order) - other.over(order)) > 1e-2


@pytest.mark.parametrize("side", [Ours, Plain])
def test_both_sides_learn(side):
    pupil = side(lesson())
    losses = [pupil.epoch() for _ in range(12)]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(("model", "dropout"), [("conv1d-radio", True), ("nin", False), ("nin", True)])
def test_torchs_dropout_takes_every_place_of_ours(model, dropout):
    ours = lesson(model, dropout=dropout).build()
    plain = with_torch_dropout(ours)
    places = [(name, module.p) for name, module in ours.named_modules() if isinstance(module, Dropout)]
    assert places
    assert [(name, m.p) for name, m in plain.named_modules() if isinstance(m, nn.Dropout)] == places
    assert not any(isinstance(module, Dropout) for module in plain.modules())
    assert plain.state_dict().keys() == ours.state_dict().keys()


def test_dropout_is_on_while_either_side_is_timed():
    """With it an epoch over the same batches has another loss than without."""
    torch.manual_seed(0)  # of torch's dropout
    taught = lesson(dropout=True)
    still = Ours(taught).over(taught.order(1))
    rounding = 1e-5
    assert abs(Ours(taught).epoch() - still) > rounding
    plain = Plain(taught)
    assert abs(plain.over(taught.order(1)) - still) > rounding
    assert plain.model.training


def test_rows_are_those_of_the_kernels_bench_with_the_speed_of_both(few_repeats):
    steps = []
    before = torch.get_num_threads()
    (row,) = bench_training([lesson()], advance=steps.append)
    assert steps == [1]
    assert list(row) == COLUMNS
    assert (row["kernel"], row["rival"]) == ("tiny", "plain loop")
    ours, theirs = re.fullmatch(r"([\d,]+) and ([\d,]+) examples/s", row["size"]).groups()
    for speed, time in ((ours, row["ours_ms"]), (theirs, row["rival_ms"])):
        assert int(speed.replace(",", "")) == round(1e3 * 18 / time)
    assert row["max_diff"] < 1e-3
    assert torch.get_num_threads() == before


def test_a_network_learns_in_a_process_what_it_learns_here_and_the_end_of_the_process_is_an_error(monkeypatch):
    monkeypatch.setattr(training, "TOGETHER", 1)  # each costs seconds to start
    here = Ours(lesson())
    with training.side_by_side(lesson()) as epoch:
        for _ in range(2):
            assert epoch() == pytest.approx([here.epoch()])
        multiprocessing.active_children()[0].kill()
        with pytest.raises(VbsError, match="a process that trains tiny ended"):
            epoch()
    assert not multiprocessing.active_children()


def test_the_lessons_are_both_networks_of_each_quick_profile():
    found = bench_stage.lessons()
    assert [each.name for each in found] == [
        f"{dataset} {kind}"
        for dataset in ("radio", "librispeech", "cifar10")
        for kind in ("conventional", "MC-dropout")
    ]
    for each in found:
        quick = protocol(each.name.split()[0], "quick")
        assert (each.network.model, each.network.width, each.batch) == (quick.model, quick.width, quick.batch)
        assert (each.lr, each.weight_decay) == (quick.lr, quick.weight_decay)
        assert each.dropout == any(module.p == quick.dropout for module in after_relus(each.build()))


def after_relus(model):
    """The dropouts that only the MC-dropout variants have."""
    layers = list(model)
    return [b for a, b in pairwise(layers) if isinstance(a, nn.ReLU) and isinstance(b, Dropout)]


def test_the_command_speaks_markdown_and_json(tmp_path, vbs, few_repeats, monkeypatch):
    taught = [replace(lesson(), name="radio conventional"), replace(lesson(dropout=True), name="radio MC-dropout")]
    monkeypatch.setattr(bench_stage, "lessons", lambda: taught)
    monkeypatch.setattr(training, "side_by_side", in_this_process)
    done = vbs(tmp_path, "bench", "training", "-q", "--markdown")
    assert done.code == 0, done.err
    head, _, *rows = done.out.strip().splitlines()
    assert head == f"| {' | '.join(KERNEL_COLUMNS)} |"
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [
        "radio conventional",
        "radio MC-dropout",
        "2 x radio conventional",
        "2 x radio MC-dropout",
    ]
    assert all("| plain in turn, threads: 1 |" in row for row in rows[2:])
    found = json.loads(vbs(tmp_path, "bench", "training", "-q", "--json").out)["rows"]
    assert all(list(row) == COLUMNS for row in found)


@contextmanager
def in_this_process(taught):
    """One after another; another test has the real processes."""
    pupils = [Ours(taught) for _ in range(training.TOGETHER)]
    yield lambda: [pupil.epoch() for pupil in pupils]
