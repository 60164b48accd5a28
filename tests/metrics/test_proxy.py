"""Whether sigma_bar stands for uncertainty: against scipy and scikit-learn, at the limits, and on nonsense."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from vbs_cli.errors import InvalidInput
from vbs_cli.metrics import proxy as module
from vbs_cli.metrics.proxy import Course, proxy, rank_correlation

LEVELS, EXAMPLES = 6, 120


def course(seed=0, levels=LEVELS, examples=EXAMPLES, growth=0.3):
    """Examples of different difficulty, whose errors grow with the noise, under a coarse sigma_bar with ties."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=examples) + growth * np.arange(levels)[:, None]
    noise = rng.normal(size=(4, levels, examples))
    made = Course(
        sigma=np.round(hard + 2 * noise[0], 1),
        wrong=hard + noise[1] > 1,
        confidence=1 / (1 + np.exp(hard + noise[2])),
        part_accuracy=1 / (1 + np.exp(hard + noise[3])),
    )
    return Course(**{name: torch.as_tensor(column) for name, column in vars(made).items()})


def expected(one):
    """The quantities by numpy, scipy and scikit-learn."""
    sigma, wrong, confidence, parts = (column.double().numpy() for column in vars(one).values())
    by_sigma = roc_auc_score(wrong.ravel(), sigma.ravel())
    by_confidence = roc_auc_score(wrong.ravel(), -confidence.ravel())
    return {
        "sigma_clean": sigma[0].mean(),
        "sigma_most": sigma[-1].mean(),
        "error_clean": wrong[0].mean(),
        "error_most": wrong[-1].mean(),
        "rank_correlation": scipy.stats.spearmanr(sigma.mean(1), wrong.mean(1)).statistic,
        "auroc_sigma": by_sigma,
        "auroc_confidence": by_confidence,
        "auroc_gain": by_sigma - by_confidence,
        "patch_accuracy": parts[0].mean(),
    }


def values(found):
    return {name: interval.value for name, interval in found.items()}


def width(interval):
    return interval.high - interval.low


def bounds(interval):
    return interval.value, interval.low, interval.high


@pytest.mark.parametrize("steps", [None, 4])
@pytest.mark.parametrize("levels", [2, 3, 20, 500])
def test_rank_correlation_agrees_with_scipy_with_ties_and_without(levels, steps):
    rng = np.random.default_rng(levels)
    x, y = rng.normal(size=(2, 7, levels))
    y = x + y
    if steps:
        x, y = (np.round(steps * values) / steps for values in (x, y))
    ours = rank_correlation(torch.as_tensor(x), torch.as_tensor(y))
    theirs = [scipy.stats.spearmanr(*pair).statistic for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=12))
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_rank_correlation_agrees_with_scipy_on_whole_numbers_full_of_ties(pairs):
    x, y = torch.tensor(pairs).T
    theirs = scipy.stats.spearmanr(x, y).statistic
    assert float(rank_correlation(x, y)) == pytest.approx(theirs, abs=1e-12, nan_ok=True)


def test_rank_correlation_of_a_constant_or_of_nan_is_undefined_and_leaves_the_others():
    rising, constant = [0.1, 0.2, 0.4], [0.3, 0.3, 0.3]
    x = torch.tensor([rising, constant, rising, constant, [0.1, math.nan, 0.4], rising])
    y = torch.tensor([rising, rising, constant, constant, rising, [3.0, 2.0, -1.0]])
    found = rank_correlation(x, y)
    assert found.isnan().tolist() == [False, True, True, True, True, False]
    assert found[[0, 5]].tolist() == [1, -1]


def test_values_agree_with_scikit_learn_and_numpy():
    one = course()
    assert values(proxy([one], replicates=2)) == pytest.approx(expected(one), abs=1e-12)


def test_values_are_means_over_seeds():
    seeds = [course(seed) for seed in range(3)]
    each = [expected(one) for one in seeds]
    mean = {name: np.mean([one[name] for one in each]) for name in each[0]}
    assert values(proxy(seeds, replicates=2)) == pytest.approx(mean, abs=1e-12)


def by_ranks(doubt, wrong):
    """AUROC of each row by the rank sum of its errors: (R, M), (R, M) -> (R,)."""
    errors, ranks = wrong.sum(1), scipy.stats.rankdata(doubt, axis=1)
    return ((ranks * wrong).sum(1) - errors * (errors + 1) / 2) / (errors * (wrong.shape[1] - errors))


def resampled(one, drawn):
    """Some of the quantities on R resamples, given the examples of each: (R, N) -> (R,) by name."""
    sigma, wrong, confidence, parts = (np.moveaxis(c.double().numpy()[:, drawn], 0, 1) for c in vars(one).values())
    rows = len(drawn)
    by_sigma = by_ranks(sigma.reshape(rows, -1), wrong.reshape(rows, -1))
    by_confidence = by_ranks(-confidence.reshape(rows, -1), wrong.reshape(rows, -1))
    ranks = [scipy.stats.rankdata(values.mean(2), axis=1) for values in (sigma, wrong)]
    return {
        "sigma_most": sigma[:, -1].mean(1),
        "error_clean": wrong[:, 0].mean(1),
        "rank_correlation": scipy.stats.pearsonr(*ranks, axis=1).statistic,
        "auroc_sigma": by_sigma,
        "auroc_gain": by_sigma - by_confidence,
        "patch_accuracy": parts[:, 0].mean(1),
    }


def test_intervals_of_one_seed_agree_with_scipy():
    one = course(levels=8, growth=0.1)
    found = proxy([one], replicates=4000)
    theirs = scipy.stats.bootstrap(
        (np.arange(EXAMPLES),), lambda drawn, axis: np.stack(list(resampled(one, np.atleast_2d(drawn)).values())),
        n_resamples=2000, method="percentile", vectorized=True, rng=0,
    )  # fmt: skip
    low, high = theirs.confidence_interval
    mean = theirs.bootstrap_distribution.mean(-1)
    for i, (name, value) in enumerate(resampled(one, np.arange(EXAMPLES)[None]).items()):
        told, moved = found[name], value.item() - mean[i]
        assert told.value == pytest.approx(value.item(), abs=1e-12)
        assert (told.low, told.high) == pytest.approx((low[i] + moved, high[i] + moved), abs=0.1 * (high[i] - low[i]))


def test_less_confidence_asks_for_less_width():
    wide, narrow = proxy([course()], confidence=0.95), proxy([course()], confidence=0.5)
    normal = scipy.stats.norm.ppf(0.75) / scipy.stats.norm.ppf(0.975)
    for name in ("auroc_sigma", "sigma_clean"):
        assert width(narrow[name]) == pytest.approx(normal * width(wide[name]), rel=0.25)


@pytest.mark.parametrize("sign", [1, -1])
def test_sigma_that_goes_with_or_against_the_errors_at_every_level_correlates_fully(sign):
    examples = 400
    wrong = torch.arange(examples) < 50 * torch.arange(1, 8)[:, None]
    # The examples differ far more than the levels, which only shows if every level is given the same of them.
    spread = 100 * torch.rand(examples, generator=torch.Generator().manual_seed(0)).double()
    sigma = spread + sign * torch.arange(7)[:, None]
    told = proxy([replace(course(levels=7, examples=examples), sigma=sigma, wrong=wrong)] * 2)
    assert bounds(told["rank_correlation"]) == pytest.approx((sign, sign, sign), abs=1e-12)


def test_a_sigma_that_knows_the_errors_finds_all_and_its_opposite_none():
    one = course()
    told = proxy([replace(one, sigma=one.wrong, confidence=one.wrong)])
    assert bounds(told["auroc_sigma"]) == (1, 1, 1)
    assert bounds(told["auroc_confidence"]) == (0, 0, 0)
    assert bounds(told["auroc_gain"]) == (1, 1, 1)


def test_a_constant_sigma_finds_nothing_and_has_no_rank_correlation():
    one = course()
    told = proxy([replace(one, sigma=torch.full_like(one.sigma, 0.1))])
    assert bounds(told["auroc_sigma"]) == pytest.approx((0.5, 0.5, 0.5))
    assert all(math.isnan(bound) for bound in bounds(told["rank_correlation"]))


def test_levels_of_the_same_mean_are_tied_whatever_the_order_of_their_examples():
    one = course()
    rng = torch.Generator().manual_seed(0)
    orders = torch.rand(LEVELS, EXAMPLES, generator=rng).argsort(1)
    told = proxy([replace(one, sigma=one.confidence[:1].expand(LEVELS, -1).gather(1, orders))])
    assert math.isnan(told["rank_correlation"].value)


def test_examples_that_the_noise_does_not_touch_have_no_rank_correlation_on_any_replicate():
    one = course()
    told = proxy([replace(one, sigma=one.sigma[:1].expand(LEVELS, -1))])
    assert all(math.isnan(bound) for bound in bounds(told["rank_correlation"]))


def test_sigma_that_says_what_confidence_says_gains_exactly_nothing():
    same = [replace(one, sigma=-one.confidence) for one in (course(0), course(1))]
    told = proxy(same)
    assert bounds(told["auroc_gain"]) == (0, 0, 0)
    assert width(told["auroc_sigma"]) > 0


def test_a_small_gain_over_confidence_is_told_from_none_because_it_is_paired():
    one = course()
    rng = torch.Generator().manual_seed(0)
    better = -one.confidence + 0.03 * one.wrong + 0.001 * torch.randn(one.wrong.shape, generator=rng)
    told = proxy([replace(one, sigma=better)])
    assert told["auroc_gain"].value == told["auroc_sigma"].value - told["auroc_confidence"].value
    assert told["auroc_gain"].low > 0
    assert told["auroc_sigma"].low < told["auroc_confidence"].high


def test_levels_are_one_stream_in_which_a_level_that_tells_nothing_within_still_tells():
    wrong = torch.cat([torch.zeros(1, 50), torch.ones(1, 50)])
    by_level = torch.tensor([[0.1], [0.2]]).expand(2, 50)
    told = proxy([Course(sigma=by_level, wrong=wrong, confidence=torch.full((2, 50), 0.5), part_accuracy=1 - wrong)])
    assert bounds(told["auroc_sigma"]) == (1, 1, 1)
    assert bounds(told["auroc_confidence"]) == (0.5, 0.5, 0.5)
    assert bounds(told["patch_accuracy"]) == (1, 1, 1)


def test_other_seeds_widen_the_interval_and_the_same_one_again_does_not_narrow_it():
    one = course()
    alone, again = proxy([one]), proxy([one, one])
    for name in alone:
        assert bounds(again[name]) == pytest.approx(bounds(alone[name]), abs=1e-12)
    others = proxy([replace(one, sigma=one.sigma + shift) for shift in (-2, 0, 2)])
    assert width(others["sigma_clean"]) > 2 * width(alone["sigma_clean"])


def test_the_order_of_examples_and_of_seeds_leaves_the_values():
    seeds = [course(0), course(1)]
    order = torch.randperm(EXAMPLES, generator=torch.Generator().manual_seed(0))
    turned = [Course(**{name: column[:, order] for name, column in vars(one).items()}) for one in reversed(seeds)]
    assert values(proxy(turned, replicates=2)) == pytest.approx(values(proxy(seeds, replicates=2)), abs=1e-12)


def test_only_the_order_of_sigma_and_confidence_counts_for_errors_found():
    one = course()
    told = proxy([one])
    bent = proxy([replace(one, sigma=one.sigma.atan() / 9, confidence=one.confidence.square())])
    for name in ("auroc_sigma", "auroc_confidence", "auroc_gain"):
        assert bounds(bent[name]) == bounds(told[name])


def test_the_same_seed_gives_the_same_intervals_and_another_one_others():
    first, second, other = (proxy([course()], seed=seed) for seed in (0, 0, 1))
    assert first == second
    assert all(first[name] != other[name] for name in first)


def test_small_blocks_and_float64_leave_the_intervals(monkeypatch):
    seeds = [course(0), course(1)]
    before = proxy(seeds)
    monkeypatch.setattr(module, "BLOCK", 1)
    monkeypatch.setattr(module, "EXACT", 0)
    after = proxy(seeds)
    for name in before:
        assert bounds(after[name]) == pytest.approx(bounds(before[name]), abs=1e-6)
    assert after["auroc_sigma"] != before["auroc_sigma"]  # in the last digits


@pytest.mark.parametrize("every", [0.0, 1.0])
def test_without_errors_or_without_right_predictions_only_the_means_are_defined(every):
    one = course()
    told = proxy([replace(one, wrong=torch.full_like(one.sigma, every)), one], replicates=50)
    undefined = {"rank_correlation", "auroc_sigma", "auroc_confidence", "auroc_gain"}
    for name, interval in told.items():
        assert [math.isnan(bound) for bound in bounds(interval)] == [name in undefined] * 3
        assert not (name in undefined and interval.excludes_zero)


def test_replicates_without_errors_are_left_out():
    wrong = torch.zeros(2, 12)
    wrong[1, 0] = 1  # which more than a third of the replicates leave out
    told = proxy([replace(course(levels=2, examples=12), wrong=wrong)])
    assert all(math.isfinite(bound) for interval in told.values() for bound in bounds(interval))
    assert width(told["auroc_sigma"]) > 0


def test_columns_of_any_type_are_taken_and_left_as_they_were():
    one = course()
    single = Course(**{name: column.float() for name, column in vars(one).items()})
    sigma = single.sigma.clone().requires_grad_()
    told = proxy([replace(single, sigma=sigma, wrong=single.wrong.int())], replicates=2)
    assert values(told) == pytest.approx(expected(one), abs=1e-6)
    assert torch.equal(sigma, single.sigma)


def broken(**columns):
    return [course(), replace(course(1), **columns)]


@pytest.mark.parametrize(
    ("courses", "cause"),
    [
        ([], "no courses"),
        (broken(sigma=torch.rand(LEVELS, EXAMPLES + 1)), "shapes"),
        ([course(), course(levels=LEVELS + 1)], "shapes"),
        ([course(), course(examples=EXAMPLES - 1)], "shapes"),
        ([course(levels=1)], "L >= 2 levels"),
        ([course(examples=0)], "N >= 1 examples"),
        ([Course(*torch.zeros(4, EXAMPLES))], "expected"),
        (broken(sigma=torch.full((LEVELS, EXAMPLES), math.nan)), "NaN"),
        (broken(confidence=torch.full((LEVELS, EXAMPLES), math.inf)), "infinity"),
        (broken(part_accuracy=torch.full((LEVELS, EXAMPLES), math.nan)), "NaN"),
        (broken(wrong=torch.full((LEVELS, EXAMPLES), 0.5)), "not 0 and 1"),
    ],
)
def test_courses_that_make_no_sense_are_refused(courses, cause):
    with pytest.raises(InvalidInput, match=cause) as refusal:
        proxy(courses)
    assert refusal.value.hint


@pytest.mark.parametrize(
    "asked", [{"replicates": 0}, {"confidence": 0.0}, {"confidence": 1.0}, {"confidence": math.nan}]
)
def test_no_replicates_and_no_such_confidence_are_refused(asked):
    with pytest.raises(InvalidInput, match="replicates"):
        proxy([course()], **asked)
