"""What is measured is what the library predicts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vbs_cli.bench import Network
from vbs_cli.bench.contenders import (
    CONTENDERS,
    CONVENTIONAL,
    TEMPERATURE,
    VBS,
    Case,
    draw_generator,
    find_contender,
)
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits, pool
from vbs_cli.methods import METHODS, Method
from vbs_cli.models.dropout import Dropout, use_generator

DRAWS = 4


@pytest.fixture
def x(network: Network) -> Tensor:
    return network.inputs(6)


def case_of(network: Network, *, dropout: bool) -> Case:
    return Case(network.build(dropout=dropout), kernel=network.kernel, draws=DRAWS)


@pytest.mark.parametrize(
    ("name", "fitted"), [("conventional", CONVENTIONAL), ("temperature", TEMPERATURE), ("vbs", VBS)]
)
@torch.inference_mode()
def test_a_single_pass_predicts_what_the_method_makes_of_the_patches(
    network: Network, x: Tensor, name: str, fitted: Method
) -> None:
    case = case_of(network, dropout=False)
    record = Logits.from_patches(case.model(x), kernel=network.kernel)
    assert type(fitted) is METHODS[name]
    torch.testing.assert_close(find_contender(name, "paper").predict(case, x), fitted.predict_proba(record))


@torch.inference_mode()
def test_smoothing_makes_a_difference_in_what_is_measured(network: Network, x: Tensor) -> None:
    case = case_of(network, dropout=False)
    plain = find_contender("conventional", "paper").predict(case, x)
    smooth = find_contender("vbs", "paper").predict(case, x)
    assert (smooth.max(1).values < plain.max(1).values).all()


@torch.inference_mode()
def test_draws_in_turn_predict_what_mc_dropout_makes_of_the_draws(network: Network, x: Tensor) -> None:
    case = case_of(network, dropout=True)
    members = []
    for draw in range(DRAWS):
        use_generator(case.model, draw_generator(draw, x.device))
        members.append(pool(case.model(x)))
    expected = METHODS["mc-dropout"]().predict_proba(Logits.from_members(torch.stack(members)))
    torch.testing.assert_close(find_contender("mc-dropout", "vbs").predict(case, x), expected)


@torch.inference_mode()
def test_draws_at_once_predict_what_mc_dropout_makes_of_the_draws(network: Network, x: Tensor) -> None:
    case = case_of(network, dropout=True)
    use_generator(case.model, draw_generator(0, x.device))
    members = pool(case.model(torch.cat([x] * DRAWS))).view(DRAWS, len(x), network.classes)
    expected = METHODS["mc-dropout"]().predict_proba(Logits.from_members(members))
    torch.testing.assert_close(find_contender("mc-dropout", "paper").predict(case, x), expected)


@pytest.mark.parametrize("variant", ["paper", "vbs"])
@torch.inference_mode()
def test_draws_leave_the_dropouts_off(network: Network, x: Tensor, variant: str) -> None:
    case = case_of(network, dropout=True)
    find_contender("mc-dropout", variant).predict(case, x)
    dropouts = [module for module in case.model.modules() if isinstance(module, Dropout)]
    assert dropouts
    assert all(module.generator is None for module in dropouts)


def test_only_mc_dropout_runs_the_network_with_dropouts() -> None:
    assert {contender.method for contender in CONTENDERS if contender.dropout} == {"mc-dropout"}


def test_an_unknown_contender_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"mc-dropout \(vbs\)"):
        find_contender("vbs", "vbs")
