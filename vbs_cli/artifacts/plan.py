"""All artifacts of a run in one graph: what its settings call for, what it has already, and what is asked for now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vbs_cli.artifacts import examples, exports, figures, fits, passes, report, study, tables, work
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass
from vbs_cli.run import Graph, layout
from vbs_cli.run.store import STALE


def planned(job: Job, requested: Iterable[Pass] = (), *, listed: Iterable[Pass] = ()) -> Job:
    """Job with a graph of its artifacts, from the networks to the tables of all conditions known or requested.

    Passes that are only `listed` are part of the graph, but no table reads them.
    """
    graph = Graph(job.run.store)
    job = replace(job, planned=graph)
    requested = [*requested, *passes.further_passes(job)]
    clean, recorded = passes.clean_passes(job, *passes.CLEAN_SPLITS), passes.recorded_passes(job)
    exposure = study.known_exposure(job)
    exposed = exposure.passes(job) if exposure is not None else []
    graph.add(work.artifacts(job, dict.fromkeys([*clean, *requested, *listed, *recorded, *exposed])))
    usable = passes.usable_passes(job, requested)
    graph.add(fits.artifacts(job))
    graph.add(tables.artifacts(job, list(dict.fromkeys([*passes.clean_passes(job, "test"), *usable]))))
    graph.add(examples.artifacts(job, usable))
    graph.add(study.artifacts(job, exposure) if exposure is not None else ())
    return job


def with_plan(job: Job) -> Job:
    """Job with its graph, which is planned now unless the job has one."""
    return job if job.planned is not None else planned(job)


def with_everything(job: Job) -> Job:
    """Job with a graph of all that its settings call for and all that the run has; figures and report included."""
    job = planned(job, listed=passes.settings_passes(job))
    job.graph.add(figures.known_artifacts(job))
    job.graph.add(report.artifacts(job))
    job.graph.add(exports.known_artifacts(job))
    return job


def report_left_out(job: Job) -> None:
    """Tell the user which sweeps the tables leave out, since they are stale or lack passes of some network."""
    used = {p.noise for p in passes.passes_behind(job, layout.METRICS)}
    known = [(p, state) for p, state in passes.known_passes(job) if not p.clean]
    stale = {p.noise for p, state in known if state.kind == STALE}
    incomplete = {p.noise for p, _ in known} - stale - used
    for why, noises in (("stale", sorted(stale)), ("incomplete", sorted(incomplete))):
        if noises:
            again = " ".join(f"--noise {noise}" for noise in noises)
            job.progress.say(f"left out {why} logits of {', '.join(noises)}; vbs noise-sweep {again} makes them again")
