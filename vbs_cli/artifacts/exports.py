"""Exported models: the calibrated network of a seed as one file, checked against the Python model, with a card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vbs_cli import __version__, files
from vbs_cli.artifacts.card import ExportFacts, card_of, markdown_of
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass
from vbs_cli.artifacts.training import check_trained, trained
from vbs_cli.data.noise import distort
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.export import FORMATS
from vbs_cli.export.check import BATCHES, check, differences, random_inputs, reference
from vbs_cli.export.module import calibrated, why_not
from vbs_cli.methods import METHODS
from vbs_cli.methods.base import TemperatureMethod
from vbs_cli.pairs import find_pair
from vbs_cli.run import Artifact, Recipe, layout
from vbs_cli.seeding import threads
from vbs_cli.views import VIEWS

STAGE = "export"
REVISION = 1  # raised when the same weights and fits give another file
REAL = 32  # number of test inputs that a file is checked on, both clean and under noise
CARDS = ("json", "md")
SCORES = (layout.METRICS, layout.INTERVALS)


@dataclass(frozen=True)
class ExportChoice:
    """Format of an export, and the seed and method to export."""

    format: str
    seed: int = 0
    method: str = "vbs"

    def __post_init__(self) -> None:
        FORMATS[self.format]
        pair = find_pair(self.method)
        if reason := VIEWS[pair.view].not_one_pass or why_not(METHODS[pair.method]):
            hint = "vbs, temperature and conventional can be"
            raise InvalidInput(f"{self.method} cannot be exported: {reason}", hint=hint)

    @property
    def network(self) -> str:
        """Name of the network whose weights the file holds."""
        return VIEWS[find_pair(self.method).view].network


def artifacts(job: Job, choice: ExportChoice) -> list[Artifact]:
    """Artifacts of an export: the file, then its card as JSON and as Markdown."""
    method, weights = fitted(job, choice), check_trained(job, choice.seed, choice.network)
    name = layout.export(job.data.name, choice.seed, choice.method, FORMATS[choice.format].suffix)
    made_with = {"vbs": __version__, "torch": torch.__version__}
    settings = {**asdict(choice), "fitted": asdict(method), "kernel": job.run.settings.kernel, **made_with}
    revisions = {"export": REVISION, **METHODS.revisions([find_pair(choice.method).method])}
    card = Recipe(STAGE, {**settings, "data": job.data.fingerprint}, (name, *scores(job)), revisions)
    file = Artifact(name, Recipe(STAGE, settings, (weights,), revisions), make)
    return [file, *(Artifact(f"{name}.{kind}", card, make) for kind in CARDS)]


def known_artifacts(job: Job) -> list[Artifact]:
    """Artifacts of every export of the run whose network and fitted method are still up to date."""
    entries = job.run.store.entries.values()
    values = [entry.settings for entry in entries if entry.stage == STAGE]
    found: list[Artifact] = []
    for choice in dict.fromkeys(ExportChoice(each["format"], each["seed"], each["method"]) for each in values):
        with suppress(MissingArtifact):
            found += artifacts(job, choice)
    return found


def fitted(job: Job, choice: ExportChoice) -> TemperatureMethod:
    """Fitted method of the chosen seed; an error if it is not up to date with the run's network and settings."""
    if choice.seed not in job.seeds:
        there = f"{job.run.path} has seeds 0 to {job.seeds[-1]}"
        hint = f"vbs train --seeds {choice.seed + 1} trains more"
        raise MissingArtifact(f"there is no seed {choice.seed}: {there}", hint=hint)
    if choice.method not in job.methods:
        hint = f"vbs calibrate --methods {','.join([*job.methods, choice.method])}"
        raise MissingArtifact(f"{job.run.path} does not compare {choice.method}", hint=hint)
    check_trained(job, choice.seed, choice.network)
    val = Pass(choice.seed, job.pairs[choice.method].view, "val")
    for name in (val.name, layout.METHODS):
        state = job.run.store.state(name, job.graph[name].recipe)
        if not state.stands:
            raise MissingArtifact(f"{job.run.path / name} is {state}", hint="vbs calibrate makes it")
    method = job.run.methods[choice.seed][choice.method]
    assert isinstance(method, TemperatureMethod)
    return method


def scores(job: Job) -> list[str]:
    """Names of the tables of scores that are up to date."""
    return [name for name in SCORES if job.run.store.is_current(name, job.graph[name].recipe)]


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Write the file, unless only its card is due, and the card, if the file passes the check."""
    values = due[0].recipe.settings
    choice = ExportChoice(values["format"], values["seed"], values["method"])
    file, *cards = artifacts(job, choice)
    anew = file.name in {each.name for each in due}
    store, form, method = job.run.store, FORMATS[choice.format], fitted(job, choice)
    shape, kernel = job.data.shape, job.run.settings.kernel
    model = trained(job, choice.seed, choice.network)
    with threads(job.run.settings.threads), job.progress.task(f"export {Path(file.name).name}", 1) as task:
        expected = reference(model, method, shape=shape, kernel=kernel)
        if anew:
            data = form.write(calibrated(model, method, shape=shape, kernel=kernel), torch.rand(2, *shape))
        else:
            data = store.read(file.name)
        real = list(real_inputs(job))
        apart = differences(form.open(data), expected, [*random_inputs(shape), *real])
        check(apart)
        task.advance(1)
        task.note(f"checked on {sum(BATCHES)} random and {sum(map(len, real))} test inputs")
    if anew:
        store.write(file.name, data, file.recipe)
    facts = ExportFacts(choice.seed, choice.method, method, choice.format, file.name, apart, real=sum(map(len, real)))
    card = card_files(card_of(job, facts, scores(job), weights=file.recipe.inputs[0]))
    for each in cards:
        store.write(each.name, card[Path(each.name).suffix[1:]], each.recipe)


def card_files(card: Mapping[str, Any]) -> dict[str, bytes]:
    """Bytes of a card as JSON and as Markdown, keyed by file suffix."""
    return {"json": files.to_json(card), "md": markdown_of(card).encode()}


def real_inputs(job: Job) -> Iterator[Tensor]:
    """Yield test inputs (B, C, *size), first clean, then under noise; nothing if the run's data are missing.

    Few clean inputs are smoothed, and a check without smoothed inputs would say nothing about alpha and beta.
    """
    try:
        x = job.data.split("test").inputs(slice(0, REAL))
    except MissingArtifact as error:
        job.progress.say(f"checked on random inputs alone: {error.message}")
        return
    yield x
    yield distort(x, noise="gaussian", level=0.5, dataset=job.data.name, split="test", block=0)
