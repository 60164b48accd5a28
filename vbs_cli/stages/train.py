"""`vbs train`: the networks of every seed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import nn

from vbs_cli import files
from vbs_cli.data import Split
from vbs_cli.errors import MissingArtifact, NotFinite, VbsError
from vbs_cli.models import build_model, training
from vbs_cli.run import Recipe, formats, layout
from vbs_cli.stages.base import Job, Target

# Forward and backward pass of an example against a forward pass alone, for the estimate of the time left.
TRAINING_COST = 3


def recipe(job: Job, seed: int, role: str) -> Recipe:
    s = job.run.settings
    names = ("model", "width", "epochs", "batch", "lr", "weight_decay")
    settings = {"data": job.data.fingerprint, "seed": seed, "role": role, **{name: getattr(s, name) for name in names}}
    return Recipe("train", settings | ({"dropout": s.dropout} if role == "dropout" else {}))


def targets(job: Job) -> list[Target]:
    """Weights and training table of every seed and network."""
    return [
        (name(seed, role), recipe(job, seed, role))
        for seed in job.seeds
        for role in job.roles
        for name in (layout.training, layout.weights)
    ]


def pending(job: Job) -> list[tuple[int, str]]:
    """The trainings that are still to be done."""
    return [
        (seed, role)
        for seed in job.seeds
        for role in job.roles
        if any(job.needs((name(seed, role), recipe(job, seed, role))) for name in (layout.training, layout.weights))
    ]


def cost(job: Job) -> float:
    """In forward passes of one example."""
    return len(pending(job)) * job.run.settings.epochs * job.data.counts["train"] * TRAINING_COST


def train(job: Job) -> pd.DataFrame:
    """Train what is missing; a seed that fails does not stop the others. Returns the training table."""
    job.run.store.write_if_changed(layout.DATASET, files.to_json(job.data.description()), Recipe("download", {}))
    todo = pending(job)
    failed: list[str] = []
    if todo:
        networks = len(job.seeds) * len(job.roles)
        if networks > len(todo):
            job.progress.say(f"train: {networks - len(todo)} of {networks} networks are there already")
        if job.run.settings.profile == "paper" and job.device.type == "cpu":
            hours = len(todo) * estimate_seconds(job) / 3600
            job.progress.say(
                f"train: the paper's profile takes about {hours:,.0f} hours on this CPU; --profile quick takes minutes"
            )
        data, val = job.data.split("train"), job.data.split("val")
        for seed, role in todo:
            try:
                train_one(job, data, val, seed=seed, role=role)
            except NotFinite as error:
                failed.append(f"seed {seed} {role}: {error}")
                job.progress.say(f"train: {failed[-1]}")
    remove_checkpoints(job)
    if failed:
        raise VbsError(f"training failed for {len(failed)} of {len(todo)} networks ({failed[0]})")
    return job.run.training


def remove_checkpoints(job: Job) -> None:
    """What finished trainings need no more."""
    unfinished = pending(replace(job, force=False))
    for seed in job.seeds:
        for role in job.roles:
            if (seed, role) not in unfinished:
                job.run.store.remove(layout.checkpoint(seed, role))


def train_one(job: Job, data: Split, val: Split, *, seed: int, role: str) -> None:
    """One network, from its last checkpoint if there is one of the same recipe."""
    s, store = job.run.settings, job.run.store
    made_from = recipe(job, seed, role)
    unfinished = layout.checkpoint(seed, role)
    resume = None
    if not job.force and store.is_current(unfinished, made_from):
        resume = formats.checkpoint_from(store.read(unfinished))
        job.progress.say(f"train: seed {seed} {role} goes on after epoch {resume.epoch}")
    model = training.initialised(lambda: network(job, role), seed=seed, role=role)
    remaining = s.epochs - (resume.epoch if resume else 0)
    with job.progress.task(f"seed {seed} {role}", remaining * len(data) * TRAINING_COST) as task:
        epochs = training.train(
            model,
            data,
            val,
            epochs=s.epochs,
            batch=s.batch,
            lr=s.lr,
            weight_decay=s.weight_decay,
            seed=seed,
            role=role,
            device=job.device,
            resume=resume,
            advance=lambda count: task.advance(count * TRAINING_COST),
        )
        checkpoint = resume
        for checkpoint in epochs:
            last = checkpoint.history[-1]
            task.note(f"epoch {last.epoch}/{s.epochs}  loss {last.loss:.3f}  val. accuracy {last.val_accuracy:.3f}")
            store.write(unfinished, formats.checkpoint_bytes(checkpoint), made_from)
    assert checkpoint is not None
    rows = [{**job.labels(), "seed": seed, "model": role, **vars(epoch)} for epoch in checkpoint.history]
    store.write(layout.training(seed, role), formats.table_bytes(pd.DataFrame(rows)), made_from)
    store.write(layout.weights(seed, role), formats.tensors_bytes(checkpoint.weights), made_from)


def estimate_seconds(job: Job) -> float:
    """How long one network will train, from a few steps on made-up inputs."""
    s, steps = job.run.settings, 3
    made_up = torch.zeros(s.batch, *job.data.shape), torch.zeros(s.batch, dtype=torch.int64)
    model = network(job, job.roles[0])
    optimizer = training.adam(model, lr=s.lr, weight_decay=s.weight_decay)
    training.step(model, optimizer, *made_up)
    started = time.monotonic()
    for _ in range(steps):
        training.step(model, optimizer, *made_up)
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


def need_trained(job: Job, seed: int, role: str) -> str:
    """The name of a network's weights, made by today's settings; else the error that says what to do."""
    target = (layout.weights(seed, role), recipe(job, seed, role))
    if not job.run.store.is_current(*target):
        hint = f"vbs train --dataset {job.data.name} --seeds {job.run.settings.seeds}"
        raise MissingArtifact(f"{job.run.path / target[0]} is {job.run.store.state(*target)}", hint=hint)
    return target[0]


def trained_network(job: Job, seed: int, role: str) -> nn.Module:
    """A network with the weights that `vbs train` left."""
    model = network(job, role)
    model.load_state_dict(formats.tensors_from(job.run.store.read(need_trained(job, seed, role))))
    return model


def summary(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The last epoch of every network, with the time of all its epochs."""
    last = table.sort_values("epoch").groupby(["seed", "model"], sort=True).tail(1).sort_values(["seed", "model"])
    times = table.groupby(["seed", "model"])[["seconds", "waited"]].sum().round(1)
    rows: list[dict[str, Any]] = last.to_dict("records")  # type: ignore[assignment]
    return [{**row, **times.loc[(row["seed"], row["model"])].to_dict()} for row in rows]
