"""`vbs evaluate --val FILE --test FILE`: a run of logits that the user has, without a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vbs_cli import files
from vbs_cli.artifacts import passes
from vbs_cli.artifacts.job import Job
from vbs_cli.artifacts.plan import planned
from vbs_cli.data import Prepared
from vbs_cli.data.given import DATASET, Given, check_pair, read_given
from vbs_cli.logits import spreads_named
from vbs_cli.pairs import USUAL
from vbs_cli.run import Recipe, formats, layout

# What can be compared, by what was given: members are as many networks, of which each has plain logits.
METHODS = {
    "logits": ("conventional", "temperature"),
    "patches": ("conventional", "temperature", "vbs", "naive"),
    "members": ("conventional", "temperature", "ensemble", "temperature-ensemble", "vbs-ensemble"),
}


@dataclass(frozen=True)
class Pair:
    """What to fit on and what to score."""

    val: Given
    test: Given

    @property
    def members(self) -> int:
        return self.val.members

    @property
    def methods(self) -> tuple[str, ...]:
        return METHODS[self.val.kind]

    def described(self) -> Prepared:
        """What takes the place of a dataset."""
        named = {"val": self.val, "test": self.test}
        return Prepared(
            folder=Path(),
            name=DATASET,
            source=f"own {self.val.kind}, {self.val.path.name} and {self.test.path.name}",
            licence="",
            recipe={name: files.sha256_of_file(given.path) for name, given in named.items()},
            classes=self.val.classes,
            shape=(),
            counts={name: len(given.labels) for name, given in named.items()},
            files={},
            command=f"vbs evaluate --val {self.val.path} --test {self.test.path}",
        )


def read(val: Path, test: Path) -> Pair:
    """Both files, checked."""
    pair = Pair(read_given(val), read_given(test))
    check_pair(pair.val, pair.test)
    return pair


def adopt(job: Job, pair: Pair) -> None:
    """Put the logits where forward passes would have left them."""
    store, graph = job.run.store, planned(job).graph
    store.write_if_changed(layout.DATASET, files.to_json(job.data.description()), Recipe("download", {}))
    for split, given in (("val", pair.val), ("test", pair.test)):
        for p in passes.clean_passes(job, split):
            recipe = graph[p.name].recipe
            if p.view == USUAL and (job.force or not store.is_current(p.name, recipe)):
                spreads = spreads_named(job.extras(p.view))
                record = given.record(p.seed, kernel=job.run.settings.kernel, spreads=spreads)
                store.write(p.name, formats.logits_bytes(record), recipe)
