"""Training one network, epoch by epoch, so that a stopped training goes on and ends with the same bits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vbs_cli.data.base import Split
from vbs_cli.errors import NotFinite
from vbs_cli.logits import pool
from vbs_cli.models.dropout import use_generator
from vbs_cli.seeding import generator, seed_of


@dataclass(frozen=True)
class Epoch:
    """One row of the training table."""

    epoch: int  # from 1
    loss: float
    accuracy: float
    val_loss: float
    val_accuracy: float
    seconds: float
    waited: float = 0.0  # of these, for the data of the next step


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that the next epoch depends on. Random numbers are named by seed and epoch, so they need no state."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # "<parameter>.<quantity>"
    history: tuple[Epoch, ...]

    @property
    def epoch(self) -> int:
        return len(self.history)


def initialised(build: Callable[[], nn.Module], *, seed: int, role: str) -> nn.Module:
    """A network whose first weights depend on seed and role alone; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("weights", seed, role))
        return build()


def train(
    model: nn.Module,
    data: Split,
    val: Split,
    *,
    epochs: int,
    batch: int,
    lr: float,
    weight_decay: float,
    seed: int,
    role: str,
    device: torch.device | str = "cpu",
    resume: Checkpoint | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> Iterator[Checkpoint]:
    """Train with Adam and cross entropy on the pooled patch logits, yielding a checkpoint after every epoch."""
    model.to(device)
    optimizer = adam(model, lr=lr, weight_decay=weight_decay)
    history: tuple[Epoch, ...] = ()
    if resume is not None:
        model.load_state_dict(resume.weights)
        load_optimizer(optimizer, model, resume.optimizer)
        history = resume.history
    for epoch in range(len(history) + 1, epochs + 1):
        started = time.monotonic()
        use_generator(model, generator("dropout", seed, role, epoch, device=device))
        order = torch.randperm(len(data), generator=generator("order", seed, role, epoch))
        drawn = data.redrawn(generator("crop", seed, role, epoch))
        loss, accuracy, waited = one_epoch(
            model, optimizer, drawn, torch.split(order, batch), device=device, advance=advance
        )
        use_generator(model, None)
        val_loss, val_accuracy = validate(model, val, device=device)
        seconds = time.monotonic() - started
        history = (*history, Epoch(epoch, loss, accuracy, val_loss, val_accuracy, seconds, waited))
        yield Checkpoint(weights_of(model), optimizer_tensors(optimizer, model), history)


def one_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Split,
    batches: tuple[Tensor, ...],
    *,
    device: torch.device | str,
    advance: Callable[[int], None],
) -> tuple[float, float, float]:
    """Mean loss and accuracy over the epoch, as they were when each batch was seen, and the time waited for data."""
    model.train()
    total = torch.zeros(2, dtype=torch.float64)
    waited = 0.0
    for index in batches:
        started = time.monotonic()
        x, y = data.inputs(index.numpy()).to(device), data.y[index].to(device)
        waited += time.monotonic() - started
        loss, logits = step(model, optimizer, x, y)
        value = loss.item()
        if not math.isfinite(value):
            raise NotFinite(f"the loss became {value}", hint="a smaller --lr may help")
        total += torch.tensor([value * len(y), float((logits.argmax(1) == y).sum())], dtype=torch.float64)
        advance(len(y))
    mean = total / len(data)
    return float(mean[0]), float(mean[1]), waited


def adam(model: nn.Module, *, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay, fused=True)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """One step of the optimiser: (B, C, *size), (B,) -> the loss and the logits before it."""
    logits = pool(model(x))
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach(), logits.detach()


@torch.inference_mode()
def validate(model: nn.Module, val: Split, *, device: torch.device | str) -> tuple[float, float]:
    """Loss and accuracy on a split, dropout off."""
    model.eval()
    scores = torch.cat([pool(model(x.to(device))).cpu() for _, x in val.blocks()])
    loss = nn.functional.cross_entropy(scores.double(), val.y)
    return float(loss), float((scores.argmax(1) == val.y).double().mean())


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimiser's state by the names of the parameters."""
    return {
        f"{name}.{quantity}": value.detach().cpu().clone()
        for name, parameter in model.named_parameters()
        for quantity, value in optimizer.state[parameter].items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        for quantity in ("step", "exp_avg", "exp_avg_sq"):
            optimizer.state[parameter][quantity] = tensors[f"{name}.{quantity}"].to(parameter.device, copy=True)
