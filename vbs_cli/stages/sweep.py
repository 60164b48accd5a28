"""`vbs noise-sweep`: the test split under growing noise, one forward pass per network, view, noise and level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from vbs_cli.artifacts import study, tables
from vbs_cli.artifacts.job import Job, Levels
from vbs_cli.artifacts.passes import check_has_networks, noise_passes
from vbs_cli.artifacts.plan import planned, report_left_out
from vbs_cli.data import NOISES, SUITES, noises_for
from vbs_cli.data.noise import ANY, SEVERITIES, check_level, check_suits, families_for, join_kinds, suites_for
from vbs_cli.errors import InvalidInput
from vbs_cli.registry import unknown


def with_sweep(job: Job, noises: Iterable[str] | Levels, levels: Sequence[float] = ()) -> Job:
    """Job planned with a sweep of noises over these levels, by default those of its settings, or each over its own."""
    check_noises(job, noises)
    passes = noise_passes(job, noises, levels)
    for noise, level in dict.fromkeys((p.noise, p.level) for p in passes):
        if not job.levels_of(noise):
            check_level(noise, level)
    return planned(job, passes)


def sweep(job: Job, noises: Iterable[str] | Levels, levels: Sequence[float] = ()) -> pd.DataFrame:
    """Make the passes, then the tables of these and all cached passes; return the metrics of these noises."""
    job.need_seeds()
    job = with_sweep(job, noises, levels)
    swept = [p.name for p in noise_passes(job, noises, levels)]
    wanted = [*swept, *job.graph.stage(tables.STAGE), *job.graph.stage("examples")]
    job.make(wanted, forced=swept if job.force else ())
    report_left_out(job)
    metrics = job.run.metrics
    return metrics[metrics["noise"].isin(list(noises))].reset_index(drop=True)


def chosen_noises(job: Job, names: Sequence[str] | None, families: Sequence[str] = ()) -> list[str]:
    """Noises to sweep: those named ("all" for every one that fits the data) and those of families, or the run's own.

    Names of further test data, such as a second test set, count as well.
    """
    further = list(dict.fromkeys(name for name, _ in job.further))
    words = [word.strip() for name in names or () for word in name.split(",")]
    if job.given:
        return chosen_conditions(job, words, further, families)
    fitting = noises_for(job.data.shape)
    if "all" in words:
        return [*fitting, *further]
    for family in families:
        if family not in (known := families_for(job.data.shape)):
            raise unknown("family", family, known)
    of_families = [noise for noise in fitting if NOISES[noise].family in families]
    chosen = list(dict.fromkeys([*words, *of_families])) or [*job.run.settings.noises, *further]
    check_noises(job, chosen)
    return chosen


def chosen_conditions(job: Job, words: Sequence[str], known: Sequence[str], families: Sequence[str]) -> list[str]:
    """Conditions of logits that the user gave: those named, or all; no network could make others."""
    if families or not known:
        brings = "vbs evaluate --val FILE --test FILE --condition NAME=FILE brings logits under a condition"
        raise InvalidInput(f"{job.run.path} was made from logits and has no network for this", hint=brings)
    for word in words:
        if word not in (*known, "all"):
            raise unknown("condition", word, known)
    return list(known) if "all" in words else list(dict.fromkeys(words)) or list(known)


def suite_levels(job: Job, name: str) -> Levels:
    """Levels of each noise of a suite, refused if the suite is for other inputs."""
    check_has_networks(job)
    fitting = suites_for(job.data.shape)
    if name not in SUITES:
        raise unknown("suite", name, SUITES)
    if name not in fitting:
        known = list(fitting)
        suited = f"for {job.data.name} there is --suite {' or '.join(known)}"
        hint = suited if known else "--noise all sweeps the noises that fit"
        raise InvalidInput(f"the suite {name} is for {join_kinds(SUITES[name].kinds)}", hint=hint)
    return fitting[name]


def list_noises() -> list[dict[str, str]]:
    """One row per noise: its family, the inputs that it is for, and the suites that it is in."""
    return [
        {
            "noise": name,
            "family": noise.family,
            "inputs": join_kinds(noise.kinds) if set(noise.kinds) != set(ANY) else "any",
            "suites": ", ".join(
                suite_and_levels(suite, chosen.levels[name])
                for suite, chosen in SUITES.items()
                if name in chosen.levels
            ),
        }
        for name, noise in NOISES.items()
    ]


def suite_and_levels(suite: str, levels: Sequence[float]) -> str:
    """Name of a suite, with the levels of a noise in it unless they are the usual ones: `cifar10-c (0.04 to 0.1)`."""
    return suite if tuple(levels) == SEVERITIES else f"{suite} ({levels[0]:g} to {levels[-1]:g})"


def check_noises(job: Job, noises: Iterable[str]) -> None:
    """Refuse a noise that is unknown or not for these inputs before anything is computed."""
    for noise in noises:
        if not job.levels_of(noise):
            check_suits(noise, job.data.shape)


def with_study(job: Job, exposure: study.Exposure) -> Job:
    """Job planned with the ensemble study of one noise."""
    check_has_networks(job)
    check_noises(job, [exposure.noise])
    if len(job.seeds) < 2:
        raise InvalidInput("an ensemble needs at least two seeds", hint="vbs train --seeds 10 trains more members")
    if study.MEMBER not in job.passing:
        raise InvalidInput("the run trains no conventional networks", hint="--methods with one of them, e.g. vbs")
    job = planned(job, listed=exposure.passes(job))
    job.graph.add(study.artifacts(job, exposure))
    return job


def run_study(job: Job, exposure: study.Exposure) -> pd.DataFrame:
    """Make the passes that are not cached and compare the two ensembles at every level; return the metrics."""
    job = with_study(job, exposure)
    names = job.graph.stage(study.STAGE)
    own = [*(p.name for p in exposure.passes(job)), *names]
    job.make(names, forced=own if job.force else ())
    return job.run.study_metrics
