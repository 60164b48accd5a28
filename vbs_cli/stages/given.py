"""`vbs evaluate --val FILE --test FILE`: a run of the user's own logits, without a network."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from vbs_cli import files
from vbs_cli.artifacts import passes
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.passes import Pass
from vbs_cli.artifacts.plan import planned
from vbs_cli.data import Prepared
from vbs_cli.data.given import DATASET, Given, check_pair, condition_of, parse_conditions, read_given, source_of
from vbs_cli.logits import spreads_named
from vbs_cli.pairs import USUAL
from vbs_cli.run import Recipe, formats, layout

# Methods that are compared by default, keyed by kind of logits; each of `members` is a network with plain logits.
METHODS = {
    "logits": ("conventional", "temperature"),
    "patches": ("conventional", "temperature", "vbs", "naive"),
    "members": ("conventional", "temperature", "ensemble", "temperature-ensemble", "vbs-ensemble"),
}


@dataclass(frozen=True)
class ConditionFile:
    """Checked file of test data under a condition, and its number of examples; it is read again to be written."""

    path: Path
    examples: int


@dataclass(frozen=True)
class GivenLogits:
    """Logits to fit on, logits to score, and files of logits to score under further conditions, keyed by their word."""

    val: Given
    test: Given
    conditions: Mapping[str, ConditionFile] = field(default_factory=dict)

    @property
    def members(self) -> int:
        return self.val.members

    @property
    def methods(self) -> tuple[str, ...]:
        return METHODS[self.val.kind]

    def described(self) -> Prepared:
        """Description of the logits in place of a prepared dataset; conditions are splits beside val and test."""
        paths = {"val": self.val.path, "test": self.test.path}
        counts = {"val": len(self.val.labels), "test": len(self.test.labels)}
        return Prepared(
            folder=Path(),
            name=DATASET,
            source=source_of(self.val, self.test),
            licence="",
            recipe={name: files.sha256_of_file(path) for name, path in (paths | self.paths).items()},
            classes=self.val.classes,
            shape=(),
            counts=counts | {word: one.examples for word, one in self.conditions.items()},
            files={},
            command=self.command,
        )

    @property
    def paths(self) -> dict[str, Path]:
        """Files of the conditions, keyed by their word."""
        return {word: one.path for word, one in self.conditions.items()}

    @property
    def command(self) -> str:
        """Command line that gives the same files."""
        further = [part for word, path in self.paths.items() for part in ("--condition", f"{word}={path}")]
        return shlex.join(["vbs", "evaluate", "--val", str(self.val.path), "--test", str(self.test.path), *further])


def read(val: Path, test: Path, conditions: Sequence[str] = ()) -> GivenLogits:
    """Read all files and check that they belong together; conditions are texts such as "phone=phone.npz"."""
    paths = parse_conditions(conditions)
    pair = GivenLogits(read_given(val), read_given(test))
    fitted_on = pair.val.rows()
    check_pair(pair.val, pair.test, fitted_on=fitted_on)
    checked = {}
    for word, path in paths.items():
        one = read_given(path)
        check_pair(pair.val, one, fitted_on=fitted_on)
        checked[word] = ConditionFile(path, len(one.labels))
    return replace(pair, conditions=checked)


def adopt(job: Job, given: GivenLogits) -> None:
    """Write the logits into the run, as the records that forward passes would have made."""
    job = planned(replace(job, keep_patches=given.val.kind == "patches"))  # no network could make them again
    job.run.store.write_if_changed(layout.DATASET, files.to_json(job.data.description()), Recipe("download", {}))
    write_records(job, passes.clean_passes(job, "val"), lambda: given.val)
    write_records(job, passes.clean_passes(job, "test"), lambda: given.test)
    further = passes.further_passes(job)
    for word, path in given.paths.items():
        under = [p for p in further if (p.noise, p.level) == condition_of(word)]
        write_records(job, under, partial(read_given, path))


def write_records(job: Job, some: Iterable[Pass], read_file: Callable[[], Given]) -> None:
    """Write the records of passes that are not up to date, all from one file."""
    store = job.run.store
    recipes = {p: job.graph[p.name].recipe for p in some if p.view == USUAL}
    due = {p: recipe for p, recipe in recipes.items() if job.force or not store.is_current(p.name, recipe)}
    given = read_file() if due else None
    for p, recipe in due.items():
        assert given is not None
        spreads = spreads_named(job.extras(p.view))
        record = given.record(p.seed, kernel=job.run.settings.kernel, spreads=spreads)
        store.write(p.name, formats.logits_bytes(record), recipe)
