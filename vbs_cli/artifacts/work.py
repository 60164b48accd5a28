"""Training and forward passes, handed out to this process or to others.

All that is requested of one network of one seed is one piece of work, which one process does under its own lock: this
process, another on this machine, or one on a cluster. So the result does not depend on where it was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic, sleep

from vbs_cli import files
from vbs_cli.artifacts import passes, training
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass
from vbs_cli.data import NOISES
from vbs_cli.errors import InvalidInput, VbsError, translated
from vbs_cli.executors import Relay
from vbs_cli.registry import unknown
from vbs_cli.run import Artifact, Recipe, Store, layout, part_of
from vbs_cli.seeding import threads

TRAIN = "train"
VISIBLE_WITHIN = 60.0  # seconds within which files from another machine must appear here


@dataclass(frozen=True)
class Work:
    """One piece of work: the training and passes requested of one network of one seed."""

    seed: int
    network: str
    what: tuple[str, ...]  # "train", and the words of passes: "test", "gaussian@0.5", "augmentations/test"

    @property
    def name(self) -> str:
        return f"{self.seed}/{self.network}"

    @property
    def title(self) -> str:
        return f"seed {self.seed} {self.network}"

    @property
    def part(self) -> str:
        """Name of this piece's lock and partial manifest."""
        return f"seed-{self.seed}-{self.network}"

    def passes(self, job: Job) -> list[Pass]:
        words = [word for word in self.what if word != TRAIN]
        return [p for word in words for p in passes.passes_of_spec(job, self.seed, self.network, word)]

    def artifacts(self, job: Job) -> list[Artifact]:
        """Artifacts that this piece of work makes."""
        trained = training.artifact_names(job, self.seed, self.network) if TRAIN in self.what else []
        return [job.graph[name] for name in (*trained, *(p.name for p in self.passes(job)))]

    def cost(self, job: Job) -> float:
        """Cost in forward passes of one example, whether or not some of it is done already."""
        trained = training.cost_of_one(job) if TRAIN in self.what else 0.0
        return trained + sum(passes.cost(job, p) for p in self.passes(job))


Failures = Mapping[Work, VbsError]


class NetworksFailed(VbsError):
    """Raised when some networks could not be trained or run; the others are done."""

    def __init__(self, failures: Failures) -> None:
        reasons = "; ".join(f"{work.title}: {error}" for work, error in failures.items())
        count = f"{len(failures)} network{'s' if len(failures) > 1 else ''}"
        super().__init__(f"{count} failed, the others are done: {reasons}")
        self.failures = failures


def artifacts(job: Job, wanted: Iterable[Pass]) -> list[Artifact]:
    """Artifacts of all trainings, and the records of the wanted passes."""
    trained = [
        Artifact(name, recipe, make)
        for seed, network in training.every_network(job)
        for recipe in [training.recipe(job, seed, network)]
        for name in training.artifact_names(job, seed, network)
    ]
    return [*trained, *(Artifact(p.name, passes.recipe(job, p), make) for p in wanted)]


def parse_work(job: Job, name: str, what: Sequence[str]) -> Work:
    """Piece of work with this name, `3/dropout`, and these words, by default all that the settings call for."""
    every = {f"{seed}/{network}": (seed, network) for seed, network in training.every_network(job)}
    if name not in every:
        raise unknown("network", name, every)
    seed, network = every[name]
    for word in what:
        if word != TRAIN and not passes.is_spec(job, network, word):
            raise unknown("work", word, [TRAIN, *passes.CLEAN_SPLITS, *NOISES])
    if not what:
        own = [p for p in passes.settings_passes(job) if (p.seed, p.network) == (seed, network)]
        what = (TRAIN, *passes.specs_for(job, own))
    return Work(seed, network, tuple(what))


def do(job: Job, work: Work) -> None:
    """Do one piece of work in this process."""
    with part_of(job.run, work.part) as run, threads(run.settings.threads):
        graph = job.graph.on(run.store)
        here = replace(job, run=run, planned=graph)
        wanted = work.artifacts(here)
        forced = {artifact.name for artifact in wanted} if job.force else set()
        trainings = [artifact for artifact in wanted if artifact.recipe.stage == training.STAGE]
        if graph.due(trainings, forced=forced):
            training.train_one(here, seed=work.seed, network=work.network)
        records = [artifact for artifact in wanted if artifact.recipe.stage == passes.STAGE]
        due = graph.due(records, forced=forced, to_read={artifact.name for artifact in records})
        passes.run_passes(here, [each for each in due if not passes.renew_spreads(here, each)], work.title)


def make(job: Job, due: Sequence[Artifact], done: Sequence[Artifact]) -> None:
    """Train networks and make the records of passes; all that is due of one network is one piece of work."""
    trainings = {network_of(artifact) for artifact in due if artifact.recipe.stage == training.STAGE}
    records = [artifact for artifact in due if artifact.recipe.stage == passes.STAGE]
    if not job.trains:
        for seed, network in sorted(trainings):
            training.check_trained(job, seed, network)
        trainings = set()
    renewed = {a.name for a in records if network_of(a) not in trainings and passes.renew_spreads(job, a)}
    records = [artifact for artifact in records if artifact.name not in renewed]
    report_up_to_date(job, trainings, records, [*due, *done])
    failures = run_all_work(job, group_into_work(job, sorted(trainings), records))
    if trainings:
        training.tidy(job)
    if failures:
        raise NetworksFailed(failures) from next(iter(failures.values()))


def network_of(artifact: Artifact) -> tuple[int, str]:
    """Seed and name of the network behind weights or a record."""
    return artifact.recipe.settings["seed"], artifact.recipe.settings["network"]


def report_up_to_date(
    job: Job, trainings: set[tuple[int, str]], records: Sequence[Artifact], every: Sequence[Artifact]
) -> None:
    """Tell the user how many of the requested networks and passes are up to date."""
    networks = {network_of(artifact) for artifact in every if artifact.recipe.stage == training.STAGE}
    if 0 < len(trainings) < len(networks):
        job.progress.say(f"train: {len(networks) - len(trainings)} of {len(networks)} networks are there already")
    asked = sum(artifact.recipe.stage == passes.STAGE for artifact in every)
    if 0 < len(records) < asked:
        job.progress.say(f"logits: {asked - len(records)} of {asked} forward passes are there already")


def group_into_work(job: Job, trainings: Sequence[tuple[int, str]], records: Iterable[Artifact]) -> list[Work]:
    """Group trainings and records into pieces of work, one for each network."""
    of_network: dict[tuple[int, str], list[Pass]] = {key: [] for key in trainings}
    for artifact in records:
        of_network.setdefault(network_of(artifact), []).append(Pass.of(artifact.recipe.settings))
    return [
        Work(*key, (*([TRAIN] if key in trainings else []), *(passes.specs_for(job, some) if some else ())))
        for key, some in of_network.items()
    ]


def run_all_work(job: Job, pieces: Sequence[Work]) -> Failures:
    """Do every piece of work, even if others fail; return those that failed."""
    if not pieces:
        return {}
    passes.check_has_networks(job)
    job.run.store.write_if_changed(layout.DATASET, files.to_json(job.data.description()), Recipe("download", {}))
    for name, data in job.second_tests.items():
        description = files.to_json(data.description())
        job.run.store.write_if_changed(layout.second_test(name), description, Recipe("download", {}))
    report_disk_space(job, [p for work in pieces for p in work.passes(job)])
    training.announce_training(job, [(work.seed, work.network) for work in pieces if TRAIN in work.what])
    # A single piece needs no further process on this machine, but a cluster that was named is always used.
    by_crew = job.crew is not None and (len(pieces) > 1 or training.remote(job))
    failures: dict[Work, VbsError] = {}
    for work, error in run_by_crew(job, pieces) if by_crew else run_here(job, pieces):
        job.run.store.take_over(work.part)
        if error is not None:
            failures[work] = error
            job.progress.say(f"{work.title} failed: {error}")
    return failures


def report_disk_space(job: Job, wanted: Sequence[Pass]) -> None:
    """Tell the user how much disk space the records will take; an error if there is not enough."""
    if not wanted:
        return
    needed, free = passes.disk_bytes(job, wanted), files.free_bytes(job.run.path)
    room = f"{files.format_size(needed)} of logits, {files.format_size(free)} free"
    if needed > free:
        hint = "vbs clean --caches frees space, fewer --levels take less, --runs FOLDER uses another disk"
        raise VbsError(f"{job.run.path} has no room for {room}", hint=hint)
    job.progress.say(f"{len(wanted)} forward passes: {room}")


def run_here(job: Job, pieces: Iterable[Work]) -> Iterator[tuple[Work, VbsError | None]]:
    """Do pieces one after another in this process; yield each with its error, or None."""
    for work in pieces:
        error = None
        try:
            do(job, work)
        except InvalidInput:
            raise
        except Exception as fault:
            error = translated(fault)
        yield work, error


def run_by_crew(job: Job, pieces: Sequence[Work]) -> Iterator[tuple[Work, VbsError | None]]:
    """Have other processes do pieces, longest first so that none is left over alone; yield each with its error."""
    assert job.crew is not None
    by_name = {work.name: work for work in sorted(pieces, key=lambda work: -work.cost(job))}
    commands = {name: command_line(job, work) for name, work in by_name.items()}
    relays = {name: Relay(job.progress) for name in by_name}
    with job.progress.side_by_side():
        for name, outcome in job.crew.run(commands, lambda name, message: relays[name].hear(message)):
            relays[name].close()
            if outcome.wrong_use:
                raise InvalidInput(outcome.error)
            if outcome.trace:
                job.progress.detail(outcome.trace)
            why = outcome.error or missing_after_wait(job, by_name[name])
            yield by_name[name], VbsError(why) if why else None


def command_line(job: Job, work: Work) -> list[str]:
    """Arguments of the `vbs` command that does a piece of work."""
    where = ["--run", str(job.run.path.resolve()), "--data", str(job.data.folder.parent.resolve())]
    asked = {"--force": job.force, "--tensorboard": job.tensorboard, "--keep-patches": job.keep_patches}
    flags = [flag for flag, wanted in asked.items() if wanted]
    return ["work", work.name, *work.what, *where, "--device", job.device_name, "--debug", *flags]


def missing_after_wait(job: Job, work: Work) -> str:
    """Error message if an artifact that another process reports as made does not appear here in time, else ""."""
    deadline = monotonic() + VISIBLE_WITHIN
    while True:
        store = Store(job.run.path)  # reads the folder anew; a network file system may lag behind
        missing = [each.name for each in work.artifacts(job) if not store.state(each.name, each.recipe).current]
        if not missing:
            return ""
        if monotonic() > deadline:
            return f"{missing[0]} does not show up in {job.run.path}; all machines must share that folder"
        sleep(1)
