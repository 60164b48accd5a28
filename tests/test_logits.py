"""The record: its formulas against float64 numpy, its refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vbs_cli import Logits, sigma_bar
from vbs_cli.errors import InvalidInput, NotFinite


def patches(shape=(6, 5, 12), seed=0, scale=3.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sigma_by_numpy(z: np.ndarray, kernel: int) -> np.ndarray:
    """The definition, written out: windows, sample deviation per class, mean over classes."""
    z = z.astype(np.float64)
    if z.ndim == 3:
        windows = np.stack([z[:, :, t : t + kernel].mean(2) for t in range(z.shape[2] - kernel + 1)], 2)
    else:
        rows, columns = (size - kernel + 1 for size in z.shape[2:])
        windows = np.stack(
            [z[:, :, i : i + kernel, j : j + kernel].mean((2, 3)) for i in range(rows) for j in range(columns)], 2
        )
    return windows.std(axis=2, ddof=1).mean(axis=1)


@pytest.mark.parametrize("kernel", [1, 2, 5, 11])
def test_sigma_bar_of_signals_equals_the_definition(kernel):
    z = patches()
    np.testing.assert_allclose(sigma_bar(z, kernel=kernel), sigma_by_numpy(z.numpy(), kernel), rtol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3])
def test_sigma_bar_of_images_equals_the_definition(kernel):
    z = patches((4, 5, 6, 7))
    np.testing.assert_allclose(sigma_bar(z, kernel=kernel), sigma_by_numpy(z.numpy(), kernel), rtol=1e-5)


def test_logits_are_the_mean_over_single_patches_whatever_the_kernel():
    z = patches()
    for kernel in (1, 4):
        torch.testing.assert_close(Logits.from_patches(z, kernel=kernel).logits, z.mean(2))


def test_numpy_and_torch_give_the_same_record():
    z = patches()
    ours, theirs = Logits.from_patches(z, kernel=3), Logits.from_patches(z.numpy(), kernel=3)
    assert torch.equal(ours.sigma, theirs.sigma)


@given(st.integers(0, 1000), st.integers(1, 6))
def test_members_are_patches_with_the_axes_turned(seed, kernel):
    members = patches((4, 7, 3), seed)
    a, b = Logits.from_members(members), Logits.from_patches(members.permute(1, 2, 0))
    for name, value in a.tensors().items():
        assert torch.equal(value, b.tensors()[name])


def test_a_constant_per_class_does_not_change_the_spread_and_a_factor_scales_it():
    z = patches()
    shift = torch.arange(5.0)[None, :, None]
    torch.testing.assert_close(sigma_bar(z + shift, kernel=3), sigma_bar(z, kernel=3), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(sigma_bar(4 * z, kernel=3), 4 * sigma_bar(z, kernel=3))


def test_part_accuracy_counts_single_patches():
    z = torch.zeros(1, 3, 4)
    z[0, 2, :3] = 4.0
    z[0, 1, 3] = 4.0
    assert Logits.from_patches(z, labels=[2]).part_accuracy.item() == 0.75


def test_mean_softmax_is_over_the_windows():
    z = patches((2, 3, 6))
    windows = torch.stack([z[:, :, t : t + 2].mean(2) for t in range(5)], 2)
    torch.testing.assert_close(Logits.from_patches(z, kernel=2).mean_softmax, windows.softmax(1).mean(2))


def test_the_kernel_can_be_changed_where_parts_were_kept():
    z = patches()
    kept = Logits.from_patches(z, kernel=3, keep_parts=True).at_kernel(5)
    assert torch.equal(kept.sigma, sigma_bar(z, kernel=5))
    with pytest.raises(InvalidInput, match="keeps no parts"):
        Logits.from_patches(z).at_kernel(2)


def test_extras_survive_a_round_trip_and_concatenation():
    record = Logits.from_tensors({"logits": patches((3, 4)), "activation_norm": torch.ones(3)})
    assert set(record.extras) == {"activation_norm"}
    assert len(Logits.concat([record, record]).extras["activation_norm"]) == 6


@pytest.mark.parametrize(
    ("z", "kernel", "message"),
    [
        (torch.randn(3, 4, 1), 1, "no standard deviation"),
        (torch.randn(3, 4, 5), 6, "longer than"),
        (torch.randn(3, 4, 5), 5, "no standard deviation"),
        (torch.randn(3, 4, 5), 0, "at least 1"),
        (torch.randn(3, 1, 5), 1, "1 classes"),
        (torch.randn(0, 4, 5), 1, "no examples"),
        (torch.randn(3, 4), 1, "expected"),
        (torch.randn(3, 4, 5).softmax(1), 1, "look like probabilities"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(z, kernel, message):
    with pytest.raises(InvalidInput, match=message):
        Logits.from_patches(z, kernel=kernel)


def test_one_member_has_no_spread():
    with pytest.raises(InvalidInput, match="no standard deviation"):
        Logits.from_members(torch.randn(1, 5, 3))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_counted_and_located(bad):
    z = patches()
    z[2, 1, 3] = bad
    z[4, 0, 0] = bad
    with pytest.raises(NotFinite, match="2 of 6 examples, the first is 2"):
        Logits.from_patches(z)


@pytest.mark.parametrize(
    ("labels", "message"), [([0, 1], "expected"), ([0] * 5 + [5], "0 to 5"), ([-1] * 6, "-1"), ([0.5] * 6, "float")]
)
def test_labels_must_fit(labels, message):
    with pytest.raises(InvalidInput, match=message):
        Logits.from_patches(patches(), labels=labels)


def test_constant_and_huge_logits_stay_finite():
    assert torch.equal(sigma_bar(torch.full((2, 3, 4), 7.0)), torch.zeros(2))
    assert torch.isfinite(sigma_bar(1e5 * patches())).all()
