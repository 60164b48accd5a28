"""What only networks can do: training and forward passes, one network after another or many side by side.

A network is a seed and a role. All that is asked of it is one piece of work, which one process does under a lock of its
own: this one, another on this machine, or one on a cluster. So the result does not depend on where it was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic, sleep

from vbs_cli import files
from vbs_cli.data import NOISES
from vbs_cli.errors import InvalidInput, VbsError, translated
from vbs_cli.executors import Relay
from vbs_cli.registry import unknown
from vbs_cli.run import Recipe, Store, layout, part_of
from vbs_cli.seeding import threads
from vbs_cli.stages import passes as caches
from vbs_cli.stages import train
from vbs_cli.stages.base import Job, Target

TRAIN = "train"
CLEAN = ("val", "test")
VISIBLE = 60.0  # seconds until what another machine has written must be seen here


@dataclass(frozen=True)
class Work:
    """What is asked of one network."""

    seed: int
    role: str
    what: tuple[str, ...]  # "train", the splits to pass over as they are, noises to sweep or "gaussian@0.5"

    @property
    def name(self) -> str:
        return f"{self.seed}/{self.role}"

    @property
    def title(self) -> str:
        return f"seed {self.seed} {self.role}"

    @property
    def part(self) -> str:
        """Of the run, for its lock and its manifest."""
        return f"seed-{self.seed}-{self.role}"

    def passes(self, job: Job) -> list[caches.Pass]:
        return [p for word in self.what if word != TRAIN for p in caches.passes_named(job, self.seed, self.role, word)]

    def targets(self, job: Job) -> list[Target]:
        trained = train.targets_of(job, self.seed, self.role) if TRAIN in self.what else []
        return [*trained, *caches.targets(job, self.passes(job))]

    def cost(self, job: Job) -> float:
        """In forward passes of one example, as if nothing of it were done."""
        training = train.cost_of_one(job) if TRAIN in self.what else 0.0
        return training + sum(caches.pass_cost(job, p) for p in self.passes(job))


Failures = Mapping[Work, VbsError]


def parse_work(job: Job, name: str, what: Sequence[str]) -> Work:
    """`3/dropout` and what is asked of it, by default all that the run's settings call for."""
    every = [f"{seed}/{role}" for seed in job.seeds for role in job.roles]
    if name not in every:
        raise unknown("network", name, every)
    known = (TRAIN, *CLEAN, *NOISES)
    for word in what:
        if word not in known and not caches.is_noise_at_level(word):
            raise unknown("work", word, known)
    seed, role = name.split("/")
    return Work(int(seed), role, tuple(what) or (TRAIN, *CLEAN, *job.run.settings.noises))


def do(job: Job, work: Work) -> None:
    """One piece of work in this process."""
    with part_of(job.run, work.part) as run, threads(run.settings.threads):
        here = replace(job, run=run)
        if TRAIN in work.what and train.is_pending(here, work.seed, work.role):
            train.train_one(here, seed=work.seed, role=work.role)
        caches.run_passes(here, caches.pending(here, work.passes(here), to_read=True), work.title)


def train_all(job: Job) -> Failures:
    """Train the networks that are missing."""
    need_training(job)
    todo = train.pending(job)
    networks = len(job.seeds) * len(job.roles)
    if 0 < len(todo) < networks:
        job.progress.say(f"train: {networks - len(todo)} of {networks} networks are there already")
    failures = do_all(job, [Work(seed, role, (TRAIN,)) for seed, role in todo])
    train.tidy(job)
    if job.tensorboard:
        train.fill_board(job)
    return failures


def ensure(
    job: Job, passes: Sequence[caches.Pass], *, before: Sequence[caches.Pass] = (), to_read: bool = False
) -> None:
    """Make the logits that are missing or stale; the networks behind them must be up to date.

    Those of `before` belong to an earlier stage, so that they are not made again by force. Logits that were cleaned
    away are made again only if they are `to_read`. Each network does all of its passes in one go.
    """
    every = [*before, *passes]
    if to_read:  # by whoever needs the logits; those behind them were checked before
        every = caches.pending(job, every, to_read=True)
    if job.given:
        if caches.pending(replace(job, force=False), every, to_read=to_read):
            need_networks(job)
        return
    for seed, role in dict.fromkeys((p.seed, p.role) for p in every):
        train.need_trained(job, seed, role)
    if job.force:
        check(do_all(replace(job, force=False), works_of(job, caches.pending(replace(job, force=False), before))))
        check(do_all(job, works_of(job, passes)))
        return
    todo = caches.pending(job, every, to_read=to_read)
    if 0 < len(todo) < len(every):
        job.progress.say(f"logits: {len(every) - len(todo)} of {len(every)} forward passes are there already")
    check(do_all(job, works_of(job, todo)))


def need_networks(job: Job) -> None:
    """Refuse what logits alone cannot give."""
    if job.given:
        hint = "only vbs evaluate --val FILE --test FILE can bring more logits"
        raise InvalidInput(f"{job.run.path} was made from logits and has no network for this", hint=hint)


def need_training(job: Job) -> None:
    """Refuse to train what was trained elsewhere."""
    need_networks(job)
    if job.run.settings.weights:
        hint = "vbs calibrate, evaluate, noise-sweep, diagnose and export work on it"
        raise InvalidInput(f"the network of {job.run.path} was trained elsewhere", hint=hint)


def everything(job: Job) -> None:
    """Train, and pass over all that the run's settings call for, in one go for each network."""
    need_training(job)
    untrained = train.pending(job)
    every = caches.all_passes(job)
    trained = [p for p in every if (p.seed, p.role) not in untrained]
    new = [Work(seed, role, (TRAIN, *CLEAN, *job.run.settings.noises)) for seed, role in untrained]
    failures = do_all(job, [*new, *works_of(job, caches.pending(job, trained))])
    train.tidy(job)
    check(failures)


def works_of(job: Job, passes: Iterable[caches.Pass]) -> list[Work]:
    """Forward passes as pieces of work, one for each network."""
    of_network: dict[tuple[int, str], list[caches.Pass]] = {}
    for p in passes:
        of_network.setdefault((p.seed, p.role), []).append(p)
    return [Work(seed, role, caches.words(job, some)) for (seed, role), some in of_network.items()]


def check(failures: Failures) -> None:
    """Raise if something failed, naming all of it."""
    if failures:
        reasons = "; ".join(f"{work.title}: {error}" for work, error in failures.items())
        count = f"{len(failures)} network{'s' if len(failures) > 1 else ''}"
        raise VbsError(f"{count} failed, the others are done: {reasons}") from next(iter(failures.values()))


def do_all(job: Job, works: Sequence[Work]) -> Failures:
    """Every piece of work, whatever becomes of the others."""
    if not works:
        return {}
    job.run.store.write_if_changed(layout.DATASET, files.to_json(job.data.description()), Recipe("download", {}))
    say_disk(job, [p for work in works for p in work.passes(job)])
    train.begin(job, [(work.seed, work.role) for work in works if TRAIN in work.what])
    # A single piece needs no other process here, but whoever names a cluster means it.
    by_crew = job.crew is not None and (len(works) > 1 or train.remote(job))
    failures: dict[Work, VbsError] = {}
    for work, error in done_by_crew(job, works) if by_crew else done_here(job, works):
        job.run.store.take_over(work.part)
        if error is not None:
            failures[work] = error
            job.progress.say(f"{work.title} failed: {error}")
    return failures


def say_disk(job: Job, passes: Sequence[caches.Pass]) -> None:
    """What the logits will take of the disk, and an error where it has no room for them."""
    if not passes:
        return
    needed, free = caches.disk_bytes(job, passes), files.free_bytes(job.run.path)
    room = f"{files.told_size(needed)} of logits, {files.told_size(free)} free"
    if needed > free:
        hint = "vbs clean --caches gives room, fewer --levels take less; --runs FOLDER is for another disk"
        raise VbsError(f"{job.run.path} has no room for {room}", hint=hint)
    job.progress.say(f"{len(passes)} forward passes: {room}")


def done_here(job: Job, works: Iterable[Work]) -> Iterator[tuple[Work, VbsError | None]]:
    """One after another in this process."""
    for work in works:
        error = None
        try:
            do(job, work)
        except InvalidInput:
            raise
        except Exception as fault:
            error = translated(fault)
        yield work, error


def done_by_crew(job: Job, works: Sequence[Work]) -> Iterator[tuple[Work, VbsError | None]]:
    """By other processes, whose progress is shown here; the longest first, so that none is left alone at the end."""
    assert job.crew is not None
    by_name = {work.name: work for work in sorted(works, key=lambda work: -work.cost(job))}
    commands = {name: words(job, work) for name, work in by_name.items()}
    relays = {name: Relay(job.progress) for name in by_name}
    with job.progress.side_by_side():
        for name, outcome in job.crew.run(commands, lambda name, message: relays[name].hear(message)):
            relays[name].close()
            if outcome.wrong_use:
                raise InvalidInput(outcome.error)
            if outcome.trace:
                job.progress.detail(outcome.trace)
            why = outcome.error or unseen(job, by_name[name])
            yield by_name[name], VbsError(why) if why else None


def words(job: Job, work: Work) -> list[str]:
    """The command line of a piece of work."""
    where = ["--run", str(job.run.path.resolve()), "--data", str(job.data.folder.parent.resolve())]
    asked = {"--force": job.force, "--tensorboard": job.tensorboard, "--keep-patches": job.keep_patches}
    flags = [flag for flag, wanted in asked.items() if wanted]
    return ["work", work.name, *work.what, *where, "--device", job.device_name, "--debug", *flags]


def unseen(job: Job, work: Work) -> str:
    """What is wrong if something that another process says it has made does not show up here."""
    deadline = monotonic() + VISIBLE
    while True:
        store = Store(job.run.path)  # the folder as it is now; a network's may lag behind
        missing = [name for name, recipe in work.targets(job) if not store.state(name, recipe).current]
        if not missing:
            return ""
        if monotonic() > deadline:
            return f"{missing[0]} does not show up in {job.run.path}; all machines must share that folder"
        sleep(1)
