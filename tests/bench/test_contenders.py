"""What is measured is what the library predicts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from vbs_cli.bench import BenchNetwork
from vbs_cli.bench.contenders import CONTENDERS, CONVENTIONAL, TEMPERATURE, VBS, Case, find_contender
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits, pool
from vbs_cli.methods import Method
from vbs_cli.methods.averaging import Averaging
from vbs_cli.models.dropout import Dropout
from vbs_cli.pairs import find_pair, method_of

DRAWS, MEMBERS = 4, 3


@pytest.fixture
def x(network: BenchNetwork) -> Tensor:
    return network.inputs(6)


def case_of(method: str, variant: str, network: BenchNetwork, folder: Path) -> Case:
    return find_contender(method, variant).case(network, folder, draws=DRAWS, members=MEMBERS, device="cpu")


def predicted(method: str, variant: str, network: BenchNetwork, folder: Path, x: Tensor) -> Tensor:
    return find_contender(method, variant).predict(case_of(method, variant, network, folder), x)


def test_every_method_is_measured_in_both_variants_and_the_plain_prediction_first() -> None:
    methods = ["conventional", "temperature", "vbs", "naive", "mc-dropout", "ensemble"]
    assert [(each.method, each.variant) for each in CONTENDERS] == [
        (method, variant) for variant in ("paper", "vbs") for method in methods
    ]


@pytest.mark.parametrize("variant", ["paper", "vbs"])
@pytest.mark.parametrize(
    ("name", "fitted"),
    [("conventional", CONVENTIONAL), ("temperature", TEMPERATURE), ("vbs", VBS), ("naive", Averaging())],
)
@torch.inference_mode()
def test_a_single_pass_predicts_what_the_method_makes_of_the_patches(
    network: BenchNetwork, x: Tensor, tmp_path: Path, name: str, fitted: Method, variant: str
) -> None:
    record = Logits.from_patches(network.build(dropout=False)(x), kernel=network.kernel)
    assert type(fitted) is type(method_of(find_pair(name), {}))
    found = predicted(name, variant, network, tmp_path, x)
    torch.testing.assert_close(found, fitted.predict_proba(record), rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_smoothing_makes_a_difference_in_what_is_measured(network: BenchNetwork, x: Tensor, tmp_path: Path) -> None:
    plain = predicted("conventional", "paper", network, tmp_path, x)
    smooth = predicted("vbs", "paper", network, tmp_path, x)
    assert (smooth.max(1).values < plain.max(1).values).all()


@pytest.mark.parametrize("variant", ["paper", "vbs"])
@torch.inference_mode()
def test_members_predict_what_a_deep_ensemble_makes_of_them(
    network: BenchNetwork, x: Tensor, tmp_path: Path, variant: str
) -> None:
    logits = torch.stack([pool(network.build(dropout=False, seed=seed)(x)) for seed in range(MEMBERS)])
    assert not torch.allclose(logits[0], logits[1])
    expected = method_of(find_pair("ensemble"), {}).predict_proba(Logits.from_members(logits))
    found = predicted("ensemble", variant, network, tmp_path, x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_the_members_of_an_ensemble_are_all_in_memory_or_one_at_a_time(network: BenchNetwork, tmp_path: Path) -> None:
    together = case_of("ensemble", "paper", network, tmp_path)
    in_turn = case_of("ensemble", "vbs", network, tmp_path)
    assert (len(together.nets), len(in_turn.nets), len(in_turn.saved)) == (MEMBERS, 1, MEMBERS)
    assert together.weights > 2 * in_turn.weights
    assert not case_of("vbs", "vbs", network, tmp_path).saved


@torch.inference_mode()
def test_draws_at_once_are_those_of_torchs_own_dropout(network: BenchNetwork, x: Tensor, tmp_path: Path) -> None:
    case = case_of("mc-dropout", "paper", network, tmp_path)
    dropouts = [layer for layer in case.nets[0].modules() if isinstance(layer, nn.Dropout)]
    assert [layer.training for layer in dropouts] == [True] * 5
    assert not any(isinstance(layer, Dropout) for layer in case.nets[0].modules())
    torch.manual_seed(3)
    found = find_contender("mc-dropout", "paper").predict(case, x)
    torch.manual_seed(3)
    members = pool(case.nets[0](torch.cat([x] * DRAWS))).view(DRAWS, len(x), network.classes)
    torch.testing.assert_close(
        found, method_of(find_pair("mc-dropout"), {}).predict_proba(Logits.from_members(members))
    )


@torch.inference_mode()
def test_draws_in_turn_are_draws_of_the_same_distribution(network: BenchNetwork, tmp_path: Path) -> None:
    x = network.inputs(1).expand(2_000, *network.shape)
    torch.manual_seed(0)
    at_once = predicted("mc-dropout", "paper", network, tmp_path, x)
    in_turn = predicted("mc-dropout", "vbs", network, tmp_path, x)
    error = at_once.std(0) * (2 / len(x)) ** 0.5
    assert ((at_once.mean(0) - in_turn.mean(0)).abs() < 5 * error).all()


@torch.inference_mode()
def test_draws_in_turn_leave_the_dropouts_off(network: BenchNetwork, x: Tensor, tmp_path: Path) -> None:
    case = case_of("mc-dropout", "vbs", network, tmp_path)
    find_contender("mc-dropout", "vbs").predict(case, x)
    dropouts = [module for module in case.nets[0].modules() if isinstance(module, Dropout)]
    assert dropouts
    assert all(module.generator is None for module in dropouts)


def test_only_mc_dropout_runs_the_network_with_dropouts_and_only_an_ensemble_needs_several() -> None:
    assert {contender.method for contender in CONTENDERS if contender.view == "draws"} == {"mc-dropout"}
    assert {contender.method for contender in CONTENDERS if contender.networks(7) == 7} == {"ensemble"}


def test_an_unknown_contender_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"mc-dropout \(vbs\)"):
        find_contender("vbs", "torch")
