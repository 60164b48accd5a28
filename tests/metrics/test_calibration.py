"""Calibration errors against netcal, torchmetrics, probmetrics and verified calibration, and against chance itself."""

import math

import calibration as verified
import netcal.metrics
import numpy as np
import pytest
import torch
import torchmetrics.functional.classification as tm
from probmetrics.metrics import Metrics
from scipy.stats import binom, poisson_binom

from tests.metrics.samples import predictions
from vbs_cli import score
from vbs_cli.metrics import METRICS, scored
from vbs_cli.metrics.calibration import mean_deviation
from vbs_cli.metrics.reliability import equal_mass


@pytest.mark.parametrize("sharp", [0.2, 2.0, 8.0])
def test_ece_agrees_with_netcal_torchmetrics_and_probmetrics(sharp):
    probs, labels = predictions(sharp=sharp)
    ours = score(probs, labels)["ece"]
    assert ours == pytest.approx(netcal.metrics.ECE(bins=15).measure(probs.numpy(), labels.numpy()), abs=1e-9)
    assert ours == pytest.approx(float(tm.multiclass_calibration_error(probs, labels, 6, n_bins=15)), abs=1e-6)
    theirs = Metrics.from_names(["ece-15"]).compute_all_from_labels_probs(labels, probs)
    assert ours == pytest.approx(float(theirs["ece-15"]), abs=1e-6)


@pytest.mark.parametrize("sharp", [0.2, 2.0, 8.0])
def test_mce_agrees_with_netcal_and_torchmetrics(sharp):
    probs, labels = predictions(sharp=sharp)
    ours = score(probs, labels, metrics=["mce"])["mce"]
    assert ours == pytest.approx(netcal.metrics.MCE(bins=15).measure(probs.numpy(), labels.numpy()), abs=1e-9)
    assert ours == pytest.approx(
        float(tm.multiclass_calibration_error(probs, labels, 6, n_bins=15, norm="max")), abs=1e-6
    )


@pytest.mark.parametrize("sharp", [0.2, 2.0, 8.0])
def test_classwise_ece_is_the_mean_of_torchmetrics_binary_one_over_classes(sharp):
    probs, labels = predictions(sharp=sharp)
    each = [tm.binary_calibration_error(probs[:, k], (labels == k).long(), n_bins=15) for k in range(6)]
    assert score(probs, labels, metrics=["ece_class"])["ece_class"] == pytest.approx(float(np.mean(each)), abs=1e-6)


@pytest.mark.parametrize("sharp", [0.2, 2.0])
def test_equal_mass_ece_agrees_with_netcal(sharp):
    probs, labels = predictions(n=600, sharp=sharp)
    theirs = netcal.metrics.ECE(bins=15, equal_intervals=False).measure(probs.numpy(), labels.numpy())
    assert score(probs, labels, metrics=["ece_mass"])["ece_mass"] == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("sharp", [0.2, 2.0, 8.0])
@pytest.mark.parametrize("honest", [True, False])
def test_debiased_ece_agrees_with_verified_calibration(sharp, honest):
    probs, labels = predictions(sharp=sharp, honest=honest)
    right = (probs.argmax(1) == labels).double()
    data = list(zip(probs.amax(1).tolist(), right.tolist(), strict=True))
    bins = verified.get_equal_prob_bins(probs.amax(1).tolist(), num_bins=15)
    filled = [each for each in verified.bin(data, bins) if len(each) > 0]
    ours = score(probs, labels, metrics=["ece_debiased"])["ece_debiased"]
    assert ours == pytest.approx(verified.unbiased_l2_ce(filled), abs=1e-9)


def test_a_confidence_of_one_falls_in_the_last_bin_where_torchmetrics_opens_one_of_its_own():
    probs = torch.tensor([[1.0, 0.0], [0.97, 0.03]], dtype=torch.float64)
    labels = torch.tensor([1, 0])
    # one bin: accuracy 0.5 against a mean confidence of 0.985
    ours = score(probs, labels, metrics=["ece", "mce"])
    assert ours == {"ece": pytest.approx(0.485), "mce": pytest.approx(0.485)}
    assert ours["ece"] == pytest.approx(netcal.metrics.ECE(bins=15).measure(probs.numpy(), labels.numpy()))
    # two bins: |0 - 1| / 2 + |1 - 0.97| / 2
    assert float(tm.multiclass_calibration_error(probs, labels, 2, n_bins=15)) == pytest.approx(0.515)


def test_ece_is_over_the_whole_set_not_a_mean_over_batches():
    probs, labels = predictions(n=640)
    batches = [score(probs[i : i + 64], labels[i : i + 64])["ece"] for i in range(0, 640, 64)]
    assert score(probs, labels)["ece"] < np.mean(batches) - 0.01


def test_empty_bins_weigh_nothing():
    probs = torch.tensor([[0.9, 0.1]] * 10, dtype=torch.float64)
    labels = torch.tensor([0] * 9 + [1])
    names = ["ece", "mce", "ece_mass", "ece_debiased"]
    assert score(probs, labels, metrics=names) == {name: pytest.approx(0, abs=1e-9) for name in names}


def test_equal_mass_bins_hold_equally_many_and_keep_ties_together():
    values = torch.rand(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    counts = torch.bincount(torch.bucketize(values, equal_mass(values, 10)[1:-1]), minlength=10)
    assert counts.tolist() == [100] * 10
    certain = torch.ones(100, dtype=torch.float64)
    assert torch.bucketize(certain, equal_mass(certain, 10)[1:-1]).unique().numel() == 1


@pytest.mark.parametrize("metric", ["ece", "ece_mass", "ece_class"])
@pytest.mark.parametrize(("n", "sharp"), [(30, 1.0), (300, 0.2), (300, 2.0), (300, 8.0), (3000, 4.0)])
def test_chance_is_what_labels_drawn_from_the_predictions_score_on_average(metric, n, sharp):
    probs, labels = predictions(n=n, sharp=sharp)
    told = score(probs, labels, metrics=[f"{metric}_chance"])[f"{metric}_chance"]
    drawn = torch.multinomial(probs, 400, replacement=True, generator=torch.Generator().manual_seed(1)).T
    scores = torch.stack([METRICS[metric](scored(probs, y)) for y in drawn])
    noise = float(scores.std()) / 20  # of the mean of 400
    assert told == pytest.approx(float(scores.mean()), abs=4 * noise + 0.01 * float(scores.mean()))


def test_the_mean_deviation_of_equal_coins_is_that_of_the_binomial():
    for n in (1, 2, 7, 60, 4000):
        for p in (1e-6, 0.03, 0.5, 0.77, 0.999):
            exact = binom(n, p).expect(lambda x, m=n * p: abs(x - m)) if n < 100 else None
            sums = torch.tensor([[n * p], [n * p * p]], dtype=torch.float64)
            ours = float(mean_deviation(sums[0], sums[1]))
            if exact is not None:
                assert ours == pytest.approx(exact, rel=1e-6, abs=1e-9)
            elif n * p * (1 - p) > 100:
                assert ours == pytest.approx(math.sqrt(2 / math.pi * n * p * (1 - p)), rel=1e-3)


@pytest.mark.parametrize("width", [1 / 15, 1.0])
@pytest.mark.parametrize("n", [1, 3, 10, 100])
def test_the_mean_deviation_of_unequal_coins_is_near_that_of_their_sum(n, width):
    rng = np.random.default_rng(n)
    for low in (0.0, 0.4, 14 / 15):
        p = np.clip(low + width * rng.random(n), 1e-9, 1 - 1e-9)
        k = np.arange(n + 1)
        exact = float((np.abs(k - p.sum()) * poisson_binom(p).pmf(k)).sum())
        ours = float(mean_deviation(torch.tensor([p.sum()]), torch.tensor([(p**2).sum()])))
        assert ours == pytest.approx(exact, rel=0.03 if width < 1 else 0.15)


def test_nothing_has_no_mean_deviation():
    assert float(mean_deviation(torch.zeros(1), torch.zeros(1))) == pytest.approx(0, abs=1e-9)
    assert float(mean_deviation(torch.full((1,), 50.0), torch.full((1,), 50.0))) == pytest.approx(0, abs=1e-5)


def test_a_calibrated_predictor_scores_its_chance_and_an_overconfident_one_far_more():
    names = ["ece", "ece_chance", "ece_debiased"]
    honest = score(*predictions(n=5000, honest=True), metrics=names)
    assert honest["ece"] < 2 * honest["ece_chance"]
    assert honest["ece_debiased"] < 0.02
    overconfident = score(*predictions(n=5000), metrics=names)
    assert overconfident["ece"] > 10 * overconfident["ece_chance"]
    assert overconfident["ece_debiased"] > 0.1
