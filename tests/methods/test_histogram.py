"""Histogram binning: netcal's, where it is consistent with itself."""

import numpy as np
import pytest
import torch
from netcal.binning import HistogramBinning as Netcal

from tests.methods.samples import of_probabilities, overconfident
from vbs_cli import Logits, score
from vbs_cli.errors import InvalidInput
from vbs_cli.methods.histogram import HistogramBinning
from vbs_cli.methods.one_vs_rest import bins_of, equal_mass


def probabilities(record):
    return record.logits.double().softmax(1).numpy()


@pytest.mark.parametrize("bins", [1, 2, 10, 37])
def test_netcal_predicts_the_same(bins):
    val, test = overconfident(), overconfident(seed=1)
    oracle = Netcal(bins=bins, equal_intervals=True).fit(probabilities(val), val.labels.numpy())
    probs = HistogramBinning(n_bins=bins).fit(val).predict_proba(test)
    theirs = oracle.transform(probabilities(test).copy())
    told = np.isfinite(theirs).all(1)  # netcal divides by zero where every class has a score of zero
    assert told.mean() > 0.95
    np.testing.assert_allclose(probs.numpy()[told], theirs[told], atol=1e-12, rtol=0)


def test_an_empty_bin_keeps_its_midpoint_as_in_netcal():
    val = overconfident(n=30)
    fitted = HistogramBinning(n_bins=10).fit(val)
    p = probabilities(val)
    for k in range(val.classes):
        empty = np.histogram(p[:, k], bins=10, range=(0, 1))[0] == 0
        assert empty.any()
        np.testing.assert_allclose(np.array(fitted.values[k])[empty], (np.arange(10)[empty] + 0.5) / 10)


def test_a_probability_on_an_edge_belongs_to_the_bin_below():
    """Netcal counts it in the bin above when it fits and looks in the bin below when it predicts."""
    rows = [[0.5, 0.5]] * 3 + [[0.75, 0.25]]
    val = of_probabilities(rows, labels=torch.tensor([0, 0, 1, 1]))
    fitted = HistogramBinning(n_bins=2).fit(val)
    assert fitted.values == (pytest.approx((2 / 3, 0.0)), pytest.approx((0.5, 0.75)))
    oracle = Netcal(bins=2, equal_intervals=True).fit(np.array([0.5, 0.5, 0.5, 0.75]), np.array([1, 1, 0, 0]))
    assert oracle.transform(np.array([0.5])) == pytest.approx(0.25)


def test_one_bin_gives_the_frequencies_of_the_classes():
    val = overconfident()
    for binning in ("width", "mass"):
        probs = HistogramBinning(n_bins=1, binning=binning).fit(val).predict_proba(overconfident(seed=1))
        shares = torch.bincount(val.labels, minlength=4) / 1500.0
        torch.testing.assert_close(probs, shares.double().expand(1500, 4), atol=1e-7, rtol=0)


def test_bins_of_equal_mass_hold_equally_many_examples():
    val = overconfident(n=1000)
    fitted = HistogramBinning(n_bins=15, binning="mass").fit(val)
    for k, edges in enumerate(fitted.knots):
        count, _ = np.histogram(probabilities(val)[:, k], bins=np.array(edges))
        assert len(count) == 15
        assert count.max() - count.min() <= 1


def test_edges_of_equal_mass_are_the_quantiles_of_numpy():
    val = overconfident(n=1000)
    fitted = HistogramBinning(n_bins=10, binning="mass").fit(val)
    levels = np.arange(1, 10) / 10
    for k, edges in enumerate(fitted.knots):
        oracle = np.quantile(probabilities(val)[:, k], levels, method="averaged_inverted_cdf")
        np.testing.assert_allclose(edges[1:-1], oracle, rtol=1e-12)
        assert (edges[0], edges[-1]) == (0.0, 1.0)


def test_bins_of_equal_mass_hold_the_share_of_their_class():
    val = overconfident(n=300)
    fitted = HistogramBinning(n_bins=7, binning="mass").fit(val)
    for k in range(val.classes):
        p, edges = probabilities(val)[:, k], fitted.knots[k]
        for low, high, value in zip(edges[:-1], edges[1:], fitted.values[k], strict=True):
            inside = (p > low) & (p <= high)
            assert value == pytest.approx(float((val.labels.numpy()[inside] == k).mean()))


def test_equal_probabilities_stay_in_one_bin_and_merge_edges():
    rows = [[0.1, 0.9]] * 6 + [[0.7, 0.3]] * 2
    val = of_probabilities(rows, labels=torch.tensor([0, 1, 1, 1, 1, 1, 0, 1]))
    fitted = HistogramBinning(n_bins=4, binning="mass").fit(val)
    assert fitted.knots[0] == pytest.approx((0.0, 0.4, 1.0))
    assert fitted.values[0] == pytest.approx((1 / 6, 1 / 2))
    assert fitted.knots[1] == pytest.approx((0.0, 0.6, 1.0))
    assert fitted.values[1] == pytest.approx((1 / 2, 5 / 6))


def test_more_bins_than_examples_leave_one_for_each():
    val = overconfident(n=10)
    fitted = HistogramBinning(n_bins=25, binning="mass").fit(val)
    for k in range(val.classes):
        assert np.histogram(probabilities(val)[:, k], bins=np.array(fitted.knots[k]))[0].tolist() == [1] * 10


def test_neighbouring_numbers_have_an_edge_between_them():
    values = np.array([np.nextafter(1.0, 0.0), 1.0])
    (edges,) = equal_mass(values, [2])
    assert bins_of(values, edges).tolist() == [0, 1]


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_saturated_predictions_keep_their_order(binning):
    plain = overconfident()
    said = plain.logits.argmax(1)
    val = Logits.from_logits(1e5 * torch.eye(4)[said], labels=plain.labels)
    fitted = HistogramBinning(binning=binning).fit(val)
    assert (fitted.predict_proba(val).argmax(1) == said).all()
    for k in range(4):
        hit = (plain.labels == k).double()
        assert fitted.values[k][0] == pytest.approx(float(hit[said != k].mean()))
        assert fitted.values[k][-1] == pytest.approx(float(hit[said == k].mean()))


def test_an_example_that_no_class_wants_becomes_uniform():
    rows = [[0.45, 0.549, 0.001], [0.001, 0.45, 0.549], [0.549, 0.001, 0.45]]
    fitted = HistogramBinning(n_bins=2).fit(of_probabilities(rows, labels=torch.tensor([1, 2, 0])))
    probs = fitted.predict_proba(of_probabilities([[0.4, 0.35, 0.25], [0.9, 0.05, 0.05]]))
    torch.testing.assert_close(probs[0], torch.full((3,), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(probs[1], torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))


def test_a_calibrated_probability_moves_by_less_than_a_bin():
    record = overconfident(n=50_000, factor=1.0)
    fitted = HistogramBinning(n_bins=20).fit(record)
    for values in fitted.values:
        np.testing.assert_allclose(values, (np.arange(20) + 0.5) / 20, atol=0.05)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_overconfident_predictions_of_new_examples_become_better(binning):
    fitted, test = HistogramBinning(binning=binning).fit(overconfident()), overconfident(seed=1)
    before = score(test.logits.softmax(1), test.labels)
    after = score(fitted.predict_proba(test), test.labels)
    assert after["ece"] < 0.6 * before["ece"]
    assert after["brier"] < before["brier"]


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e5])
@pytest.mark.parametrize("k", [2, 6])
def test_one_example_is_enough_to_fit(binning, scale, k):
    logits = scale * torch.randn(1, k, generator=torch.Generator().manual_seed(0))
    val = Logits.from_logits(logits, labels=torch.tensor([1]))
    probs = HistogramBinning(binning=binning).fit(val).predict_proba(val)
    assert torch.equal(probs, torch.eye(k, dtype=torch.float64)[1:2])


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_a_class_without_labels_has_a_share_of_zero(binning):
    record = overconfident()
    some = record.labels != 2
    val = Logits.from_logits(record.logits[some], labels=record.labels[some])
    fitted = HistogramBinning(n_bins=5, binning=binning).fit(val)
    assert set(fitted.values[2]) == {0.0}
    assert torch.isfinite(fitted.predict_proba(record)).all()


@pytest.mark.parametrize("n_bins", [0, -3, 2.5])
def test_nonsense_numbers_of_bins_are_refused(n_bins):
    with pytest.raises(InvalidInput, match="whole number of at least 1"):
        HistogramBinning(n_bins=n_bins)


def test_an_unknown_binning_is_refused():
    with pytest.raises(InvalidInput, match="known: width, mass"):
        HistogramBinning(binning="depth")
