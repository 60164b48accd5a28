"""The diagnosis on second test sets: other examples than the clean ones, drawn independently of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.diagnosis.samples import CLASSES, EVERY_NOISE, RISING_ERRORS, course, record
from vbs_cli import VarianceSmoothing, diagnose
from vbs_cli.diagnosis import Records, diagnosed, windowed
from vbs_cli.errors import InvalidInput

FEW, MANY = 20, 2000  # replicates; intervals of many are compared with formulas
WITHIN = 0.12  # relative error of a width from that many


def others(found):
    """A record of other examples, with the same spread and errors at the same places."""
    return replace(found, logits=found.logits.roll(1, 1), labels=(found.labels + 1) % CLASSES)


def judged(noisy, replicates=FEW, clean_error=0.2, **options):
    return diagnose(record(2.0, clean_error), noisy, record(2.0, 0.05, seed=1), replicates=replicates, **options)


def answer(found, question, name="phone"):
    (finding,) = [f for f in found.findings if (f.question, f.noise) == (question, name)]
    return finding


def width(finding):
    return finding.high - finding.low


def of_normal(*variances):
    """Width of the 95 % interval of a sum of independent estimates with these variances."""
    return 2 * 1.96 * sum(variances) ** 0.5


def variance_of(share, examples):
    return share * (1 - share) / examples


@pytest.mark.parametrize("examples", [600, 150])
def test_a_difference_to_other_examples_has_the_variance_of_both(examples):
    other = others(record(3.0, 0.4, examples=examples))
    gain = answer(judged({"phone": [(1.0, other)]}, MANY), "error_gain")
    before, after = (float(r.logits.argmax(1).ne(r.labels).double().mean()) for r in (record(2.0, 0.2), other))
    assert gain.value == pytest.approx(after - before)
    expected = of_normal(variance_of(before, 600), variance_of(after, examples))
    assert width(gain) == pytest.approx(expected, rel=WITHIN)


def test_a_difference_to_the_same_examples_has_the_variance_of_their_differences():
    before, after = record(2.0, 0.2), record(3.0, 0.4)
    gain = answer(judged({"phone": [(1.0, after)]}, MANY), "error_gain")
    wrong = [r.logits.argmax(1).ne(r.labels).double() for r in (before, after)]
    expected = of_normal(float((wrong[1] - wrong[0]).var()) / 600)
    assert width(gain) == pytest.approx(expected, rel=WITHIN)
    assert expected < 0.7 * of_normal(*(float(each.var()) / 600 for each in wrong))


def test_a_ratio_to_other_examples_varies_as_if_both_were_drawn_by_themselves():
    clean, other = record(2.0, 0.2), others(record(3.0, 0.4, examples=150))
    found = answer(judged({"phone": [(1.0, other)]}, MANY), "sigma_ratio")
    rng = np.random.default_rng(0)
    means = [rng.choice(r.sigma.double().numpy(), (4000, len(r))).mean(1) for r in (clean, other)]
    low, high = np.quantile(means[1] / means[0], [0.025, 0.975])
    assert width(found) == pytest.approx(high - low, rel=WITHIN)
    assert found.value == pytest.approx(float(other.sigma.mean() / clean.sigma.mean()), rel=1e-6)


def test_a_share_of_other_examples_has_the_variance_of_their_number():
    phone = others(record(2.35, 0.4, examples=150))
    share = answer(judged({"phone": [(1.0, phone)]}, MANY), "smoothed")
    assert 0.2 < share.value < 0.8
    assert width(share) == pytest.approx(of_normal(variance_of(share.value, 150)), rel=WITHIN)


def test_levels_with_the_same_other_examples_are_drawn_together():
    phone = others(record(3.0, 0.4))
    found = judged({"phone": [(0.5, phone), (1.0, phone)]}, 200)
    lowest, strongest = (answer(found, name) for name in ("sigma_lowest", "sigma_ratio"))
    assert (lowest.low, lowest.value, lowest.high) == (strongest.low, strongest.value, strongest.high)
    assert width(lowest) > 0


def test_what_is_found_on_a_second_set_does_not_depend_on_what_else_is_asked():
    phone, noise = others(record(3.0, 0.4, examples=150)), course(EVERY_NOISE["rising"], RISING_ERRORS)
    alone = judged({"phone": [(1.0, phone)]})
    beside = judged({"rising": noise, "phone": [(1.0, phone)]})
    without = judged({"rising": noise})
    for found, name in ((alone, "phone"), (without, "rising")):
        own, both = ([f for f in each.findings if f.noise == name] for each in (found, beside))
        assert own == both


def test_a_second_set_whose_spread_rises_fits_and_is_spoken_of_as_a_place():
    phone, noise = others(record(4.0, 0.5, examples=150)), course(EVERY_NOISE["rising"], RISING_ERRORS)
    found = judged({"phone": [(1.0, phone)]}, clean_error=0.05)
    assert found.verdict == "fits"
    assert found.advice.startswith("Variance-based smoothing fits on phone. On phone sigma_bar goes to")
    both = judged({"rising": noise, "phone": [(1.0, phone)]}, clean_error=0.05)
    assert "fits under rising noise and on phone." in both.advice


def test_a_second_set_whose_spread_falls_does_not_fit():
    found = judged({"phone": [(1.0, others(record(1.0, 0.6, examples=150)))]}, clean_error=0.05)
    assert found.verdict == "does-not-fit"
    assert "sigma_bar does not rise with the errors on phone." in found.advice


def test_the_same_examples_are_a_second_set_if_the_caller_says_so():
    noisy = {"phone": [(1.0, record(4.0, 0.5))]}
    assert "under phone noise" in judged(noisy, clean_error=0.05).advice
    assert "on phone" in judged(noisy, clean_error=0.05, second_sets=["phone"]).advice


@pytest.mark.parametrize(
    "second",
    [
        {"phone": [(1.0, record(4.0, 0.5))]},
        {"phone": [(1.0, others(record(4.0, 0.5, examples=599)))]},
        {"phone": [(0.5, others(record(4.0, 0.5)))]},
        {"phone": [(0.5, others(record(4.0, 0.5))), (1.0, others(record(4.0, 0.5)))]},
        {"day-2": [(1.0, others(record(4.0, 0.5)))]},
    ],
)
def test_seeds_must_have_the_same_examples_at_the_same_place(second):
    def records(noisy):
        val = record(2.0, 0.05, seed=9)
        return Records(val, record(2.0, 0.05), noisy, [windowed(val, "logits")])

    first = {"phone": [(1.0, others(record(4.0, 0.5)))]}
    assert diagnosed([records(first)] * 2, VarianceSmoothing(), replicates=FEW).verdict == "fits"
    with pytest.raises(InvalidInput, match="seeds are on different examples"):
        diagnosed([records(first), records(second)], VarianceSmoothing(), replicates=FEW)
    other_clean = replace(records(first), clean=others(record(2.0, 0.05)))
    with pytest.raises(InvalidInput, match="seeds are on different examples"):
        diagnosed([records(first), other_clean], VarianceSmoothing(), replicates=FEW)


def test_seeds_of_a_second_set_are_averaged():
    def records(seed):
        val = record(2.0, 0.05, seed=9)
        phone = others(record(4.0, 0.5, seed=seed, examples=150))
        return Records(val, record(2.0, 0.05, seed=seed), {"phone": [(1.0, phone)]}, [windowed(val, "logits")])

    seeds = [records(0), records(1)]
    both, *each = (diagnosed(some, VarianceSmoothing(), replicates=FEW) for some in (seeds, seeds[:1], seeds[1:]))
    for question in ("error_gain", "smoothed", "nll_conventional"):
        mean = sum(answer(one, question).value for one in each) / 2
        assert answer(both, question).value == pytest.approx(mean), question


def test_labels_on_their_own_decide_what_is_the_same_example():
    same = record(3.0, 0.4)
    changed = replace(same, labels=torch.cat([same.labels[:-1], (same.labels[-1:] + 1) % CLASSES]))
    widths = [width(answer(judged({"phone": [(1.0, r)]}, 500), "error_gain")) for r in (same, changed)]
    assert widths[1] > 1.3 * widths[0]
