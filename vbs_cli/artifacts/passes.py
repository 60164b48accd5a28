"""Forward passes and the records that they leave: a network runs once per view, split, noise and level."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

import torch
from torch import nn

from vbs_cli.artifacts.job import Job, Levels, Source
from vbs_cli.artifacts.training import trained, untrained, weights_name
from vbs_cli.data import NOISES, Split
from vbs_cli.data.noise import KeptDraws
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import ACTIVATIONS, Logits, spreads_named
from vbs_cli.models.base import patch_grid
from vbs_cli.pairs import USUAL
from vbs_cli.progress import Task
from vbs_cli.run import Artifact, Entry, Recipe, State, formats, layout
from vbs_cli.run.store import CLEANED, CURRENT, DAMAGED
from vbs_cli.views import VIEWS, folder_of
from vbs_cli.views.taps import find_taps
from vbs_cli.views.walk import walk

STAGE = "forward"
REVISION = 1  # of the walk and the records; raised when passes give other numbers
CLEAN_SPLITS = ("val", "test")
SPREAD_SETTINGS = ("kernel", "extras")  # settings that can be changed without the network if the parts were kept
FLOAT = 4  # bytes
FEW_NAMES = 3  # of noises that are walked together; more of them are counted
LEVEL_SEPARATOR = "@"  # in the word of a pass, between a noise and its level
VALIDATION_PREFIX = "val:"  # in the word of a pass, before a noise on the validation data
VIEW_SEPARATOR = "/"  # in the word of a pass, after the name of a view


@dataclass(frozen=True)
class Pass:
    """One pass over one split, clean or under noise at one level, read by one view."""

    seed: int
    view: str
    split: str
    noise: str = layout.CLEAN
    level: float = 0.0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Pass:
        """Pass that a recipe's settings describe."""
        return cls(*(settings[name] for name in ("seed", "view", "split", "noise", "level")))

    @property
    def name(self) -> str:
        return layout.logits(self.seed, folder_of(self.view), self.split, self.noise, self.level)

    @property
    def network(self) -> str:
        """Name of the network that runs."""
        return VIEWS[self.view].network

    @property
    def clean(self) -> bool:
        return self.noise == layout.CLEAN

    @property
    def word(self) -> str:
        """Word that asks `vbs work` for this pass: "test", "gaussian@0.5", "val:gaussian@0.5", "augmentations/test"."""
        of = VALIDATION_PREFIX if self.split == "val" else ""
        word = self.split if self.clean else f"{of}{self.noise}{LEVEL_SEPARATOR}{self.level!r}"
        return word if self.view == default_view(self.network) else f"{self.view}{VIEW_SEPARATOR}{word}"

    @property
    def title(self) -> str:
        of = "" if self.view == default_view(self.network) else f"{self.view} "
        if self.clean:
            return f"{of}{self.split}"
        return f"{of}{'val ' if self.split == 'val' else ''}{self.noise} {self.level:.2f}"


def default_view(network: str) -> str:
    """View that words of `vbs work` mean if they name none: patches, or else the first that reads the network."""
    views = [name for name, view in VIEWS.items() if view.network == network and not view.source]
    return USUAL if USUAL in views else views[0]


def recipe(job: Job, p: Pass) -> Recipe:
    """Recipe of the record of a pass: everything that it depends on."""
    source = source_of(job, p)
    settings = {"data": source.fingerprint, "seed": p.seed, "network": p.network, "view": p.view, "split": p.split}
    settings |= {"noise": p.noise, "level": p.level, **asdict(job.views[p.view])}
    if extras := job.extras(p.view):
        settings |= {"extras": extras}
    if not p.clean and keeps_parts(job, p):
        settings |= {"parts": True}
    noises = [] if p.clean or source.further else [p.noise]
    revisions = {"forward pass": REVISION, **VIEWS.revisions([p.view]), **NOISES.revisions(noises)}
    inputs = () if job.given else (weights_name(job, p.seed, p.network),)
    return Recipe(STAGE, settings, inputs, revisions)


def clean_passes(job: Job, *splits: str) -> list[Pass]:
    """Passes of every seed and view over these splits without noise."""
    return [Pass(seed, view, split) for split in splits for seed in job.seeds for view in job.passing]


def further_passes(job: Job) -> list[Pass]:
    """Passes of every seed and view over further test data."""
    return noise_passes(job, {name: job.levels_of(name) for name, _ in job.further})


def noise_passes(job: Job, noises: Iterable[str] | Levels, levels: Sequence[float] = ()) -> list[Pass]:
    """Passes over the test split under noises at all levels above zero, by default those of the settings.

    Each noise may have levels of its own. Level zero is the clean pass.
    """
    own = noises if isinstance(noises, Mapping) else {}
    return [
        Pass(seed, view, "test", noise, level)
        for seed in job.seeds
        for view in job.passing
        for noise in noises
        for level in own.get(noise) or job.levels_of(noise) or levels or job.run.settings.level_values()
        if level > 0
    ]


def passes_of_spec(job: Job, seed: int, network: str, word: str) -> list[Pass]:
    """Passes that a word asks for: over a split, or under noise at one level ("gaussian@0.5") or all of the run's."""
    view, _, rest = word.rpartition(VIEW_SEPARATOR)
    view = view or default_view(network)
    if rest in CLEAN_SPLITS:
        return [Pass(seed, view, rest)]
    split = "val" if rest.startswith(VALIDATION_PREFIX) else "test"
    noise, _, level = rest.removeprefix(VALIDATION_PREFIX).partition(LEVEL_SEPARATOR)
    levels = [float(level)] if level else job.levels_of(noise) or job.run.settings.level_values()
    return [Pass(seed, view, split, noise, each) for each in levels if each > 0]


def specs_for(job: Job, passes: Sequence[Pass]) -> tuple[str, ...]:
    """Words that ask for passes of one network; a noise alone ("gaussian") if all levels of the settings are wanted."""
    asked = {p.word: p.word for p in passes}
    for view, noise in {(p.view, p.noise) for p in passes if not p.clean and p.split == "test"}:
        first = next(p for p in passes if (p.view, p.noise) == (view, noise))
        short = first.word.partition(LEVEL_SEPARATOR)[0]
        every = [p.word for p in passes_of_spec(job, first.seed, first.network, short)]
        if all(word in asked for word in every):
            asked |= dict.fromkeys(every, short)
    return tuple(dict.fromkeys(asked.values()))


def is_spec(job: Job, network: str, word: str) -> bool:
    """Whether a word names passes of a network."""
    view, slash, rest = word.rpartition(VIEW_SEPARATOR)
    if slash and not (view in job.passing and job.passing[view].network == network):
        return False
    noise, at, level = rest.removeprefix(VALIDATION_PREFIX).partition(LEVEL_SEPARATOR)
    try:
        further = {name for name, _ in job.further}
        at_level = (noise in NOISES or noise in further) and bool(at) and 0 < float(level) < math.inf
    except ValueError:
        return False
    return at_level or rest in (*CLEAN_SPLITS, *NOISES, *further)


def settings_passes(job: Job) -> list[Pass]:
    """Every pass that the run's settings call for."""
    return clean_passes(job, *CLEAN_SPLITS) + noise_passes(job, job.run.settings.noises) + further_passes(job)


def source_of(job: Job, p: Pass) -> Source:
    """Split that a pass reads: one of the run's own data, or further test data."""
    return job.further.get((p.noise, p.level)) or job.splits[p.split]


def cost(job: Job, p: Pass) -> float:
    """Cost of a pass, in forward passes of one example."""
    return len(source_of(job, p)) * job.views[p.view].passes


def run_passes(job: Job, artifacts: Sequence[Artifact], label: str) -> None:
    """Make the records of passes of one network, by one walk over the data per level for all noises of that level."""
    if not artifacts:
        return
    recipes = {Pass.of(artifact.recipe.settings): artifact.recipe for artifact in artifacts}
    for p, made_from in recipes.items():
        job.progress.detail(f"{p.name}: {job.run.store.state(p.name, made_from)}")
    first = next(iter(recipes))
    model = trained(job, first.seed, first.network)
    sources = dict.fromkeys(source_of(job, p) for p in recipes)
    splits = {source: source.read() for source in sources}
    kept = KeptDraws()
    with job.progress.task(f"{label}, logits", sum(cost(job, p) for p in recipes)) as task:
        for group in group_by_walk(job, list(recipes)):
            task.note(describe_walk(group))
            split = splits[source_of(job, group[0])]
            for p, record in zip(group, run_walk(job, model, split, group, kept, task), strict=True):
                job.run.store.write(p.name, formats.logits_bytes(record), recipes[p])
        task.note(f"{len(recipes)} forward pass{'es' if len(recipes) > 1 else ''}")


def describe_walk(group: Sequence[Pass]) -> str:
    """Noises and level of passes that share a walk over the data; many noises are only counted."""
    if len(group) <= FEW_NAMES:
        return ", ".join(p.title for p in group)
    return f"{len(group)} noises at {group[0].level:.2f}"


def group_by_walk(job: Job, passes: Sequence[Pass]) -> list[list[Pass]]:
    """Group passes that share a walk over the data, by level, split and view, from the lowest level up."""

    def key(p: Pass) -> tuple[float, str, str, bool, str]:
        return p.level, p.split, p.view, keeps_parts(job, p), p.noise if source_of(job, p).further else ""

    return [list(group) for _, group in groupby(sorted(passes, key=key), key=key)]


def run_walk(
    job: Job, model: nn.Module, split: Split, passes: Sequence[Pass], kept: KeptDraws, task: Task
) -> list[Logits]:
    """Walk over a split once and return the records of passes that differ in their noise alone."""
    first = passes[0]
    view, level = job.views[first.view], 0.0 if source_of(job, first).further else first.level
    return walk(
        model, split, view, seed=first.seed, noises=[p.noise for p in passes], level=level,
        extras=job.extras(first.view), keep_parts=keeps_parts(job, first), device=job.device, kept=kept,
        advance=lambda count: task.advance(count * view.passes),
    )  # fmt: skip


def keeps_parts(job: Job, p: Pass) -> bool:
    """Whether the record of a pass keeps all its parts, so that the kernel can be changed without the network.

    Records of clean splits do, and those of noisy validation data, on which settings are chosen. Those of noisy test
    data do on request, and whenever their last version did.
    """
    entry = job.run.store.entries.get(p.name)
    return p.clean or p.split == "val" or job.keep_patches or (entry is not None and "parts" in entry.settings)


def disk_bytes(job: Job, passes: Iterable[Pass]) -> int:
    """Bytes that the records of passes take on disk, without their headers of some hundred bytes."""

    @cache
    def per_example(view_name: str, keep_parts: bool) -> int:
        view, extras = job.views[view_name], job.extras(view_name)
        net, shape = untrained(job, view.network), job.data.shape
        parts = torch.zeros(1, job.data.classes, *view.grid(patch_grid(net, shape)))
        label = torch.zeros(1, dtype=torch.int64)
        spreads = spreads_named(extras)
        record = Logits.from_patches(parts, labels=label, kernel=view.window, spreads=spreads, keep_parts=keep_parts)
        tapped = sum(find_taps(net, shape).sizes.values()) if ACTIVATIONS in extras else 0
        return sum(tensor.nbytes for tensor in record.tensors().values()) + FLOAT * tapped

    return sum(len(source_of(job, p)) * per_example(p.view, keeps_parts(job, p)) for p in passes)


def renew_spreads(job: Job, artifact: Artifact) -> bool:
    """Renew a record whose spreads alone are stale from the parts that it keeps; return whether that was possible."""
    store, wanted = job.run.store, artifact.recipe
    entry = store.entries.get(artifact.name)
    if job.force or entry is None or not renewable(entry, wanted):
        return False
    others = {name: value for name, value in wanted.settings.items() if name not in SPREAD_SETTINGS}
    as_made = others | {name: entry.settings[name] for name in SPREAD_SETTINGS if name in entry.settings}
    if not store.is_current(artifact.name, replace(wanted, settings=as_made)):
        return False
    record = formats.logits_from(store.read(artifact.name))
    if record.parts is None:
        return False
    again = record.at_kernel(wanted.settings.get("kernel", 1), spreads=spreads_named(wanted.settings.get("extras", ())))
    store.write(artifact.name, formats.logits_bytes(again), wanted)
    job.progress.detail(f"{artifact.name}: spread recomputed")
    return True


def renewable(entry: Entry, wanted: Recipe) -> bool:
    """Whether the parts of a record suffice for the extras that are wanted; activations need the network."""
    extras = set(wanted.settings.get("extras", ())) - set(entry.settings.get("extras", ()))
    return len(spreads_named(extras)) == len(extras)


def recorded_passes(job: Job) -> list[Pass]:
    """Passes over the test split that the run has records of, sorted by name, whichever command made them.

    Where the user gave the logits, only the conditions that were given last count.
    """
    entries = [entry for _, entry in sorted(job.run.store.entries.items()) if entry.stage == STAGE]
    found = [Pass.of(entry.settings) for entry in entries if entry.settings["split"] == "test"]
    noises = () if job.given else NOISES
    there = [p for p in found if p.clean or p.noise in noises or (p.noise, p.level) in job.further]
    return [p for p in there if p.seed in job.seeds and p.view in job.passing]


def known_passes(job: Job) -> Iterator[tuple[Pass, State]]:
    """Yield every recorded pass over the test split with its state; recipes come from the job's graph, if planned."""
    for p in recorded_passes(job):
        known = job.planned is not None and p.name in job.graph
        yield p, job.run.store.state(p.name, job.graph[p.name].recipe if known else recipe(job, p))


def usable_passes(job: Job, requested: Iterable[Pass] = ()) -> list[Pass]:
    """Passes over the test split that tables are made from, sorted by name: those requested and those not stale.

    A condition of a seed counts only if all views have a pass under it. Damaged records count too, so that reading
    them fails instead of leaving them out unnoticed.
    """
    found = {p for p in requested if p.split == "test"}
    found |= {p for p, state in known_passes(job) if state.kind in (CURRENT, CLEANED, DAMAGED)}
    views: dict[tuple[int, str, float], set[str]] = {}
    for p in found:
        views.setdefault((p.seed, p.noise, p.level), set()).add(p.view)
    complete = [p for p in found if views[p.seed, p.noise, p.level] == set(job.passing)]
    return sorted(complete, key=lambda p: p.name)


def passes_behind(job: Job, artifact: str) -> list[Pass]:
    """Passes whose records the named artifact is made from."""
    behind = [job.graph[name] for name in job.graph[artifact].recipe.inputs if name in job.graph]
    return [Pass.of(each.recipe.settings) for each in behind if each.recipe.stage == STAGE]


def read_record(job: Job, p: Pass) -> Logits:
    """Read the record of a pass."""
    return formats.logits_from(job.run.store.read(p.name))


def read_records(job: Job, passes: Iterable[Pass], *, joined: bool = True) -> Iterator[tuple[tuple[int, str], Logits]]:
    """Yield ((seed, view), record) of passes over the same inputs, without parts; records joined of all seeds last."""
    members: dict[str, dict[int, Logits]] = {view.source: {} for view in job.joining.values()} if joined else {}
    for p in passes:
        record = replace(read_record(job, p), parts=None)
        if p.view in members:
            members[p.view][p.seed] = Logits(record.logits, labels=record.labels)
        yield (p.seed, p.view), record
    for name, view in job.joining.items() if joined else ():
        found = members[view.source]
        if set(found) == set(job.seeds):
            spreads = spreads_named(job.extras(name))
            yield (layout.TOGETHER, name), view.join([found[seed] for seed in job.seeds], spreads=spreads)


def check_has_networks(job: Job) -> None:
    """Refuse a run that was made from logits, in a command that needs networks."""
    if job.given:
        hint = "only vbs evaluate --val FILE --test FILE can bring more logits"
        raise InvalidInput(f"{job.run.path} was made from logits and has no network for this", hint=hint)
