"""The verdict on records whose spread rises, falls or dips while errors rise."""

from dataclasses import replace

import pytest
import torch

from tests.diagnosis.samples import CLASSES, EVERY_NOISE, RISING_ERRORS, course, record
from vbs_cli import Logits, VarianceSmoothing, diagnose
from vbs_cli.diagnosis import Records, diagnosed, windowed
from vbs_cli.diagnosis.base import QUESTIONS
from vbs_cli.errors import InvalidInput


def judged(*noises, errors=RISING_ERRORS, **options):
    """The diagnosis under noises of EVERY_NOISE."""
    noisy = {noise: course(EVERY_NOISE[noise], errors) for noise in noises}
    return diagnose(record(2.0, 0.05), noisy, record(2.0, 0.05, seed=1), replicates=100, **options)


def answer(found, question, noise):
    (finding,) = [f for f in found.findings if (f.question, f.noise) == (question, noise)]
    return finding


def test_a_spread_that_rises_with_the_errors_fits():
    found = judged("rising")
    assert found.verdict == "fits"
    assert found.advice.startswith("Variance-based smoothing fits under rising noise.")
    for question in ("rank_correlation", "sigma_ratio", "smoothed", "nll_conventional", "ece_conventional"):
        assert answer(found, question, "rising").speaks == "for", question


@pytest.mark.parametrize("noise", ["falling", "dipping", "dipping and rising", "flat"])
def test_a_spread_that_goes_astray_while_errors_rise_does_not_fit(noise):
    found = judged(noise)
    assert found.verdict == "does-not-fit"
    assert "sigma_bar does not rise with the errors" in found.advice
    assert "emperature scaling" in found.advice


def test_a_fall_speaks_against_in_every_question_about_the_spread():
    found = judged("falling")
    for question in ("rank_correlation", "sigma_ratio", "sigma_lowest"):
        assert answer(found, question, "falling").speaks == "against"
    assert answer(found, "sigma_ratio", "falling").value == pytest.approx(0.3, abs=0.02)


def test_a_noise_under_which_it_fails_is_named_beside_those_under_which_it_fits():
    found = judged("rising", "falling", "dipping")
    assert found.verdict == "fits-with-settings"
    assert "fits under rising noise" in found.advice
    assert "does not fit under falling and dipping noise" in found.advice


def test_a_fall_that_makes_no_errors_is_no_evidence():
    assert judged("falling", errors=(0.05,) * 4).verdict == "does-not-fit"
    noisy = {"rising": course(EVERY_NOISE["rising"], RISING_ERRORS), "harmless": course((1.5,) * 4, (0.05,) * 4)}
    found = diagnose(record(2.0, 0.05), noisy, record(2.0, 0.05, seed=1), replicates=100)
    assert found.verdict == "fits"
    assert "Under harmless noise errors do not rise" in found.advice


def test_a_spread_that_rises_too_little_to_smooth_anything_does_not_fit():
    found = judged("rising", method=VarianceSmoothing(beta=-100.0))
    assert answer(found, "smoothed", "rising").value == 0
    assert found.verdict == "does-not-fit"


def test_patches_that_know_nothing_do_not_fit():
    clean = record(2.0, 0.05)
    by_chance = torch.rand(len(clean), generator=torch.Generator().manual_seed(0)) < 1 / CLASSES
    noisy = {"rising": course(EVERY_NOISE["rising"], RISING_ERRORS)}
    found = diagnose(replace(clean, part_accuracy=by_chance.float()), noisy, record(2.0, 0.05, seed=1), replicates=100)
    assert found.verdict == "does-not-fit"
    assert "chance" in found.advice


def test_other_settings_that_are_clearly_better_on_validation_data_are_named():
    noisy = {"rising": course((2.3, 2.6, 2.9, 3.2), RISING_ERRORS)}
    noisy_val = [record(2.6, 0.4, seed=2), record(2.9, 0.6, seed=3)]
    found = diagnose(record(2.0, 0.05), noisy, record(2.0, 0.05, seed=1), noisy_val=noisy_val, replicates=100)
    assert found.verdict == "fits-with-settings"
    assert "other settings are clearly better: alpha" in found.advice
    assert answer(found, "other_settings", "validation").high < 0


def test_predictions_are_left_as_they_are_where_a_temperature_does_harm():
    noisy = {"falling": course(EVERY_NOISE["falling"], RISING_ERRORS)}
    flawless = record(2.0, 0.0, seed=1)  # a temperature fitted here sharpens without end
    assert "leave predictions as they are" in diagnose(record(2.0, 0.05), noisy, flawless, replicates=50).advice


def test_without_an_error_on_clean_data_auroc_is_undefined_and_neutral():
    noisy = {"rising": course(EVERY_NOISE["rising"], RISING_ERRORS)}
    found = diagnose(record(2.0, 0.0), noisy, record(2.0, 0.05, seed=1), replicates=50)
    auroc = answer(found, "auroc_sigma", "clean")
    assert auroc.value != auroc.value
    assert auroc.speaks == "neutral"


def test_every_question_is_answered_in_every_place_and_intervals_hold_their_value():
    found = judged("rising", "flat")
    assert {f.question for f in found.findings} == set(QUESTIONS)
    assert len({(f.question, f.noise) for f in found.findings}) == len(found.findings)
    assert all(f.low <= f.value <= f.high for f in found.findings if f.value == f.value)


def test_values_of_seeds_are_means_and_one_seed_is_the_library_s_own():
    def records(seed):
        noisy = {"rising": course(EVERY_NOISE["rising"], RISING_ERRORS, seed=seed)}
        val = record(2.0, 0.05, seed=9)
        return Records(val, record(2.0, 0.05, seed=seed), noisy, [windowed(val, "logits")])

    seeds = [records(0), records(1)]
    each = [diagnosed([one], VarianceSmoothing(), replicates=20) for one in seeds]
    both = diagnosed(seeds, VarianceSmoothing(), replicates=20)
    for question in ("patch_accuracy", "error_gain", "rank_correlation", "smoothed", "nll_conventional"):
        noise = "clean" if question == "patch_accuracy" else "rising"
        mean = sum(answer(one, question, noise).value for one in each) / 2
        assert answer(both, question, noise).value == pytest.approx(mean), question
    alone = diagnose(seeds[0].clean, seeds[0].noisy, seeds[0].val, replicates=20)
    assert alone == each[0]


def test_levels_may_come_in_any_order():
    levels = course(EVERY_NOISE["rising"], RISING_ERRORS)
    val, clean = record(2.0, 0.05, seed=1), record(2.0, 0.05)
    there, back = (diagnose(clean, {"n": some}, val, replicates=20) for some in (levels, levels[::-1]))
    assert there == back


@pytest.mark.parametrize(
    ("noisy", "message"),
    [
        ({}, "no noise"),
        ({"n": []}, "no noise"),
        ({"clean": course(EVERY_NOISE["rising"], RISING_ERRORS)}, "cannot name a noise"),
        ({"validation": course(EVERY_NOISE["rising"], RISING_ERRORS)}, "cannot name a noise"),
        ({"n": [(0.5, replace(record(2.0, 0.1), labels=None))]}, "no labels"),
        (
            {"n": [(0.5, Logits.from_patches(torch.randn(8, CLASSES + 1, 4), labels=torch.zeros(8, dtype=int)))]},
            "different classes",
        ),
        (
            {"n": [(0.5, Logits.from_logits(torch.randn(600, CLASSES), labels=torch.arange(600) % CLASSES))]},
            "sigma_bar",
        ),
    ],
)
def test_records_that_cannot_be_judged_are_refused(noisy, message):
    with pytest.raises(InvalidInput, match=message):
        diagnose(record(2.0, 0.05), noisy, record(2.0, 0.05, seed=1))
