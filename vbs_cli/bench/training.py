"""Benchmark of training by vbs against a plain loop over the same network: epochs in turn on the same examples.

Rows are those of `bench_kernels`; their size is the speed of vbs and of the plain loop, in examples per second.
"""

from __future__ import annotations

import copy
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from vbs_cli.bench.kernels import Duel, bench_kernels, unlike
from vbs_cli.bench.network import BenchNetwork
from vbs_cli.data.base import Split
from vbs_cli.errors import VbsError
from vbs_cli.models.dropout import Dropout, use_generator
from vbs_cli.models.memory import channels_last
from vbs_cli.networks.training import Stepper, adam, one_epoch
from vbs_cli.seeding import generator, threads

REPEATS = 5
TOGETHER = 2  # networks trained at the same time


@dataclass(frozen=True)
class Lesson:
    """Network and how it is trained, on random examples of its input's shape, as speed does not depend on values."""

    name: str
    network: BenchNetwork
    dropout: bool  # whether it is the MC-dropout variant
    batch: int
    lr: float
    weight_decay: float
    steps: int = 8  # per epoch

    @property
    def examples(self) -> int:
        return self.steps * self.batch

    def build(self) -> nn.Module:
        return self.network.build(dropout=self.dropout)

    def data(self) -> tuple[Tensor, Tensor]:
        """Random inputs and labels: (N, *shape), (N,)."""
        y = torch.randint(self.network.classes, (self.examples,), generator=generator("bench", "labels"))
        return self.network.inputs(self.examples), y

    def order(self, epoch: int) -> Tensor:
        return torch.randperm(self.examples, generator=generator("bench", "order", epoch))


class Ours:
    """Training by vbs."""

    def __init__(self, lesson: Lesson) -> None:
        x, y = lesson.data()
        self.lesson, self.data, self.epochs = lesson, Split("bench", "train", x.numpy(), y), 0
        self.model = channels_last(lesson.build())
        self.stepper = Stepper(self.model, adam(self.model, lr=lesson.lr, weight_decay=lesson.weight_decay))

    def epoch(self) -> float:
        """Train for the next epoch; return its loss."""
        self.epochs += 1
        use_generator(self.model, generator("bench", "dropout", self.epochs))
        return self.over(self.lesson.order(self.epochs))

    def over(self, order: Tensor) -> float:
        """Train for an epoch over the examples in a given order; return its loss."""
        batches = torch.split(order, self.lesson.batch)
        loss, *_ = one_epoch(self.stepper, self.data, batches, epoch=self.epochs, advance=ignored, watch=ignored)
        return loss


class Plain:
    """Training by a plain loop: torch's modules, loader and optimiser as they are."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson, self.data = lesson, TensorDataset(*lesson.data())
        self.model = with_torch_dropout(lesson.build())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lesson.lr, weight_decay=lesson.weight_decay)
        self.loader = DataLoader(self.data, lesson.batch, shuffle=True)

    def epoch(self) -> float:
        """Train for the next epoch; return its loss."""
        loss, _ = plain_epoch(self.model, self.optimizer, self.loader)
        return loss

    def over(self, order: Tensor) -> float:
        """Train for an epoch over the examples in a given order; return its loss."""
        loader = DataLoader(self.data, self.lesson.batch, sampler=order.tolist())
        loss, _ = plain_epoch(self.model, self.optimizer, loader)
        return loss


def plain_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[Any]) -> tuple[float, float]:
    """Train for one epoch; return mean loss and accuracy, which are read after each step."""
    model.train()
    total, right, seen = 0.0, 0.0, 0
    for x, y in loader:
        logits = model(x).flatten(2).mean(2)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += loss.item() * len(y)
        right += (logits.argmax(1) == y).sum().item()
        seen += len(y)
    return total / seen, right / seen


def with_torch_dropout(model: nn.Module) -> nn.Module:
    """Copy of a network with torch's own dropout in place of ours."""
    plain = copy.deepcopy(model)
    for name, module in list(plain.named_modules()):
        if isinstance(module, Dropout):
            plain.set_submodule(name, nn.Dropout(module.p))
    return plain


def bench_training(
    lessons: Sequence[Lesson],
    together: Sequence[Lesson] = (),
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> Iterator[dict[str, Any]]:
    """Measure each lesson on one thread by either side, then those of `together` for several networks at a time.

    For several, vbs has a process of one thread for each network, and the plain loop trains one after another on as
    many threads as torch chooses.
    """
    for lesson in lessons:
        yield measured(alone(lesson), lesson.examples, advance)
    for lesson in together:
        with side_by_side(lesson) as ours:
            yield measured(several(lesson, ours), TOGETHER * lesson.examples, advance)


def alone(lesson: Lesson) -> Duel:
    ours, plain = Ours(lesson), Plain(lesson)
    return Duel(
        lesson.name, "", "plain loop", "torch",
        on_one_thread(ours.epoch), on_one_thread(plain.epoch), lambda *_: losses_apart(lesson), REPEATS,
    )  # fmt: skip


def several(lesson: Lesson, ours: Callable[[], list[float]]) -> Duel:
    """Duel of several networks. Losses are not compared: `alone` does, and other processes do not affect them."""
    plain = [Plain(lesson) for _ in range(TOGETHER)]
    rival = f"plain in turn, threads: {torch.get_num_threads()}"
    return Duel(
        f"{TOGETHER} x {lesson.name}", "", rival, "torch",
        ours, lambda: [each.epoch() for each in plain], unlike, REPEATS,
    )  # fmt: skip


def measured(duel: Duel, examples: int, advance: Callable[[int], None]) -> dict[str, Any]:
    """Run a duel; return its row, with the speeds that follow from the number of examples in each run."""
    (row,) = bench_kernels([duel], advance=advance)
    ours, theirs = (1e3 * examples / row[time] for time in ("ours_ms", "rival_ms"))
    return {**row, "size": f"{ours:,.0f} and {theirs:,.0f} examples/s"}


def losses_apart(lesson: Lesson) -> float:
    """Difference in loss of an epoch from the same weights over the same batches; dropout, which differs, is off."""
    ours, plain, order = Ours(lesson), Plain(lesson), lesson.order(1)
    for module in plain.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    with threads(1):
        return abs(ours.over(order) - plain.over(order))


def on_one_thread(run: Callable[[], float]) -> Callable[[], float]:
    def run_alone() -> float:
        with threads(1):
            return run()

    return run_alone


@contextmanager
def side_by_side(lesson: Lesson) -> Iterator[Callable[[], list[float]]]:
    """Start processes for the duration of the block; the function trains an epoch in each and returns the losses.

    They are spawned: a fork would inherit torch's threads, which do not survive it.
    """
    context = multiprocessing.get_context("spawn")
    lines = []
    processes = []
    try:
        for _ in range(TOGETHER):
            line, far_end = context.Pipe()
            lines.append(line)
            processes.append(context.Process(target=study, args=(lesson, far_end), daemon=True))
            processes[-1].start()
            far_end.close()  # so that the line closes when the process ends

        def epoch() -> list[float]:
            try:
                for line in lines:
                    line.send("epoch")
                return [line.recv() for line in lines]
            except (EOFError, OSError) as error:
                raise VbsError(f"a process that trains {lesson.name} ended before its epoch did") from error

        yield epoch
    finally:
        for process in processes:
            process.terminate()  # it has no results to keep
        for process in processes:
            process.join()
        for line in lines:
            line.close()


def study(lesson: Lesson, line: Connection) -> None:
    """Run in a process of its own: train an epoch on one thread for each message, until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent too, which then closes the line
    torch.set_num_threads(1)
    ours = Ours(lesson)
    with closing(line), suppress(EOFError, OSError):
        while line.recv():
            line.send(ours.epoch())


def ignored(_: object) -> None:
    """Ignore a progress message of training."""
