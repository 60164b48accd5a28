"""Settings by data: what is tried, what is chosen, and that a choice among many does not flatter."""

from dataclasses import replace

import pytest
import torch

from tests.diagnosis.samples import PATCHES, record
from vbs_cli import Logits, VarianceSmoothing, score
from vbs_cli.diagnosis.search import GRID, Candidate, Grid, better_settings, gain_of, search, windowed

METHOD = VarianceSmoothing()


def clean_and_noisy(seed=0, **options):
    """A seed's validation records: errors rise with the spread."""
    return [record(2.0, 0.05, seed=seed, **options), record(2.6, 0.5, seed=seed + 100, **options)]


def by_kernel(*seeds, spread="logits", grid=GRID):
    return [[windowed(each, spread, grid=grid) for each in seed] for seed in seeds]


def test_the_grid_is_every_combination_and_one_learned_pair_for_each_kernel_that_fits():
    found = search(by_kernel(clean_and_noisy(keep_parts=True)), METHOD)
    kernels = [kernel for kernel in GRID.kernels if kernel < PATCHES]
    assert sorted({choice.kernel for choice in found}) == kernels == [1, 2, 5, 10]
    assert len(found) == len(kernels) * (len(GRID.alphas) * len(GRID.betas) + 1)
    assert sum(not isinstance(choice.beta, str) for choice in found) == len(kernels)
    assert [choice.nll for choice in found] == sorted(choice.nll for choice in found)


def test_nll_is_that_of_the_method_fitted_on_clean_data_mean_over_records_and_seeds():
    seeds = [clean_and_noisy(0, keep_parts=True), clean_and_noisy(1, keep_parts=True)]
    grid = Grid(kernels=(2,), alphas=(3.0,), betas=("q75",))
    found = search(by_kernel(*seeds, grid=grid), METHOD, grid=grid)
    (choice,) = [each for each in found if each.beta == "q75"]
    nlls = []
    for seed in seeds:
        read = [r.at_kernel(2) for r in seed]
        fitted = VarianceSmoothing(alpha=3.0, beta="q75").fit(read[0])
        nlls += [score(fitted.predict_proba(r), r.labels)["nll"] for r in read]
    assert choice.nll == pytest.approx(sum(nlls) / 4)


def test_the_learned_pair_is_the_best_for_its_kernel():
    found = search(by_kernel(clean_and_noisy()), METHOD)
    assert not isinstance(found[0].beta, str)


def test_records_without_patches_keep_their_kernel():
    assert {choice.kernel for choice in search(by_kernel(clean_and_noisy()), METHOD)} == {None}


def test_another_spread_is_searched_as_itself():
    records = [
        Logits.from_patches(r.parts, labels=r.labels, spreads=["softmax"]) for r in clean_and_noisy(keep_parts=True)
    ]
    read = by_kernel(records, spread="softmax")
    found = search(read, replace(METHOD, spread="softmax"), grid=Grid(alphas=(1.0,), betas=("q50",)))
    fitted = VarianceSmoothing(beta="q50", spread="softmax").fit(records[0])
    expected = sum(score(fitted.predict_proba(r), r.labels)["nll"] for r in records) / 2
    assert next(c.nll for c in found if c.beta == "q50") == pytest.approx(expected)


def test_better_settings_are_clear_where_the_spread_rises_too_little_for_these():
    best, gain, clear = better_settings(by_kernel(clean_and_noisy()), METHOD, replicates=100)
    assert clear
    assert gain.high < 0
    assert best.alpha > 1


def test_settings_that_are_the_best_already_are_not_beaten():
    best = search(by_kernel(clean_and_noisy()), METHOD)[0]
    at_best = replace(METHOD, alpha=best.alpha, beta=best.beta)
    assert not better_settings(by_kernel(clean_and_noisy()), at_best, replicates=100)[2]


def test_a_choice_among_many_on_noise_alone_is_not_called_better():
    rng = torch.Generator().manual_seed(0)
    clear = 0
    for seed in range(10):
        one = record(2.0, 0.2, seed=seed, margin=2.0, examples=100)
        one = replace(one, sigma=2 + 0.5 * torch.randn(len(one), generator=rng))
        clear += better_settings(by_kernel([one]), replace(METHOD, beta=-100.0), replicates=100)[2]
    assert clear <= 1


def test_the_gain_of_settings_is_their_nll_less_that_of_the_method():
    seeds = by_kernel(clean_and_noisy(0, keep_parts=True), clean_and_noisy(1, keep_parts=True))
    best = search(seeds, METHOD)[0]
    gain, before = gain_of(best, METHOD, [seed[0] for seed in seeds], seeds, replicates=20)
    assert before + gain.value == pytest.approx(best.nll)
    assert gain.low <= gain.value <= gain.high


def test_settings_are_told_in_words():
    assert str(Candidate(10, 1.0, "mean+0.5")) == "kernel 10, alpha 1, beta mean+0.5"
    assert str(Candidate(None, 2.345, -1.2345)) == "alpha 2.35, beta -1.23"
