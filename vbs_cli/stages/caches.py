"""Forward passes and the logits that they leave: the network runs once per model, split, noise and level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from vbs_cli import forward
from vbs_cli.data import Split
from vbs_cli.logits import Logits
from vbs_cli.progress import Task
from vbs_cli.run import Recipe, State, formats, layout
from vbs_cli.run.store import CURRENT, DAMAGED
from vbs_cli.stages.base import Job, Target
from vbs_cli.stages.train import trained_network, weights_name

SPREAD_SETTINGS = ("kernel", "spreads")  # those that can be changed where the parts were kept


@dataclass(frozen=True)
class Pass:
    """One pass of one network over one split."""

    seed: int
    role: str
    split: str
    noise: str = layout.CLEAN
    level: float = 0.0

    @property
    def name(self) -> str:
        return layout.logits(self.seed, self.role, self.split, self.noise, self.level)

    @property
    def kind(self) -> str:
        """The noise, or the split of a pass without one."""
        return self.split if self.noise == layout.CLEAN else self.noise


def recipe(job: Job, p: Pass) -> Recipe:
    s = job.run.settings
    settings = {"data": job.data.fingerprint, "seed": p.seed, "role": p.role, "split": p.split}
    settings |= {"noise": p.noise, "level": p.level}
    settings |= {"draws": s.draws} if p.role == "dropout" else {"kernel": s.kernel}
    if spreads := job.spreads(p.role):
        settings |= {"spreads": spreads}
    return Recipe("forward", settings, (weights_name(job, p.seed, p.role),))


def clean_passes(job: Job, split: str) -> list[Pass]:
    return [Pass(seed, role, split) for seed in job.seeds for role in job.roles]


def noise_passes(job: Job, noises: Iterable[str]) -> list[Pass]:
    """All levels above zero; level zero is the clean pass."""
    return [
        Pass(seed, role, "test", noise, level)
        for seed in job.seeds
        for role in job.roles
        for noise in noises
        for level in job.run.settings.level_values()
        if level > 0
    ]


def all_passes(job: Job) -> list[Pass]:
    """What the run's settings call for."""
    clean = [*clean_passes(job, "val"), *clean_passes(job, "test")]
    return clean + noise_passes(job, job.run.settings.noises)


def targets(job: Job, passes: Iterable[Pass]) -> list[Target]:
    return [(p.name, recipe(job, p)) for p in passes]


def pass_cost(job: Job, p: Pass) -> float:
    """In forward passes of one example."""
    return job.data.counts[p.split] * (job.run.settings.draws if p.role == "dropout" else 1)


def pending(job: Job, passes: Iterable[Pass]) -> list[Pass]:
    """Those whose logits are missing or stale, after the spreads have been taken again where that is enough."""
    return [p for p in passes if job.needs((p.name, recipe(job, p))) and not resummarised(job, p)]


def run_passes(job: Job, passes: list[Pass], label: str) -> None:
    """Some passes of one network."""
    if not passes:
        return
    for p in passes:
        job.progress.detail(f"{p.name}: {job.run.store.state(p.name, recipe(job, p))}")
    model = trained_network(job, passes[0].seed, passes[0].role)
    splits = {name: job.data.split(name) for name in {p.split for p in passes}}
    with job.progress.task(f"{label}, logits", sum(pass_cost(job, p) for p in passes)) as task:
        for p in passes:
            task.note(describe(p))
            record = run_pass(job, model, splits[p.split], p, task)
            job.run.store.write(p.name, formats.logits_bytes(record), recipe(job, p))
        task.note(f"{len(passes)} forward pass{'es' if len(passes) > 1 else ''}")


def run_pass(job: Job, model: nn.Module, split: Split, p: Pass, task: Task) -> Logits:
    """The network's work; the clean splits keep their parts, so that the kernel can be changed without it."""
    s = job.run.settings
    clean = p.noise == layout.CLEAN
    spreads = job.spreads(p.role)
    if p.role == "dropout":
        return forward.run_draws(
            model, split, draws=s.draws, seed=p.seed, noise=p.noise, level=p.level, spreads=spreads,
            keep_parts=clean, device=job.device, advance=lambda count: task.advance(count * s.draws),
        )  # fmt: skip
    return forward.run_patches(
        model, split, kernel=s.kernel, noise=p.noise, level=p.level, spreads=spreads,
        keep_parts=clean, device=job.device, advance=task.advance,
    )  # fmt: skip


def resummarised(job: Job, p: Pass) -> bool:
    """Whether a cache that is stale for its spreads alone could be renewed from the parts that it keeps."""
    entry = job.run.store.entries.get(p.name)
    wanted = recipe(job, p)
    if job.force or entry is None:
        return False
    others = {name: value for name, value in wanted.settings.items() if name not in SPREAD_SETTINGS}
    as_made = others | {name: entry.settings[name] for name in SPREAD_SETTINGS if name in entry.settings}
    if not job.run.store.is_current(p.name, Recipe(wanted.stage, as_made, wanted.inputs)):
        return False
    record = formats.logits_from(job.run.store.read(p.name))
    if record.parts is None:
        return False
    again = record.at_kernel(wanted.settings.get("kernel", 1), spreads=job.spreads(p.role))
    job.run.store.write(p.name, formats.logits_bytes(again), wanted)
    job.progress.detail(f"{p.name}: spread taken again")
    return True


def known(job: Job) -> Iterator[tuple[Pass, State]]:
    """Every pass over the test split that the run has logits of, whichever command made them, and their state."""
    for _, entry in sorted(job.run.store.entries.items()):
        values = entry.settings
        if entry.stage == "forward" and values["split"] == "test":
            p = Pass(values["seed"], values["role"], "test", values["noise"], values["level"])
            if p.seed in job.seeds and p.role in job.roles:
                yield p, job.run.store.state(p.name, recipe(job, p))


def usable(job: Job) -> list[Pass]:
    """Those that are not stale. A damaged one counts, so that reading it fails rather than passing it over."""
    return [p for p, state in known(job) if state.kind in (CURRENT, DAMAGED)]


def load(job: Job, p: Pass) -> Logits:
    return formats.logits_from(job.run.store.read(p.name))


def records(job: Job, passes: Iterable[Pass]) -> dict[tuple[int, str], Logits]:
    """What passes over the same inputs left, by seed and role, without their parts; and the ensemble of all seeds."""
    found = {(p.seed, p.role): replace(load(job, p), parts=None) for p in passes}
    members = [found[seed, "conventional"] for seed in job.seeds if (seed, "conventional") in found]
    if job.has_ensemble and len(members) == len(job.seeds):
        stacked = torch.stack([member.logits for member in members])
        together = Logits.from_members(stacked, labels=members[0].labels, spreads=job.spreads(layout.ENSEMBLE))
        found[layout.TOGETHER, layout.ENSEMBLE] = together
    return found


def describe(p: Pass) -> str:
    return p.kind if p.noise == layout.CLEAN else f"{p.noise} {layout.level_label(p.level)}"
