"""`vbs evaluate --val FILE --test FILE`: a run of the user's own logits, without a network."""

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

# Methods that are compared by default, keyed by kind of logits; each of `members` is a network with plain logits.
METHODS = {
    "logits": ("conventional", "temperature"),
    "patches": ("conventional", "temperature", "vbs", "naive"),
    "members": ("conventional", "temperature", "ensemble", "temperature-ensemble", "vbs-ensemble"),
}


@dataclass(frozen=True)
class GivenLogits:
    """Logits to fit on and logits to score."""

    val: Given
    test: Given

    @property
    def members(self) -> int:
        return self.val.members

    @property
    def methods(self) -> tuple[str, ...]:
        return METHODS[self.val.kind]

    def described(self) -> Prepared:
        """Description of the logits in place of a prepared dataset."""
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


def read(val: Path, test: Path) -> GivenLogits:
    """Read both files and check that they belong together."""
    pair = GivenLogits(read_given(val), read_given(test))
    check_pair(pair.val, pair.test)
    return pair


def adopt(job: Job, pair: GivenLogits) -> None:
    """Write the logits into the run, as the records that forward passes would have made."""
    store, graph = job.run.store, planned(job).graph
    store.write_if_changed(layout.DATASET, files.to_json(job.data.description()), Recipe("download", {}))
    for split, given in (("val", pair.val), ("test", pair.test)):
        for p in passes.clean_passes(job, split):
            recipe = graph[p.name].recipe
            if p.view == USUAL and (job.force or not store.is_current(p.name, recipe)):
                spreads = spreads_named(job.extras(p.view))
                record = given.record(p.seed, kernel=job.run.settings.kernel, spreads=spreads)
                store.write(p.name, formats.logits_bytes(record), recipe)
