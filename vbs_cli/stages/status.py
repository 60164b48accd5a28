"""`vbs status`: what is there, what is stale and why."""

from __future__ import annotations

from vbs_cli.run import State
from vbs_cli.run.store import STALE
from vbs_cli.stages import calibrate, evaluate, examples, export, plot, report, study, train
from vbs_cli.stages import passes as caches
from vbs_cli.stages.base import Job, Target


def plan(job: Job) -> list[Target]:
    """Every artifact that the settings call for or that sweeps and exports have made, in the order of their making."""
    passes = dict.fromkeys([*caches.all_passes(job), *(p for p, _ in caches.known(job))])
    return [
        *train.targets(job),
        *caches.targets(job, passes),
        calibrate.target(job),
        *evaluate.targets(job),
        *study.targets(job),
        *examples.targets(job),
        *plot.targets(job),
        report.target(job),
        *export.known(job),
    ]


def status(job: Job, targets: list[Target] | None = None) -> list[dict[str, str]]:
    """One row per artifact; what was made from something stale is stale too."""
    states: dict[str, State] = {}
    for name, recipe in plan(job) if targets is None else targets:
        state = job.run.store.state(name, recipe)
        behind = [source for source in recipe.inputs if source in states and not states[source].stands]
        if state.stands and behind:
            state = State(STALE, f"{behind[0]} is {states[behind[0]].kind}")
        states[name] = state
    return [{"artifact": name, "state": state.kind, "why": state.why} for name, state in states.items()]
