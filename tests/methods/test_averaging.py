"""Averages of sub-predictions, against the formula written out."""

import numpy as np
import pytest
import scipy.special
import torch

from vbs_cli import Averaging, Logits, VarianceSmoothing
from vbs_cli.errors import InvalidInput
from vbs_cli.pairs import find_pair, method_of

MEMBERS = 3 * torch.randn(4, 30, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(("name", "view"), [("mc-dropout", "draws"), ("ensemble", "members")])
def test_draws_and_members_are_averaged_after_their_softmax(name, view):
    assert str(find_pair(name)) == f"mean@{view}"
    method = method_of(find_pair(name), {})
    assert method == Averaging()
    expected = scipy.special.softmax(MEMBERS.numpy(), axis=2).mean(0)
    np.testing.assert_allclose(method.predict_proba(Logits.from_members(MEMBERS)), expected, rtol=1e-12)


def test_patches_are_averaged_after_the_softmax_of_their_windows():
    z = MEMBERS.permute(1, 2, 0)
    windows = np.stack([z[:, :, t : t + 2].mean(2) for t in range(3)], 2)
    expected = scipy.special.softmax(windows, axis=1).mean(2)
    assert method_of(find_pair("naive"), {}) == Averaging()
    np.testing.assert_allclose(Averaging().predict_proba(Logits.from_patches(z, kernel=2)), expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "view"), [("vbs-dropout", "draws"), ("vbs-ensemble", "members")])
def test_smoothing_divides_the_mean_logits_by_the_spread_between_members(name, view):
    assert str(find_pair(name)) == f"vbs@{view}"
    method = method_of(find_pair(name), {})
    assert method == VarianceSmoothing(beta="q75")
    record = Logits.from_members(MEMBERS)
    sigma = MEMBERS.numpy().std(0, ddof=1).mean(1)
    fitted = method.fit(record)
    assert fitted.beta == pytest.approx(-np.percentile(sigma, 75))
    s = np.maximum(sigma + fitted.beta, 1)
    expected = scipy.special.softmax(MEMBERS.numpy().mean(0) / s[:, None], axis=1)
    np.testing.assert_allclose(fitted.predict_proba(record), expected, rtol=1e-9)


def test_members_that_agree_are_left_as_they_are():
    agreeing = Logits.from_members(MEMBERS[:1].repeat(5, 1, 1))
    expected = MEMBERS[0].softmax(1)
    torch.testing.assert_close(Averaging().predict_proba(agreeing), expected)
    torch.testing.assert_close(VarianceSmoothing(beta="q75").fit(agreeing).predict_proba(agreeing), expected)


def test_plain_logits_have_nothing_to_average():
    with pytest.raises(InvalidInput, match="no sub-predictions; make it with from_patches or from_members"):
        Averaging().predict_proba(Logits.from_logits(MEMBERS[0]))
