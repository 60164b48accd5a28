"""Forward passes and the logits that they leave: the network runs once per model, split, noise and level."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby

import torch
from torch import nn

from vbs_cli.data import NOISES, Split
from vbs_cli.data.noise import Draws
from vbs_cli.logits import Logits
from vbs_cli.models.base import patch_grid
from vbs_cli.progress import Task
from vbs_cli.run import Recipe, State, formats, layout
from vbs_cli.run.store import CLEANED, CURRENT, DAMAGED
from vbs_cli.stages.base import Job, Target
from vbs_cli.stages.train import network, trained_network, weights_name
from vbs_cli.views import walk as forward

SPREAD_SETTINGS = ("kernel", "spreads")  # those that can be changed where the parts were kept
AT = "@"  # between a noise and its level
VALIDATION = "val:"  # before a noise that the validation data pass under


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
    def clean(self) -> bool:
        return self.noise == layout.CLEAN

    @property
    def word(self) -> str:
        """What `vbs work` calls it: "test", "gaussian@0.5", "val:gaussian@0.5"."""
        of = VALIDATION if self.split == "val" else ""
        return self.split if self.clean else f"{of}{self.noise}{AT}{self.level!r}"

    @property
    def title(self) -> str:
        if self.clean:
            return self.split
        return f"{'val ' if self.split == 'val' else ''}{self.noise} {self.level:.2f}"


def recipe(job: Job, p: Pass) -> Recipe:
    s = job.run.settings
    settings = {"data": job.data.fingerprint, "seed": p.seed, "role": p.role, "split": p.split}
    settings |= {"noise": p.noise, "level": p.level}
    settings |= {"draws": s.draws} if p.role == "dropout" else {"kernel": s.kernel}
    if spreads := job.spreads(p.role):
        settings |= {"spreads": spreads}
    if not p.clean and keeps_parts(job, p):
        settings |= {"parts": True}
    return Recipe("forward", settings, () if job.given else (weights_name(job, p.seed, p.role),))


def clean_passes(job: Job, split: str) -> list[Pass]:
    return [Pass(seed, role, split) for seed in job.seeds for role in job.roles]


def noise_passes(job: Job, noises: Iterable[str], levels: Sequence[float] = ()) -> list[Pass]:
    """All levels above zero, by default those of the run's settings; level zero is the clean pass."""
    return [
        Pass(seed, role, "test", noise, level)
        for seed in job.seeds
        for role in job.roles
        for noise in noises
        for level in levels or job.run.settings.level_values()
        if level > 0
    ]


def passes_named(job: Job, seed: int, role: str, word: str) -> list[Pass]:
    """What a word asks of a network: a split, a noise at one level ("gaussian@0.5"), or at all of the settings'."""
    if word in ("val", "test"):
        return [Pass(seed, role, word)]
    split = "val" if word.startswith(VALIDATION) else "test"
    noise, _, level = word.removeprefix(VALIDATION).partition(AT)
    levels = [float(level)] if level else job.run.settings.level_values()
    return [Pass(seed, role, split, noise, each) for each in levels if each > 0]


def words(job: Job, passes: Sequence[Pass]) -> tuple[str, ...]:
    """The words that ask for passes of one network, the shorter form where it says the same."""
    asked = {p.word: p.word for p in passes}
    for noise in {p.noise for p in passes if not p.clean and p.split == "test"}:
        every = [p.word for p in passes_named(job, passes[0].seed, passes[0].role, noise)]
        if all(word in asked for word in every):
            asked |= dict.fromkeys(every, noise)
    return tuple(dict.fromkeys(asked.values()))


def is_noise_at_level(word: str) -> bool:
    noise, at, level = word.removeprefix(VALIDATION).partition(AT)
    try:
        return noise in NOISES and bool(at) and 0 < float(level) < math.inf
    except ValueError:
        return False


def all_passes(job: Job) -> list[Pass]:
    """What the run's settings call for."""
    clean = [*clean_passes(job, "val"), *clean_passes(job, "test")]
    return clean + noise_passes(job, job.run.settings.noises)


def targets(job: Job, passes: Iterable[Pass]) -> list[Target]:
    return [(p.name, recipe(job, p)) for p in passes]


def pass_cost(job: Job, p: Pass) -> float:
    """In forward passes of one example."""
    return job.data.counts[p.split] * (job.run.settings.draws if p.role == "dropout" else 1)


def is_due(job: Job, p: Pass, *, to_read: bool = False) -> bool:
    """Whether a pass has to be made: its logits are missing or stale, or were cleaned away and are `to_read`."""
    state = job.run.store.checked_state(p.name, recipe(job, p))
    return job.force or not (state.current or (state.kind == CLEANED and not to_read))


def pending(job: Job, passes: Iterable[Pass], *, to_read: bool = False) -> list[Pass]:
    """Those that are due, after the spreads have been taken again where that is enough."""
    return [p for p in passes if is_due(job, p, to_read=to_read) and not resummarised(job, p)]


def run_passes(job: Job, passes: Sequence[Pass], label: str) -> None:
    """Some passes of one network: a walk over the data for each level, with all noises of that level at once."""
    if not passes:
        return
    for p in passes:
        job.progress.detail(f"{p.name}: {job.run.store.state(p.name, recipe(job, p))}")
    model = trained_network(job, passes[0].seed, passes[0].role)
    splits = {name: job.data.split(name) for name in {p.split for p in passes}}
    kept = Draws()
    with job.progress.task(f"{label}, logits", sum(pass_cost(job, p) for p in passes)) as task:
        for group in walks(job, passes):
            task.note(", ".join(p.title for p in group))
            for p, record in zip(group, run_walk(job, model, splits[group[0].split], group, kept, task), strict=True):
                job.run.store.write(p.name, formats.logits_bytes(record), recipe(job, p))
        task.note(f"{len(passes)} forward pass{'es' if len(passes) > 1 else ''}")


def walks(job: Job, passes: Sequence[Pass]) -> list[list[Pass]]:
    """Passes of the same split and level together, from the lowest level up."""

    def key(p: Pass) -> tuple[float, str, bool]:
        return p.level, p.split, keeps_parts(job, p)

    return [list(group) for _, group in groupby(sorted(passes, key=key), key=key)]


def run_walk(job: Job, model: nn.Module, split: Split, passes: Sequence[Pass], kept: Draws, task: Task) -> list[Logits]:
    """The network's work on passes that differ by their noise alone."""
    s, first = job.run.settings, passes[0]
    noises, spreads = [p.noise for p in passes], job.spreads(first.role)
    if first.role == "dropout":
        return forward.run_draws(
            model, split, draws=s.draws, seed=first.seed, noises=noises, level=first.level, spreads=spreads,
            keep_parts=keeps_parts(job, first), device=job.device, kept=kept,
            advance=lambda count: task.advance(count * s.draws),
        )  # fmt: skip
    return forward.run_patches(
        model, split, kernel=s.kernel, noises=noises, level=first.level, spreads=spreads,
        keep_parts=keeps_parts(job, first), device=job.device, kept=kept, advance=task.advance,
    )  # fmt: skip


def keeps_parts(job: Job, p: Pass) -> bool:
    """Whether a pass leaves all its parts, so that the kernel can be changed without the network.

    The clean splits do, and noisy validation data, on which settings are chosen; a level of noise of the test data
    does on request, and goes on doing so.
    """
    entry = job.run.store.entries.get(p.name)
    return p.clean or p.split == "val" or job.keep_patches or (entry is not None and "parts" in entry.settings)


def disk_bytes(job: Job, passes: Iterable[Pass]) -> int:
    """What the logits of some passes take, headers of some hundred bytes aside."""

    @cache
    def per_example(role: str, keep_parts: bool) -> int:
        s, classes = job.run.settings, job.data.classes
        label, spreads = torch.zeros(1, dtype=torch.int64), job.spreads(role)
        if role == "dropout":
            members = torch.zeros(s.draws, 1, classes)
            record = Logits.from_members(members, labels=label, spreads=spreads, keep_parts=keep_parts)
        else:
            patches = torch.zeros(1, classes, *patch_grid(network(job, role), job.data.shape))
            record = Logits.from_patches(patches, labels=label, kernel=s.kernel, spreads=spreads, keep_parts=keep_parts)
        return sum(tensor.nbytes for tensor in record.tensors().values())

    return sum(job.data.counts[p.split] * per_example(p.role, keeps_parts(job, p)) for p in passes)


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
    """Those that are not stale, of the conditions that all networks of their seed have passed.

    A damaged one counts, so that reading it fails rather than passing it over.
    """
    found = [p for p, state in known(job) if state.kind in (CURRENT, CLEANED, DAMAGED)]
    roles: dict[tuple[int, str, float], set[str]] = {}
    for p in found:
        roles.setdefault((p.seed, p.noise, p.level), set()).add(p.role)
    return [p for p in found if roles[p.seed, p.noise, p.level] == set(job.roles)]


def load(job: Job, p: Pass) -> Logits:
    return formats.logits_from(job.run.store.read(p.name))


def records(job: Job, passes: Iterable[Pass], *, together: bool) -> Iterator[tuple[tuple[int, str], Logits]]:
    """What passes over the same inputs left, by seed and role, without their parts; last, all seeds `together`."""
    members: dict[int, Logits] = {}
    for p in passes:
        record = replace(load(job, p), parts=None)
        if together and p.role == "conventional":
            members[p.seed] = Logits(record.logits, labels=record.labels)
        yield (p.seed, p.role), record
    if members and set(members) == set(job.seeds):
        stacked = torch.stack([members[seed].logits for seed in job.seeds])
        ensemble = Logits.from_members(stacked, labels=members[0].labels, spreads=job.spreads(layout.ENSEMBLE))
        yield (layout.TOGETHER, layout.ENSEMBLE), ensemble
