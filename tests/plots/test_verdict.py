"""The verdict says what the numbers say, whichever way they go."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pandas as pd
import pytest

from vbs_cli.plots.verdict import verdict


def table(ece: Mapping[str, Sequence[float]], sigma: Sequence[float] = (), noise: str = "gaussian") -> pd.DataFrame:
    """ECE per method and seed at level 0.5 of a noise, and `sigma_bar` at evenly spaced levels."""
    rows = [
        (seed, method, noise, 0.5, "ece", value) for method, values in ece.items() for seed, value in enumerate(values)
    ]
    n_seeds = len(ece.get("vbs", ()))
    for seed, (i, value) in itertools.product(range(n_seeds), enumerate(sigma)):
        rows.append((seed, "vbs", noise, i / (len(sigma) - 1), "sigma_bar", value))
    return pd.DataFrame(rows, columns=["seed", "method", "noise", "level", "metric", "value"])


def test_better_in_every_seed() -> None:
    found = verdict(table({"conventional": [0.29, 0.31, 0.33], "vbs": [0.09, 0.12, 0.15]}))
    assert found.findings[0].tone == "better"
    assert found.findings[0].text == (
        "Under gaussian noise at level 0.50 variance-based smoothing lowers ECE "
        "from 0.310 ± 0.020 to 0.120 ± 0.030 (lower in 3 of 3 seeds)."
    )
    assert "better under gaussian 0.50" in found.lead


def test_worse_in_every_seed() -> None:
    found = verdict(table({"conventional": [0.1, 0.1, 0.1], "vbs": [0.2, 0.3, 0.4]}))
    assert found.findings[0].tone == "worse"
    assert "raises ECE from 0.100 ± 0.000 to 0.300 ± 0.100 (higher in 3 of 3" in found.findings[0].text
    assert "worse under gaussian 0.50" in found.lead


def test_seeds_that_disagree_are_mixed_even_if_the_mean_falls() -> None:
    found = verdict(table({"conventional": [0.3, 0.3, 0.3], "vbs": [0.1, 0.1, 0.31]}))
    assert found.findings[0].tone == "mixed"
    assert "mixed effect on ECE" in found.findings[0].text
    assert "(lower in 2 of 3 seeds)" in found.findings[0].text


def test_a_method_that_changes_nothing_is_said_to_change_nothing() -> None:
    found = verdict(table({"conventional": [0.3, 0.2], "vbs": [0.3, 0.20001]}))
    assert found.findings[0].tone == "same"
    assert "leaves ECE at 0.250" in found.findings[0].text
    assert "the same under gaussian 0.50" in found.lead


def test_clean_data_have_their_own_sentence() -> None:
    clean = table({"conventional": [0.1, 0.1], "vbs": [0.2, 0.2]}, noise="clean").assign(level=0.0)
    noisy = table({"conventional": [0.4, 0.4], "vbs": [0.2, 0.2]})
    found = verdict(pd.concat([noisy, clean]))
    assert [each.condition for each in found.findings] == ["clean", "gaussian 0.50"]
    assert found.findings[0].text.startswith("On clean data variance-based smoothing raises ECE")
    assert found.lead.endswith("better under gaussian 0.50; worse on clean data.")


def test_the_lead_gathers_conditions_with_the_same_outcome() -> None:
    ece = {"conventional": [0.4, 0.4], "vbs": [0.2, 0.2]}
    noises = [table(ece, noise=noise) for noise in ("gaussian", "speckle")]
    clean = table(ece, noise="clean").assign(level=0.0)
    lead = verdict(pd.concat([clean, *noises])).lead
    assert lead.endswith("better on clean data and under gaussian 0.50 and speckle 0.50.")


def test_one_seed_is_not_dressed_up() -> None:
    text = verdict(table({"conventional": [0.3], "vbs": [0.1]})).findings[0].text
    assert text.endswith("from 0.300 to 0.100 (one seed).")


def test_only_seeds_with_both_methods_are_compared() -> None:
    text = verdict(table({"conventional": [0.3, 0.3, 0.3, 0.9], "vbs": [0.1, 0.1, 0.1]})).findings[0].text
    assert "from 0.300 ± 0.000 to 0.100 ± 0.000 (lower in 3 of 3 seeds)" in text


def test_a_better_rival_is_named() -> None:
    ece = {"conventional": [0.3, 0.3], "vbs": [0.2, 0.2], "mc-dropout": [0.1, 0.1]}
    assert "that of MC-dropout, 0.100" in verdict(table(ece)).findings[0].details
    ece["mc-dropout"] = [0.4, 0.4]
    assert "No other method has a lower ECE here." in verdict(table(ece)).findings[0].details


@pytest.mark.parametrize(
    ("sigma", "words", "warned"),
    [
        ([1.5, 2.0, 2.4, 3.0], "sigma_bar rises with the noise, from 1.50 to 3.00 at level 1.00", False),
        ([1.53, 1.0, 0.6, 0.47], "sigma_bar falls with the noise, from 1.53 to 0.47 at level 1.00", True),
        ([2.0, 0.6, 1.1, 1.7], "sigma_bar falls with the noise", True),
        ([2.0, 0.6, 1.7, 2.6], "sigma_bar neither rises nor falls clearly", False),
    ],
)
def test_sigma_bar_is_judged_against_its_clean_value(sigma: list[float], words: str, warned: bool) -> None:
    found = verdict(table({"conventional": [0.3, 0.3], "vbs": [0.1, 0.1]}, sigma))
    assert words in found.findings[0].details
    assert ("sigma_bar falls under gaussian noise" in found.lead) == warned


def test_without_both_methods_there_is_no_verdict() -> None:
    found = verdict(table({"conventional": [0.3]}))
    assert found.lead.startswith("No verdict")
    assert not found.findings
