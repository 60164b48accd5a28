"""`vbs diagnose`: whether variance-based smoothing fits the run's network and data, before anyone relies on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import CLEAN_SPLITS, Pass, known_passes, read_record
from vbs_cli.artifacts.plan import planned
from vbs_cli.conditions import Condition, evenly
from vbs_cli.data.given import KINDS, kind_in
from vbs_cli.diagnosis import Diagnosis, Records, diagnosed, windowed
from vbs_cli.diagnosis.base import Windowed
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.methods.variance import VarianceSmoothing
from vbs_cli.seeding import threads

METHOD, VIEW = "vbs", "patches"
GIVEN_KIND = "patches"  # of logits that the user gave: the others have no spread within one network
FEW = 5  # levels of a noise, zero included, that are read from a sweep, or made if there is none
CHOSEN_AT = (0.25, 0.5)  # levels of the noise that settings are chosen under


def with_method(job: Job) -> Job:
    """Job with the method among its methods and nothing else changed, so that its records serve both."""
    if VIEW not in job.passing:
        raise InvalidInput("the run trains no conventional networks", hint="--methods with one of them, e.g. vbs")
    if job.given and (kind := kind_in(job.data.source)) != GIVEN_KIND:
        hint = f"vbs evaluate with files of {GIVEN_KIND} {KINDS[GIVEN_KIND]} in place of {kind}"
        raise InvalidInput(f"{job.run.path} was made from {kind}, and the spread between patches is judged", hint=hint)
    methods = tuple(dict.fromkeys([*job.run.settings.methods, METHOD]))
    return replace(job, run=replace(job.run, settings=replace(job.run.settings, methods=methods)))


def clean_passes(job: Job, split: str) -> list[Pass]:
    """Passes of every seed over a split without noise."""
    return [Pass(seed, VIEW, split) for seed in job.seeds]


def noise_passes(job: Job, noise: str) -> list[Pass]:
    """Passes at a few levels of a noise: those of a sweep that every seed has, or else evenly spaced ones.

    Further test data are read at all their levels.
    """
    levels = job.levels_of(noise) or few_levels(job, noise)
    return [Pass(seed, VIEW, "test", noise, level) for seed in job.seeds for level in levels if level > 0]


def few_levels(job: Job, noise: str) -> list[float]:
    """A few levels of a noise, zero included: some of a sweep that every seed has, or else evenly spaced ones."""
    found: dict[float, set[int]] = {}
    for p, state in known_passes(job):
        if (p.view, p.noise) == (VIEW, noise) and state.stands:
            found.setdefault(p.level, set()).add(p.seed)
    swept = sorted(level for level, seeds in found.items() if seeds == set(job.seeds))
    most = job.run.settings.max_level
    return evenly([0.0, *swept], FEW) if len(swept) > 1 else [round(most * i / (FEW - 1), 6) for i in range(FEW)]


def validation_passes(job: Job, noise: str, levels: Sequence[float] = CHOSEN_AT) -> list[Pass]:
    """Passes over the validation data under the noise for which settings are chosen."""
    if job.levels_of(noise):
        hint = "name a noise, which can be put on validation data"
        raise InvalidInput(f"{noise} is test data, on which no settings are chosen", hint=hint)
    return [Pass(seed, VIEW, "val", noise, level) for seed in job.seeds for level in levels]


def passes(job: Job, noises: Sequence[str]) -> list[Pass]:
    """Passes that a diagnosis reads; better settings are searched for under the first noise.

    Further test data have no validation data beside them: without a noise the search reads the clean ones alone.
    """
    clean = [p for split in CLEAN_SPLITS for p in clean_passes(job, split)]
    validation = [validation_passes(job, noise) for noise in noises if not job.levels_of(noise)][:1]
    return [*clean, *chain(*validation), *(p for noise in noises for p in noise_passes(job, noise))]


def diagnose(job: Job, noises: Sequence[str]) -> Diagnosis:
    """Make the records that are missing, then judge those of all seeds together; the job is one `with_method`."""
    every = passes(job, noises)
    job = planned(job, listed=every)
    names = [p.name for p in every]
    again = [] if job.given else [p.name for p in every if not p.clean]  # logits that were given cannot be made again
    job.make(names, forced=again if job.force else (), to_read=names)
    method = job.methods[METHOD]
    assert isinstance(method, VarianceSmoothing)
    with threads(1), job.progress.task("diagnosis", 1) as task:
        seeds = [records_of(job, [p for p in every if p.seed == seed], method.spread) for seed in job.seeds]
        found = diagnosed(seeds, method)
        task.advance(1)
        task.note(f"{len(found.findings)} findings")
    return found


def records_of(job: Job, of_seed: Sequence[Pass], spread: str) -> Records:
    """Records of the passes of one seed; the patches of one record are in memory at a time."""
    noisy: dict[str, list[tuple[float, Logits]]] = {}
    clean: dict[str, Logits] = {}
    validation: list[Windowed] = []
    for p in of_seed:
        record = read_record(job, p)
        if p.split == "val":
            validation.append(windowed(record, spread))
        record = replace(record, parts=None)
        if p.clean:
            clean[p.split] = record
        elif p.split == "test":
            noisy.setdefault(p.noise, []).append((p.level, record))
    second_sets = frozenset(noise for noise in noisy if Condition(noise, 1.0).second_set)
    return Records(clean["val"], clean["test"], noisy, validation, second_sets)
