"""`vbs calibrate --auto`: choose kernel, alpha and beta by the validation data alone, clean and under one noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass, read_record
from vbs_cli.artifacts.plan import planned
from vbs_cli.diagnosis import Candidate, gain_of, search, windowed
from vbs_cli.diagnosis.base import Windowed
from vbs_cli.methods.variance import VarianceSmoothing
from vbs_cli.seeding import threads
from vbs_cli.stages.diagnose import CHOSEN_AT, METHOD, clean_passes, validation_passes

SHOWN = 5  # number of choices that are shown


@dataclass(frozen=True)
class Chosen:
    """Choices that were tried, best first, their noise and its levels, and how the best does under other noises."""

    tried: Sequence[Candidate]
    noise: str
    levels: Sequence[float]
    held_out: Sequence[dict[str, Any]]  # noise, nll before, value, low and high of the change

    @property
    def best(self) -> Candidate:
        return self.tried[0]

    @property
    def settings(self) -> dict[str, Any]:
        """The best choice as settings of the run, with the noise that it was made under."""
        options = {METHOD: {"alpha": self.best.alpha, "beta": self.best.beta}}
        return {"kernel": self.best.kernel, "options": options, "tuned_on": self.noise}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each of the best few choices."""
        return [asdict(choice) for choice in self.tried[:SHOWN]]


def passes(job: Job, noise: str) -> dict[str, list[Pass]]:
    """Passes over validation data, keyed by noise: those that settings are chosen by, and those of held-out noises."""
    others = [name for name in job.run.settings.noises if name != noise]
    by_noise = {name: validation_passes(job, name, CHOSEN_AT) for name in others}
    return {noise: [*clean_passes(job, "val"), *validation_passes(job, noise, CHOSEN_AT)], **by_noise}


def choose(job: Job, noise: str) -> Chosen:
    """Choose settings by NLL, mean over the clean and noisy validation data of all seeds; test data are not read."""
    wanted = passes(job, noise)
    every = [p for some in wanted.values() for p in some]
    job = planned(job, listed=every)
    names = [p.name for p in every]
    job.make(names, forced=[p.name for p in every if not p.clean] if job.force else (), to_read=names)
    method = job.methods[METHOD]
    assert isinstance(method, VarianceSmoothing)
    with threads(1), job.progress.task("choosing settings", len(wanted)) as task:
        seeds = of_seeds(job, wanted.pop(noise), method.spread)
        tried = search(seeds, method)
        task.advance(1)
        held_out = []
        for other, some in wanted.items():
            gain, before = gain_of(tried[0], method, [seed[0] for seed in seeds], of_seeds(job, some, method.spread))
            held_out.append({"noise": other, "before": before, **asdict(gain)})
            task.advance(1)
        task.note(f"{len(tried)} tried, {noise} noise")
    return Chosen(tried, noise, CHOSEN_AT, held_out)


def of_seeds(job: Job, some: Sequence[Pass], spread: str) -> list[list[Windowed]]:
    """Windowed records of each seed; the patches of one record are in memory at a time."""
    return [[windowed(read_record(job, p), spread) for p in some if p.seed == seed] for seed in job.seeds]
