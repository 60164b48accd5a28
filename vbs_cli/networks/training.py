"""Training of one network, epoch by epoch; one that is resumed ends with the same bits as one that ran through."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from vbs_cli.data.base import Split
from vbs_cli.errors import NotFinite
from vbs_cli.logits import pool
from vbs_cli.models.dropout import leave_uncompiled, use_generator
from vbs_cli.models.memory import channels_last, to_device
from vbs_cli.networks.base import Network, Tensors
from vbs_cli.networks.conventional import ConventionalNetwork
from vbs_cli.seeding import generator, seed_of

LOOK = 20  # steps between two readings of the loss, each of which waits for the GPU
AHEAD = 3  # batches that are loaded in advance while a GPU works
CONVENTIONAL = ConventionalNetwork()


@dataclass(frozen=True)
class Epoch:
    """One row of the training table."""

    epoch: int  # from 1
    loss: float
    accuracy: float
    val_loss: float
    val_accuracy: float
    seconds: float
    waited: float = 0.0  # part of `seconds` spent waiting for data
    speed: float = 0.0  # training examples per second


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State that the next epoch depends on. Random numbers follow from seed and epoch, so they need no state."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # "<parameter>.<quantity>"
    best: dict[str, Tensor]  # the weights of the epoch with the lowest validation loss, the first of equals
    history: tuple[Epoch, ...]
    memory: Tensors = field(default_factory=dict)  # what `Network.after_epoch` keeps across epochs

    @property
    def epoch(self) -> int:
        return len(self.history)


@dataclass(frozen=True)
class Schedule:
    """Optimiser settings and the number of epochs: all that decides the weights besides network, data and seed."""

    epochs: int
    batch: int
    lr: float
    weight_decay: float = 0.0
    patience: int = 0  # epochs without a better validation loss after which to stop; 0 never stops early
    precision: str = "float32"  # or bfloat16, for arithmetic of mixed precision
    compile: bool = False

    def is_over(self, history: Sequence[Epoch]) -> bool:
        """Whether all epochs are done, or the validation loss has not fallen for `patience` epochs."""
        if not history:
            return self.epochs == 0
        stuck = self.patience > 0 and len(history) - best_epoch(history) >= self.patience
        return len(history) >= self.epochs or stuck


@dataclass(frozen=True)
class Sight:
    """Progress of a training within an epoch."""

    epoch: int
    loss: float  # mean of the epoch so far
    accuracy: float
    speed: float  # examples per second


def best_epoch(history: Sequence[Epoch]) -> int:
    """Number of the epoch with the lowest validation loss, the first of equals."""
    return min(history, key=lambda epoch: epoch.val_loss).epoch


def initialised(build: Callable[[], nn.Module], *, seed: int, name: str) -> nn.Module:
    """Build a network whose initial weights depend on seed and name alone; the global random state is unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("weights", seed, name))
        return build()


def train(
    model: nn.Module,
    data: Split,
    val: Split,
    schedule: Schedule,
    *,
    seed: int,
    name: str,
    network: Network = CONVENTIONAL,
    device: torch.device | str = "cpu",
    resume: Checkpoint | None = None,
    advance: Callable[[int], None] = lambda count: None,
    watch: Callable[[Sight], None] = lambda sight: None,
) -> Iterator[Checkpoint]:
    """Train with Adam on the network's loss of the pooled patch logits, yielding a checkpoint after every epoch.

    Random numbers follow from the seed and the `name` of the network. `advance` is called with the size of every
    batch, `watch` every LOOK batches with the progress of the epoch.
    """
    device = torch.device(device)
    if device.type == "cuda":
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    model = channels_last(model, device)
    optimizer = adam(model, lr=schedule.lr, weight_decay=schedule.weight_decay)
    history: tuple[Epoch, ...] = ()
    best: dict[str, Tensor] = {}
    memory: Tensors = {}
    if resume is not None:
        model.load_state_dict(resume.weights)
        load_optimizer(optimizer, model, resume.optimizer)
        history, best, memory = resume.history, resume.best, resume.memory
    runs = compiled(model) if schedule.compile else model
    stepper = Stepper(runs, optimizer, schedule.precision, device, network)
    while not schedule.is_over(history):
        epoch = len(history) + 1
        started = time.monotonic()
        use_generator(model, generator("dropout", seed, name, epoch, device=device))
        order = torch.randperm(len(data), generator=generator("order", seed, name, epoch))
        drawn = data.redrawn(generator("crop", seed, name, epoch))
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed_of("global", seed, name, epoch))  # for layers that draw from the global generator
            batches = torch.split(order, schedule.batch)
            loss, accuracy, waited = one_epoch(stepper, drawn, batches, epoch=epoch, advance=advance, watch=watch)
        speed = len(data) / (time.monotonic() - started)
        use_generator(model, None)
        memory = copied(network.after_epoch(model, copied(memory), epoch=epoch))
        val_loss, val_accuracy = validate(model, val, network, epoch=epoch, device=device)
        seconds = time.monotonic() - started
        history = (*history, Epoch(epoch, loss, accuracy, val_loss, val_accuracy, seconds, waited, speed))
        weights = weights_of(model)
        best = weights if best_epoch(history) == epoch else best
        yield Checkpoint(weights, optimizer_tensors(optimizer, model), best, history, memory)


def compiled(model: nn.Module) -> nn.Module:
    """Compile a network, all but its dropouts, with torch.compile; the parameters are shared."""
    leave_uncompiled(model)
    return torch.compile(model)  # type: ignore[return-value]


@dataclass
class Stepper:
    """Network and optimiser, with the function that takes one training step."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    precision: str = "float32"
    device: torch.device | str = "cpu"
    network: Network = CONVENTIONAL

    def step(self, x: Tensor, y: Tensor, *, epoch: int = 1) -> tuple[Tensor, Tensor]:
        """Take one step; return the loss and the number of right answers before it: (B, C, *size), (B,) -> (), ()."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            logits = pool(self.model(x)).float()
        loss = self.network.loss(logits, y, epoch=epoch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach(), (logits.detach().argmax(1) == y).sum()


def one_epoch(
    stepper: Stepper,
    data: Split,
    batches: Sequence[Tensor],
    *,
    epoch: int,
    advance: Callable[[int], None],
    watch: Callable[[Sight], None],
) -> tuple[float, float, float]:
    """Train for one epoch; return mean loss and accuracy, both before each step, and seconds waited for data."""
    stepper.model.train()
    total = torch.zeros(3, dtype=torch.float64)  # loss, right answers, examples
    unseen: list[tuple[Tensor, Tensor, int]] = []
    waited = 0.0
    began = started = time.monotonic()
    for number, (x, y) in enumerate(loaded(data, batches, stepper.device), 1):
        waited += time.monotonic() - started
        unseen.append((*stepper.step(x, y, epoch=epoch), len(y)))
        advance(len(y))
        if number % LOOK == 0 or number == len(batches):
            total += summed(unseen)
            unseen.clear()
            loss, accuracy = (total[:2] / total[2]).tolist()
            watch(Sight(epoch, loss, accuracy, float(total[2]) / (time.monotonic() - began)))
        started = time.monotonic()
    return loss, accuracy, waited


def summed(batches: Sequence[tuple[Tensor, Tensor, int]]) -> Tensor:
    """Sums of loss, right answers and examples over batches, (3,); a loss that is not finite is an error."""
    losses = torch.stack([loss for loss, *_ in batches]).cpu().double()
    right = torch.stack([right for _, right, _ in batches]).sum().cpu().double()
    wrong = losses[~losses.isfinite()]
    if len(wrong):
        raise NotFinite(f"the loss became {float(wrong[0])}", hint="a smaller --lr may help")
    sizes = torch.tensor([size for *_, size in batches], dtype=torch.float64)
    return torch.stack([(losses * sizes).sum(), right, sizes.sum()])


def loaded(data: Split, batches: Sequence[Tensor], device: torch.device | str) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches on a device. The next ones are loaded while a GPU works; on a CPU that would gain nothing."""
    device = torch.device(device)

    def load(index: Tensor) -> tuple[Tensor, Tensor]:
        x, y = data.inputs(index.numpy()), data.y[index]
        if device.type == "cuda":
            x, y = x.pin_memory(), y.pin_memory()
        return to_device(x, device), to_device(y, device)

    if device.type == "cpu":
        yield from map(load, batches)
        return
    with ThreadPoolExecutor(1) as loader:
        ahead: deque[Future[tuple[Tensor, Tensor]]] = deque()
        for index in batches:
            ahead.append(loader.submit(load, index))
            if len(ahead) > AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def adam(model: nn.Module, *, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay, fused=True)


@torch.inference_mode()
def validate(
    model: nn.Module, val: Split, network: Network = CONVENTIONAL, *, epoch: int = 1, device: torch.device | str
) -> tuple[float, float]:
    """Loss and accuracy on a split, with dropout off."""
    model.eval()
    scores = torch.cat([pool(model(to_device(x, device))).cpu() for _, x in val.blocks()])
    loss = network.loss(scores.double(), val.y, epoch=epoch)
    return float(loss), float((scores.argmax(1) == val.y).double().mean())


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return copied(model.state_dict())


def copied(tensors: Tensors) -> dict[str, Tensor]:
    """Copy tensors to the CPU, so that later changes in place reach neither a checkpoint nor what it came from."""
    return {name: value.detach().cpu().clone() for name, value in tensors.items()}


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Tensors of the optimiser's state, by "<parameter>.<quantity>"."""
    return {
        f"{name}.{quantity}": value.detach().cpu().clone()
        for name, parameter in model.named_parameters()
        for quantity, value in optimizer.state[parameter].items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Restore the state from `optimizer_tensors`; moments get their parameters' memory layout for the fused step."""
    for name, parameter in model.named_parameters():
        state = optimizer.state[parameter]
        state["step"] = tensors[f"{name}.step"].to(parameter.device, copy=True)
        for quantity in ("exp_avg", "exp_avg_sq"):
            state[quantity] = torch.empty_like(parameter).copy_(tensors[f"{name}.{quantity}"]).detach()
