"""`vbs export`: the calibrated network of a seed as one file, checked against the Python model, with a model card."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vbs_cli import __version__, files
from vbs_cli.data.noise import distort
from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.export import FORMATS
from vbs_cli.export.check import BATCHES, check, differences, random_inputs, reference
from vbs_cli.export.module import calibrated, why_not
from vbs_cli.methods import METHODS
from vbs_cli.methods.base import TemperatureMethod
from vbs_cli.run import Recipe, layout
from vbs_cli.seeding import threads
from vbs_cli.stages import calibrate, evaluate
from vbs_cli.stages import passes as caches
from vbs_cli.stages.base import Job, Target
from vbs_cli.stages.card import Facts, card_of, markdown_of
from vbs_cli.stages.train import need_trained, trained_network

ROLE = "conventional"  # the network that is exported
REAL = 32  # inputs of the test split that a file is checked on, as they are and under noise
CARDS = ("json", "md")
SCORES = (layout.METRICS, layout.INTERVALS)


@dataclass(frozen=True)
class Plan:
    """What to export."""

    format: str
    seed: int = 0
    method: str = "vbs"

    def __post_init__(self) -> None:
        FORMATS[self.format]
        if reason := why_not(METHODS[self.method]):
            hint = "vbs, temperature and conventional can be"
            raise InvalidInput(f"{self.method} cannot be exported: {reason}", hint=hint)


def targets(job: Job, plan: Plan) -> list[Target]:
    """The file, then its card as JSON and as Markdown."""
    method, weights = fitted(job, plan), need_trained(job, plan.seed, ROLE)
    name = layout.export(job.data.name, plan.seed, plan.method, FORMATS[plan.format].suffix)
    made_with = {"vbs": __version__, "torch": torch.__version__}
    settings = {**asdict(plan), "fitted": asdict(method), "kernel": job.run.settings.kernel, **made_with}
    card = Recipe("export", {**settings, "data": job.data.fingerprint}, (name, *scores(job)))
    return [(name, Recipe("export", settings, (weights,))), *((f"{name}.{kind}", card) for kind in CARDS)]


def known(job: Job) -> list[Target]:
    """Those of every export that the run has, as far as their networks and methods are still there."""
    entries = job.run.store.entries.values()
    values = [entry.settings for entry in entries if entry.stage == "export"]
    found: list[Target] = []
    for plan in dict.fromkeys(Plan(each["format"], each["seed"], each["method"]) for each in values):
        with suppress(MissingArtifact):
            found += targets(job, plan)
    return found


def fitted(job: Job, plan: Plan) -> TemperatureMethod:
    """The method of the seed as `vbs calibrate` left it for today's network and settings."""
    if plan.seed not in job.seeds:
        there = f"{job.run.path} has seeds 0 to {job.seeds[-1]}"
        hint = f"vbs train --seeds {plan.seed + 1} trains more"
        raise MissingArtifact(f"there is no seed {plan.seed}: {there}", hint=hint)
    if plan.method not in job.methods:
        hint = f"vbs calibrate --methods {','.join([*job.methods, plan.method])}"
        raise MissingArtifact(f"{job.run.path} does not compare {plan.method}", hint=hint)
    need_trained(job, plan.seed, ROLE)
    val = caches.Pass(plan.seed, ROLE, "val")
    for name, recipe in (*caches.targets(job, [val]), calibrate.target(job)):
        state = job.run.store.state(name, recipe)
        if not state.stands:
            raise MissingArtifact(f"{job.run.path / name} is {state}", hint="vbs calibrate makes it")
    method = job.run.methods[plan.seed][plan.method]
    assert isinstance(method, TemperatureMethod)
    return method


def scores(job: Job) -> list[str]:
    """The tables of scores that belong to the run as it is now."""
    return [name for name, recipe in evaluate.targets(job) if name in SCORES and job.run.store.is_current(name, recipe)]


def export(job: Job, plan: Plan, output: Path | None = None) -> dict[str, Any]:
    """Make what is not up to date, copy it to `output` if that is given, and tell of it in a row."""
    wanted = targets(job, plan)
    due = [target for target in wanted if job.needs(target)]
    if due:
        make(job, plan, wanted, anew=wanted[0] in due)
    store, (name, card_name) = job.run.store, (wanted[0][0], wanted[1][0])
    card, path = json.loads(store.read(card_name)), job.run.path / name
    if output is not None:
        path, card = output, {**card, "file": output.name}
        files.write_bytes(path, store.read(name))
        for kind, data in card_files(card).items():
            files.write_bytes(path.with_name(f"{path.name}.{kind}"), data)
    apart = card["differences"]
    return {
        "artifact": str(path),
        "state": "made" if due else "up to date",
        **asdict(plan),
        "bytes": card["bytes"],
        "sha256": card["sha256"]["file"],
        **{f"{output_name}_difference": apart[output_name] for output_name in card["outputs"]},
        "random_inputs": apart["random"],
        "test_inputs": apart["real"],
        "card": f"{path}.md",
    }


def make(job: Job, plan: Plan, wanted: list[Target], *, anew: bool) -> None:
    """The file, unless only its card is to be made anew, and the card. Nothing is written unless the check allows."""
    (name, recipe), *cards = wanted
    store, form, method = job.run.store, FORMATS[plan.format], fitted(job, plan)
    shape, kernel = job.data.shape, job.run.settings.kernel
    model = trained_network(job, plan.seed, ROLE)
    with threads(job.run.settings.threads), job.progress.task(f"export {Path(name).name}", 1) as task:
        expected = reference(model, method, shape=shape, kernel=kernel)
        if anew:
            data = form.write(calibrated(model, method, shape=shape, kernel=kernel), torch.rand(2, *shape))
        else:
            data = store.read(name)
        real = list(real_inputs(job))
        apart = differences(form.open(data), expected, [*random_inputs(shape), *real])
        check(apart)
        task.advance(1)
        task.note(f"checked on {sum(BATCHES)} random and {sum(map(len, real))} test inputs")
    if anew:
        store.write(name, data, recipe)
    facts = Facts(plan.seed, plan.method, method, plan.format, name, apart, real=sum(map(len, real)))
    card = card_files(card_of(job, facts, scores(job)))
    for target, card_recipe in cards:
        store.write(target, card[Path(target).suffix[1:]], card_recipe)


def card_files(card: Mapping[str, Any]) -> dict[str, bytes]:
    """A card by the suffixes of its two forms."""
    return {"json": files.to_json(card), "md": markdown_of(card).encode()}


def real_inputs(job: Job) -> Iterator[Tensor]:
    """Some of the test split, where the run's data are at hand, then the same under noise: (B, C, *size).

    Few clean inputs are smoothed, and a check of the others alone would say nothing about alpha and beta.
    """
    try:
        x = job.data.split("test").inputs(slice(0, REAL))
    except MissingArtifact as error:
        job.progress.say(f"checked on random inputs alone: {error.message}")
        return
    yield x
    yield distort(x, noise="gaussian", level=0.5, dataset=job.data.name, split="test", block=0)
