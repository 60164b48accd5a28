"""Averages of sub-predictions, against the formula written out."""

import numpy as np
import pytest
import scipy.special
import torch

from vbs_cli import DeepEnsemble, DropoutSmoothing, EnsembleSmoothing, Logits, MCDropout, PatchAveraging
from vbs_cli.errors import InvalidInput

MEMBERS = 3 * torch.randn(4, 30, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("method", [MCDropout(), DeepEnsemble()])
def test_draws_and_members_are_averaged_after_their_softmax(method):
    expected = scipy.special.softmax(MEMBERS.numpy(), axis=2).mean(0)
    np.testing.assert_allclose(method.predict_proba(Logits.from_members(MEMBERS)), expected, rtol=1e-12)


def test_patches_are_averaged_after_the_softmax_of_their_windows():
    z = MEMBERS.permute(1, 2, 0)
    windows = np.stack([z[:, :, t : t + 2].mean(2) for t in range(3)], 2)
    expected = scipy.special.softmax(windows, axis=1).mean(2)
    np.testing.assert_allclose(PatchAveraging().predict_proba(Logits.from_patches(z, kernel=2)), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", [DropoutSmoothing, EnsembleSmoothing])
def test_smoothing_divides_the_mean_logits_by_the_spread_between_members(kind):
    record = Logits.from_members(MEMBERS)
    sigma = MEMBERS.numpy().std(0, ddof=1).mean(1)
    fitted = kind().fit(record)
    assert fitted.beta == pytest.approx(-np.percentile(sigma, 75))
    s = np.maximum(sigma + fitted.beta, 1)
    expected = scipy.special.softmax(MEMBERS.numpy().mean(0) / s[:, None], axis=1)
    np.testing.assert_allclose(fitted.predict_proba(record), expected, rtol=1e-9)


def test_members_that_agree_are_left_as_they_are():
    agreeing = Logits.from_members(MEMBERS[:1].repeat(5, 1, 1))
    expected = MEMBERS[0].softmax(1)
    torch.testing.assert_close(DeepEnsemble().predict_proba(agreeing), expected)
    torch.testing.assert_close(EnsembleSmoothing().fit(agreeing).predict_proba(agreeing), expected)


def test_plain_logits_have_nothing_to_average():
    with pytest.raises(InvalidInput, match="no sub-predictions; make it with from_patches or from_members"):
        DeepEnsemble().predict_proba(Logits.from_logits(MEMBERS[0]))
