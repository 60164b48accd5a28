"""The verdict as a function of findings alone."""

from itertools import chain

import pytest

from vbs_cli.diagnosis.base import QUESTIONS, Finding, side
from vbs_cli.diagnosis.judgement import judge, places_named, state
from vbs_cli.diagnosis.search import Candidate
from vbs_cli.metrics import Interval

GOOD = {"rank_correlation": "for", "sigma_ratio": "for", "nll_conventional": "for", "nll_temperature": "for"}


def place(noise, errors_rise=True, **speaks):
    """A finding for every question, neutral where nothing else is said."""
    low = 0.1 if errors_rise else -0.1
    return [
        Finding(question, noise, 0.2, low if question == "error_gain" else -0.1, 0.3, speaks.get(question, "neutral"))
        for question in QUESTIONS
    ]


def verdict(*noises, better=None, second_sets=(), **clean):
    found = [*place("clean", **{"patch_accuracy": "for", **clean}), *chain(*noises)]
    return judge(found, better, second_sets=second_sets)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "helps"),
        ({"errors_rise": False, "sigma_ratio": "against"}, "idle"),
        ({"sigma_ratio": "against"}, "falls"),
        ({"rank_correlation": "against"}, "falls"),
        ({"sigma_lowest": "against"}, "dips"),
        ({"sigma_ratio": "neutral"}, "flat"),
        ({"nll_conventional": "against", "ece_conventional": "for"}, "harms"),
        ({"nll_temperature": "against"}, "harms"),
        ({"nll_temperature": "neutral", "ece_temperature": "against"}, "harms"),
        ({"nll_conventional": "neutral"}, "rises"),
        ({"nll_conventional": "neutral", "ece_conventional": "for"}, "helps"),
    ],
)
def test_what_became_of_the_method_under_a_noise(changed, expected):
    found = {finding.question: finding for finding in place("n", **{**GOOD, **changed})}
    assert state(found) == expected


def test_better_settings_make_up_for_scores_but_never_for_a_spread_that_does_not_rise():
    worse = place("a", **{**GOOD, "nll_temperature": "against"})
    better = Candidate(kernel=1, alpha=3.0, beta="mean")
    assert verdict(worse).verdict == "does-not-fit"
    found = verdict(worse, better=better)
    assert found.verdict == "fits-with-settings"
    assert "does not fit as it is set" in found.advice
    assert "vbs calibrate --auto" in found.advice
    for astray in ({"sigma_ratio": "against"}, {"sigma_lowest": "against"}, {"sigma_ratio": "neutral"}):
        assert verdict(worse, place("b", **{**GOOD, **astray}), better=better).verdict == "does-not-fit"
    assert verdict(worse, better=better, patch_accuracy="against").verdict == "does-not-fit"
    assert verdict(place("a", errors_rise=False), better=better).verdict == "does-not-fit"


def test_one_noise_that_helps_and_none_that_fails_fits():
    unmoved = {**GOOD, "nll_conventional": "neutral"}
    assert verdict(place("a", **GOOD), place("b", **unmoved)).verdict == "fits"


def test_a_rising_spread_that_changes_no_score_fits_only_if_clean_scores_gain():
    unmoved = place("a", **{**GOOD, "nll_conventional": "neutral"})
    assert verdict(unmoved).verdict == "does-not-fit"
    assert verdict(unmoved, ece_conventional="for").verdict == "fits"


def test_a_cost_on_clean_data_is_told():
    found = verdict(place("a", **GOOD), nll_conventional="against")
    assert found.verdict == "fits-with-settings"
    assert "costs something on clean data" in found.advice


def test_worse_scores_than_one_temperature_for_all_do_not_fit():
    found = verdict(place("a", **{**GOOD, "nll_temperature": "against"}))
    assert found.verdict == "does-not-fit"
    assert "other predictions are better under a noise" in found.advice
    assert "one temperature for all does better" in found.advice
    harmed = verdict(place("a", **{**GOOD, "nll_conventional": "against"}))
    assert "worse than without it" in harmed.advice


def test_a_temperature_that_does_harm_under_noise_is_told_where_it_is_the_way_out():
    harm = Finding("temperature_nll", "a", 0.2, 0.1, 0.3)
    falling = [f for f in place("a", **{**GOOD, "sigma_ratio": "against"}) if f.question != harm.question]
    assert "under a noise it is worse than none" in verdict([*falling, harm]).advice


def test_a_spread_that_misleads_on_clean_data_is_told():
    found = verdict(place("a", **GOOD), auroc_sigma="against")
    assert found.verdict == "fits"
    assert "larger where predictions are right" in found.advice


def test_better_settings_never_save_a_spread_that_falls():
    better = Candidate(kernel=5, alpha=2.0, beta="q75")
    assert verdict(place("a", **GOOD), better=better).verdict == "fits-with-settings"
    assert "kernel 5, alpha 2, beta q75" in verdict(place("a", **GOOD), better=better).advice
    assert verdict(place("a", **{**GOOD, "sigma_ratio": "against"}), better=better).verdict == "does-not-fit"


def test_clean_gains_never_save_a_spread_that_falls():
    falling = place("a", **{**GOOD, "rank_correlation": "against"})
    assert verdict(falling, nll_conventional="for", ece_conventional="for").verdict == "does-not-fit"


@pytest.mark.parametrize(
    ("interval", "expected"),
    [((0.2, 0.1, 0.3), "for"), ((-0.2, -0.3, -0.1), "against"), ((0.2, -0.1, 0.3), "neutral")],
)
def test_an_interval_speaks_where_it_lies_on_one_side(interval, expected):
    assert side(Interval(*interval), 0.0, wanted="above") == expected
    opposite = {"for": "against", "against": "for"}.get(expected, expected)
    assert side(Interval(*interval), 0.0, wanted="below") == opposite
    assert side(Interval(*interval), 0.0, wanted="above", visible=0.21) == "neutral"
    assert side(Interval(float("nan"), float("nan"), float("nan")), 0.0, wanted="above") == "neutral"


@pytest.mark.parametrize(
    ("names", "second_sets", "expected"),
    [
        (["a"], (), "under a noise"),
        (["a", "b", "c"], (), "under a, b and c noise"),
        (["a"], {"a"}, "on a"),
        (["a", "b"], {"a", "b"}, "on a and b"),
        (["a", "b"], {"a"}, "under b noise and on a"),
        (["a", "b", "c"], {"c"}, "under a and b noise and on c"),
    ],
)
def test_noises_and_second_sets_are_joined_in_words(names, second_sets, expected):
    assert places_named(names, second_sets=second_sets) == expected
    fits = verdict(*(place(name, **GOOD) for name in names), second_sets=second_sets)
    assert f"fits {expected}." in fits.advice
    idle = verdict(*(place(name, errors_rise=False) for name in names), second_sets=second_sets)
    assert f"no more errors {expected}," in idle.advice


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sigma_ratio": "against"}, "sigma_bar does not rise with the errors on iPhone."),
        ({"nll_temperature": "against"}, "other predictions are better on iPhone."),
        ({"nll_conventional": "neutral"}, "no score is better than without it, on clean data or on iPhone."),
    ],
)
def test_reasons_name_a_second_set_as_it_is_written(changed, said):
    found = verdict(place("iPhone", **{**GOOD, **changed}), second_sets={"iPhone"})
    assert said in found.advice
    assert " On iPhone " in found.advice
    assert "iPhone noise" not in found.advice


def test_a_second_set_under_which_it_fails_is_named_beside_a_noise_under_which_it_fits():
    found = verdict(place("a", **GOOD), place("phone", **{**GOOD, "sigma_ratio": "against"}), second_sets={"phone"})
    assert found.verdict == "fits-with-settings"
    assert "fits under a noise, with care. It does not fit on phone: do not rely on it there." in found.advice
