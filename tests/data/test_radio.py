"""The radio dataset: what becomes of the simulator's windows."""

import numpy as np
import pytest
import torch

from vbs_cli.data import DATASETS, radio, radio_sim
from vbs_cli.errors import MissingArtifact


def test_each_example_is_scaled_to_one_by_its_own_range_over_both_channels():
    x = torch.tensor([[[0.0, 2.0], [4.0, 1.0]], [[-3.0, -1.0], [-2.0, -1.5]]])
    expected = [[[-1.0, 0.0], [1.0, -0.5]], [[-1.0, 1.0], [0.0, 0.5]]]
    np.testing.assert_allclose(radio.scale(x), expected)


def test_a_constant_example_stays_finite():
    assert torch.isfinite(radio.scale(torch.full((1, 2, 4), 3.0))).all()


def test_the_first_500_samples_are_dropped_before_scaling(monkeypatch):
    monkeypatch.setitem(radio.SIZES, "quick", {"train": 40, "val": 20, "test": 20})
    preparation = DATASETS["radio"](simulate=True, profile="quick", seed=3)
    ((x, y),) = preparation.batches("train")
    ((raw, labels),) = radio_sim.batches("train", 40, seed=3)
    assert x.shape == (40, *preparation.shape) == (40, 2, 1580)
    assert torch.equal(y, labels)
    assert torch.equal(x, radio.scale(raw[:, :, 500:]))
    assert torch.equal(x.amin((1, 2)), -torch.ones(40))
    torch.testing.assert_close(x.amax((1, 2)), torch.ones(40))


def test_sizes_are_those_of_the_profiles_and_the_source_says_simulated():
    paper = DATASETS["radio"](simulate=True, profile="paper", seed=0)
    assert list(paper.counts.values()) == [70_000, 9_900, 20_100]
    quick = DATASETS["radio"](simulate=True, profile="quick", seed=0)
    assert list(quick.counts.values()) == [6_000, 1_500, 3_000]
    assert quick.source.startswith("simulated")
    assert quick.recipe != DATASETS["radio"](simulate=True, profile="quick", seed=1).recipe


def test_what_cannot_be_fetched_names_the_way_out():
    with pytest.raises(MissingArtifact, match="--simulate"):
        DATASETS["radio"](simulate=False, profile="quick")
