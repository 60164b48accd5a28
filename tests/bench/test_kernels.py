"""The kernels' bench: its rivals compute the same thing, and one that is missing is left out."""

import math

import pytest
import torch

from vbs_cli import score
from vbs_cli.bench import kernels
from vbs_cli.bench.kernels import Duel, bench_kernels
from vbs_cli.report.costs import KERNEL_COLUMNS, kernel_lines


@pytest.fixture
def sample():
    logits, labels = kernels.overconfident(640, 7)
    return logits.double().softmax(1), labels


@pytest.mark.parametrize("rival", [kernels.torchmetrics_scores, kernels.probmetrics_scores])
def test_libraries_score_what_we_score(sample, rival):
    assert kernels.largest_gap([score(*sample)], [rival(*sample)]) < 1e-6


def test_batches_score_what_we_score_but_for_the_bias_of_their_ece(sample):
    ours, theirs = score(*sample), kernels.batchwise_scores(*sample)
    assert theirs.pop("ece") > ours.pop("ece") + 0.02
    assert theirs == pytest.approx(ours, rel=1e-9)


def test_netcal_has_our_ece(sample):
    assert kernels.netcal_ece(*(tensor.numpy() for tensor in sample)) == pytest.approx(score(*sample)["ece"])


def test_probmetrics_has_our_temperature():
    logits, labels = kernels.overconfident(500, 5)
    assert kernels.probmetrics_temperature(logits, labels)[0] == pytest.approx(
        kernels.fit_temperature(logits, labels)[0], rel=1e-5
    )


def test_the_formula_has_our_sigma_bar():
    z = torch.randn(3, 4, 20)
    assert kernels.furthest(kernels.sigma_bar(z, kernel=5), kernels.pool_then_std(z, 5)) < 1e-6


def duel(needs, max_diff):
    return Duel("sum", "2", "python", needs, lambda: 3.0, lambda: sum([1.0, 2.0]), max_diff)


def test_rows_tell_times_ratio_and_how_far_the_results_lie_apart():
    seen = []
    found = list(bench_kernels([duel("math", lambda a, b: abs(a - b))], advance=seen.append))
    assert seen == [1]
    row = found[0]
    assert (row["kernel"], row["size"], row["rival"], row["max_diff"]) == ("sum", "2", "python", 0.0)
    assert row["ratio"] == pytest.approx(row["rival_ms"] / row["ours_ms"])


def test_a_rival_that_is_not_installed_and_results_that_cannot_be_compared_are_shown_as_dashes():
    rows = list(bench_kernels([duel("no_such_module", kernels.unlike), duel("math", kernels.unlike)]))
    assert rows[0]["ratio"] is None
    assert math.isnan(rows[1]["max_diff"])
    lines = [dict(zip(KERNEL_COLUMNS, line, strict=True)) for line in kernel_lines(rows)]
    assert [line["ratio"] == "-" for line in lines] == [True, False]
    assert [line["max diff"] for line in lines] == ["-", "-"]


def test_the_duels_have_the_sizes_of_the_papers_datasets():
    sizes = {(each.kernel, each.size) for each in kernels.duels()}
    assert ("temperature fit", "9,900 x 20") in sizes
    assert ("temperature fit", "2,854 x 251") in sizes
    assert ("six scores", "20 x 20,100 x 20") in sizes
    assert ("sigma_bar", "32 x 251 x 128, window 40") in sizes
