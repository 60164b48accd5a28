"""Trainings: the weights and the training table of every network of every seed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, fields
from typing import Any

import pandas as pd
import torch
from torch import nn

from vbs_cli.artifacts.job import Job
from vbs_cli.data import Split
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.executors import Local
from vbs_cli.models.base import model_revision
from vbs_cli.models.memory import channels_last, to_device
from vbs_cli.networks import NETWORKS
from vbs_cli.networks import training as loop
from vbs_cli.networks.base import Tensors
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.run.board import Board
from vbs_cli.seeding import threads

STAGE = "train"
REVISION = 1  # of the training loop; raised when it gives other weights
# Cost of a training step per example, in forward passes, for the estimate of the time left.
TRAINING_COST = 3
SETTINGS = (
    *("model", "width", "epochs", "batch", "lr", "weight_decay"),
    *("patience", "precision", "compile", "threads"),
)


def recipe(job: Job, seed: int, network: str) -> Recipe:
    """Recipe of the weights of one network: everything that they depend on."""
    s = job.run.settings
    if s.weights:
        return Recipe(STAGE, {"seed": seed, "network": network, "model": s.model, "weights": s.weights})
    chosen = {name: getattr(s, name) for name in SETTINGS}
    settings = {"data": job.data.fingerprint, "seed": seed, "network": network, **chosen}
    revisions = {"training": REVISION, **NETWORKS.revisions([network]), **model_revision(s.model, job.data.shape)}
    return Recipe(STAGE, settings | asdict(job.networks[network]), revisions=revisions)


def artifact_names(job: Job, seed: int, network: str) -> list[str]:
    """Names of the training table, further artifacts of the network, weights of the best epoch and of the last.

    A network that was trained elsewhere has the last weights alone, and a run of the user's own logits has none.
    """
    if job.given:
        return []
    if job.run.settings.weights:
        return [layout.weights(seed, network)]
    further = [layout.further(seed, network, name) for name in job.networks[network].artifacts]
    made = (layout.training(seed, network), *further, layout.best_weights(seed, network))
    return [*made, layout.weights(seed, network)]


def every_network(job: Job) -> list[tuple[int, str]]:
    """Seed and name of each network of the run."""
    return [(seed, network) for seed in job.seeds for network in job.networks]


def cost_of_one(job: Job) -> float:
    """Cost of a training, in forward passes of one example."""
    return job.run.settings.epochs * job.data.counts["train"] * TRAINING_COST


def announce_training(job: Job, networks: Sequence[tuple[int, str]]) -> None:
    """Estimate the hours that the paper's profile takes on a CPU, and drop the checkpoints of forced trainings.

    A forced training thus begins anew, but continues from its own checkpoints if it is interrupted.
    """
    if job.force:
        for seed, network in networks:
            job.run.store.remove(layout.checkpoint(seed, network))
    if networks and job.run.settings.profile == "paper" and job.device.type == "cpu" and not remote(job):
        at_once = min(len(networks), job.crew.jobs) if isinstance(job.crew, Local) else 1
        hours = len(networks) * estimate_seconds(job) / at_once / 3600
        job.progress.say(
            f"train: the paper's profile takes about {hours:,.0f} hours on this CPU; --profile quick takes minutes"
        )


def remote(job: Job) -> bool:
    return job.crew is not None and job.crew.remote


def finished(job: Job) -> list[tuple[int, str]]:
    """Seed and name of the networks whose training is done."""
    due = {artifact.name for artifact in job.graph.due(job.graph.behind(job.graph.stage(STAGE)))}
    return [key for key in every_network(job) if due.isdisjoint(artifact_names(job, *key))]


def tidy(job: Job) -> None:
    """Remove the checkpoints of finished trainings."""
    for seed, network in finished(job):
        job.run.store.remove(layout.checkpoint(seed, network))


def fill_board(job: Job) -> None:
    """Write the TensorBoard curves of finished trainings that have none."""
    for seed, network in finished(job):
        folder = job.run.path / layout.board(seed, network)
        if not folder.is_dir():
            epochs = job.run.table(layout.training(seed, network))[[field.name for field in fields(loop.Epoch)]]
            Board(folder, [loop.Epoch(*row) for row in epochs.itertuples(index=False)], wanted=True).close()


def schedule(job: Job) -> loop.Schedule:
    s = job.run.settings
    mixed = job.device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    precision = s.precision if s.precision != "auto" else "bfloat16" if mixed else "float32"
    return loop.Schedule(s.epochs, s.batch, s.lr, s.weight_decay, s.patience, precision, s.compile)


def train_one(job: Job, *, seed: int, network: str) -> None:
    """Train one network, from its last checkpoint if there is one of the same recipe."""
    store, plan, chosen = job.run.store, schedule(job), job.networks[network]
    data, val = job.data.split("train"), job.data.split("val")
    made_from = recipe(job, seed, network)
    unfinished = layout.checkpoint(seed, network)
    resume = None
    if store.is_current(unfinished, made_from):
        resume = formats.checkpoint_from(store.read(unfinished))
        job.progress.say(f"train: seed {seed} {network} goes on after epoch {resume.epoch}")
    model = loop.initialised(lambda: untrained(job, network), seed=seed, name=network)
    history = resume.history if resume else ()
    with (
        job.progress.task(f"seed {seed} {network}", (plan.epochs - len(history)) * len(data) * TRAINING_COST) as task,
        closing(Board(job.run.path / layout.board(seed, network), history, wanted=job.tensorboard)) as board,
    ):
        checkpoint = resume

        def watch(sight: loop.Sight) -> None:
            loss = f"loss {sight.loss:.3f}  accuracy {sight.accuracy:.3f}"
            task.note(f"epoch {sight.epoch}/{plan.epochs}  {loss}  {sight.speed:,.0f} examples/s")

        for checkpoint in loop.train(
            model, data, val, plan, seed=seed, name=network, network=chosen, device=job.device, resume=resume,
            advance=lambda count: task.advance(count * TRAINING_COST), watch=watch,
        ):  # fmt: skip
            store.write(unfinished, formats.checkpoint_bytes(checkpoint), made_from)
            board.add(checkpoint.history[-1])
            task.note(epoch_line(checkpoint.history, plan))
    assert checkpoint is not None
    further = further_artifacts(job, model, checkpoint, data, seed=seed, network=network)
    rows = [{**job.labels(), "seed": seed, "network": network, **vars(epoch)} for epoch in checkpoint.history]
    store.write(layout.training(seed, network), formats.table_bytes(pd.DataFrame(rows)), made_from)
    for name, tensors in further.items():
        store.write(layout.further(seed, network, name), formats.tensors_bytes(tensors), made_from)
    store.write(layout.best_weights(seed, network), formats.tensors_bytes(checkpoint.best), made_from)
    store.write(layout.weights(seed, network), formats.tensors_bytes(checkpoint.weights), made_from)


def further_artifacts(
    job: Job, model: nn.Module, last: loop.Checkpoint, data: Split, *, seed: int, network: str
) -> Mapping[str, Tensors]:
    """Tensors besides its weights that a network keeps at the end of its training, keyed by artifact."""
    chosen = job.networks[network]
    if not chosen.artifacts:
        return {}
    model.load_state_dict(last.weights)
    found = chosen.finish(model.eval(), last.memory, data, seed=seed, device=job.device)
    if set(found) != set(chosen.artifacts):
        why = f"network {network} left {sorted(found)} and announces {sorted(chosen.artifacts)}"
        raise InvalidInput(why, hint="its `finish` and its `artifacts` must name the same")
    return found


def epoch_line(history: tuple[loop.Epoch, ...], plan: loop.Schedule) -> str:
    """Results of the last epoch in one line."""
    last = history[-1]
    stopped = ", stopped early" if plan.is_over(history) and last.epoch < plan.epochs else ""
    learned = f"loss {last.loss:.3f}  val. accuracy {last.val_accuracy:.3f}"
    return f"epoch {last.epoch}/{plan.epochs}{stopped}  {learned}  {last.speed:,.0f} examples/s"


def estimate_seconds(job: Job) -> float:
    """Estimate how long one network will train, from a few steps on made-up inputs."""
    s, steps = job.run.settings, 3
    x, y = to_device(torch.zeros(s.batch, *job.data.shape)), torch.zeros(s.batch, dtype=torch.int64)
    model = channels_last(untrained(job, next(iter(job.networks))))
    stepper = loop.Stepper(model, loop.adam(model, lr=s.lr, weight_decay=s.weight_decay))
    with threads(s.threads):
        stepper.step(x, y)
        started = time.monotonic()
        for _ in range(steps):
            stepper.step(x, y)
    per_example = (time.monotonic() - started) / steps / s.batch
    return per_example * job.data.counts["train"] * s.epochs


def untrained(job: Job, network: str) -> nn.Module:
    """Network of the run's architecture, without trained weights."""
    s = job.run.settings
    return job.networks[network].build(s.model, shape=job.data.shape, classes=job.data.classes, width=s.width)


def weights_name(job: Job, seed: int, network: str) -> str:
    """Name of the artifact with the weights that the run evaluates."""
    return (layout.best_weights if job.run.settings.select == "best" else layout.weights)(seed, network)


def check_trained(job: Job, seed: int, network: str) -> str:
    """Name of a network's weights; an error if they were not made by the current settings and code."""
    name, made_from = weights_name(job, seed, network), recipe(job, seed, network)
    state = job.run.store.checked_state(name, made_from)
    if not state.current:
        hint = f"vbs train --dataset {job.data.name} --seeds {job.run.settings.seeds}"
        if job.run.settings.weights:
            hint = f"vbs calibrate --model {job.run.settings.model} --weights FILE"
        raise MissingArtifact(f"{job.run.path / name} is {state}", hint=hint)
    return name


def trained(job: Job, seed: int, network: str) -> nn.Module:
    """Network with the weights that the run evaluates."""
    model = untrained(job, network)
    model.load_state_dict(formats.tensors_from(job.run.store.read(check_trained(job, seed, network))))
    return model


def summary(job: Job) -> list[dict[str, Any]]:
    """One row per trained network: its last epoch, with the time of all its epochs and their mean speed."""
    rows: list[dict[str, Any]] = []
    for seed, network in finished(job):
        table = job.run.table(layout.training(seed, network)).rename(columns={"model": "network"})  # of older runs
        over_all = table.agg({"seconds": "sum", "waited": "sum", "speed": "mean"}).round(1)
        rows.append({**table.to_dict("records")[-1], **over_all.to_dict()})  # type: ignore[dict-item]
    return rows
