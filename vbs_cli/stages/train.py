"""`vbs train`: the networks of every seed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields, replace
from typing import Any

import pandas as pd
import torch
from torch import nn

from vbs_cli.errors import MissingArtifact
from vbs_cli.executors import Local
from vbs_cli.models import build_model
from vbs_cli.models.memory import arranged, placed
from vbs_cli.networks import training
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.run.board import Board
from vbs_cli.seeding import threads
from vbs_cli.stages.base import Job, Target

# Forward and backward pass of an example against a forward pass alone, for the estimate of the time left.
TRAINING_COST = 3
SETTINGS = (
    *("model", "width", "epochs", "batch", "lr", "weight_decay"),
    *("patience", "precision", "compile", "threads"),
)


def recipe(job: Job, seed: int, role: str) -> Recipe:
    s = job.run.settings
    if s.weights:
        return Recipe("train", {"seed": seed, "role": role, "model": s.model, "weights": s.weights})
    chosen = {name: getattr(s, name) for name in SETTINGS}
    settings = {"data": job.data.fingerprint, "seed": seed, "role": role, **chosen}
    return Recipe("train", settings | ({"dropout": s.dropout} if role == "dropout" else {}))


def targets_of(job: Job, seed: int, role: str) -> list[Target]:
    """Training table, weights of the best epoch and of the last; none of logits that were given."""
    if job.given:
        return []
    made_from = recipe(job, seed, role)
    trained_here = () if job.run.settings.weights else (layout.training, layout.best_weights)
    return [(name(seed, role), made_from) for name in (*trained_here, layout.weights)]


def targets(job: Job) -> list[Target]:
    """Those of every seed and network."""
    return [target for seed in job.seeds for role in job.roles for target in targets_of(job, seed, role)]


def is_pending(job: Job, seed: int, role: str) -> bool:
    """Whether a network is still to be trained."""
    return any(job.needs(target) for target in targets_of(job, seed, role))


def pending(job: Job) -> list[tuple[int, str]]:
    """The trainings that are still to be done."""
    return [(seed, role) for seed in job.seeds for role in job.roles if is_pending(job, seed, role)]


def cost_of_one(job: Job) -> float:
    """In forward passes of one example."""
    return job.run.settings.epochs * job.data.counts["train"] * TRAINING_COST


def begin(job: Job, networks: Sequence[tuple[int, str]]) -> None:
    """Before hours of work: how many. A forced training begins anew, but goes on if it is interrupted."""
    if job.force:
        for seed, role in networks:
            job.run.store.remove(layout.checkpoint(seed, role))
    if networks and job.run.settings.profile == "paper" and job.device.type == "cpu" and not remote(job):
        at_once = min(len(networks), job.crew.jobs) if isinstance(job.crew, Local) else 1
        hours = len(networks) * estimate_seconds(job) / at_once / 3600
        job.progress.say(
            f"train: the paper's profile takes about {hours:,.0f} hours on this CPU; --profile quick takes minutes"
        )


def remote(job: Job) -> bool:
    return job.crew is not None and job.crew.remote


def finished(job: Job) -> list[tuple[int, str]]:
    """The trainings that are done."""
    unfinished = pending(replace(job, force=False))
    return [(seed, role) for seed in job.seeds for role in job.roles if (seed, role) not in unfinished]


def tidy(job: Job) -> None:
    """Remove the checkpoints that finished trainings need no more."""
    for seed, role in finished(job):
        job.run.store.remove(layout.checkpoint(seed, role))


def fill_board(job: Job) -> None:
    """Show the trainings that were finished before anybody asked for a board."""
    for seed, role in finished(job):
        folder = job.run.path / layout.board(seed, role)
        if not folder.is_dir():
            epochs = job.run.table(layout.training(seed, role))[[field.name for field in fields(training.Epoch)]]
            Board(folder, [training.Epoch(*row) for row in epochs.itertuples(index=False)], wanted=True).close()


def schedule_of(job: Job) -> training.Schedule:
    s = job.run.settings
    mixed = job.device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    precision = s.precision if s.precision != "auto" else "bfloat16" if mixed else "float32"
    return training.Schedule(s.epochs, s.batch, s.lr, s.weight_decay, s.patience, precision, s.compile)


def train_one(job: Job, *, seed: int, role: str) -> None:
    """One network, from its last checkpoint if there is one of the same recipe."""
    store, schedule = job.run.store, schedule_of(job)
    data, val = job.data.split("train"), job.data.split("val")
    made_from = recipe(job, seed, role)
    unfinished = layout.checkpoint(seed, role)
    resume = None
    if store.is_current(unfinished, made_from):
        resume = formats.checkpoint_from(store.read(unfinished))
        job.progress.say(f"train: seed {seed} {role} goes on after epoch {resume.epoch}")
    model = training.initialised(lambda: network(job, role), seed=seed, role=role)
    history = resume.history if resume else ()
    with (
        job.progress.task(f"seed {seed} {role}", (schedule.epochs - len(history)) * len(data) * TRAINING_COST) as task,
        closing(Board(job.run.path / layout.board(seed, role), history, wanted=job.tensorboard)) as board,
    ):
        checkpoint = resume

        def watch(sight: training.Sight) -> None:
            loss = f"loss {sight.loss:.3f}  accuracy {sight.accuracy:.3f}"
            task.note(f"epoch {sight.epoch}/{schedule.epochs}  {loss}  {sight.speed:,.0f} examples/s")

        for checkpoint in training.train(
            model, data, val, schedule, seed=seed, role=role, device=job.device, resume=resume,
            advance=lambda count: task.advance(count * TRAINING_COST), watch=watch,
        ):  # fmt: skip
            store.write(unfinished, formats.checkpoint_bytes(checkpoint), made_from)
            board.add(checkpoint.history[-1])
            task.note(told(checkpoint.history, schedule))
    assert checkpoint is not None
    rows = [{**job.labels(), "seed": seed, "model": role, **vars(epoch)} for epoch in checkpoint.history]
    store.write(layout.training(seed, role), formats.table_bytes(pd.DataFrame(rows)), made_from)
    store.write(layout.best_weights(seed, role), formats.tensors_bytes(checkpoint.best), made_from)
    store.write(layout.weights(seed, role), formats.tensors_bytes(checkpoint.weights), made_from)


def told(history: tuple[training.Epoch, ...], schedule: training.Schedule) -> str:
    """The last epoch in a line."""
    last = history[-1]
    stopped = ", stopped early" if schedule.is_over(history) and last.epoch < schedule.epochs else ""
    learned = f"loss {last.loss:.3f}  val. accuracy {last.val_accuracy:.3f}"
    return f"epoch {last.epoch}/{schedule.epochs}{stopped}  {learned}  {last.speed:,.0f} examples/s"


def estimate_seconds(job: Job) -> float:
    """How long one network will train, from a few steps on made-up inputs."""
    s, steps = job.run.settings, 3
    x, y = placed(torch.zeros(s.batch, *job.data.shape)), torch.zeros(s.batch, dtype=torch.int64)
    model = arranged(network(job, job.roles[0]))
    stepper = training.Stepper(model, training.adam(model, lr=s.lr, weight_decay=s.weight_decay))
    with threads(s.threads):
        stepper.step(x, y)
        started = time.monotonic()
        for _ in range(steps):
            stepper.step(x, y)
    per_example = (time.monotonic() - started) / steps / s.batch
    return per_example * job.data.counts["train"] * s.epochs


def network(job: Job, role: str) -> nn.Module:
    """The architecture of a run, weights yet unset."""
    s = job.run.settings
    return build_model(
        s.model,
        shape=job.data.shape,
        classes=job.data.classes,
        width=s.width,
        dropout=s.dropout if role == "dropout" else 0.0,
    )


def weights_name(job: Job, seed: int, role: str) -> str:
    """The weights that the run evaluates."""
    return (layout.best_weights if job.run.settings.select == "best" else layout.weights)(seed, role)


def need_trained(job: Job, seed: int, role: str) -> str:
    """The name of a network's weights, made by today's settings; else the error that says what to do."""
    target = (weights_name(job, seed, role), recipe(job, seed, role))
    if not job.run.store.is_current(*target):
        hint = f"vbs train --dataset {job.data.name} --seeds {job.run.settings.seeds}"
        if job.run.settings.weights:
            hint = f"vbs calibrate --model {job.run.settings.model} --weights FILE"
        raise MissingArtifact(f"{job.run.path / target[0]} is {job.run.store.state(*target)}", hint=hint)
    return target[0]


def trained_network(job: Job, seed: int, role: str) -> nn.Module:
    """A network with the weights that `vbs train` left."""
    model = network(job, role)
    model.load_state_dict(formats.tensors_from(job.run.store.read(need_trained(job, seed, role))))
    return model


def summary(job: Job) -> list[dict[str, Any]]:
    """The last epoch of every network that is trained, with the time of all its epochs and the mean speed."""
    rows: list[dict[str, Any]] = []
    for seed, role in finished(job):
        table = job.run.table(layout.training(seed, role))
        over_all = table.agg({"seconds": "sum", "waited": "sum", "speed": "mean"}).round(1)
        rows.append({**table.to_dict("records")[-1], **over_all.to_dict()})  # type: ignore[dict-item]
    return rows
