"""What the registered code gives on fixed inputs, as a few numbers each, and the file that remembers them.

Artifacts record the revision of the code that made them. Whoever changes results must raise the revision, else runs
made before would pass for current ones. `python -m tests.golden` records the numbers of new things and new revisions;
it refuses to record other numbers for the revision that they were recorded with.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from tests.fixtures.tables import tables
from vbs_cli import Logits
from vbs_cli.artifacts import examples, passes, proxy, shifts, training
from vbs_cli.artifacts import tables as score_tables
from vbs_cli.data import NOISES, Split, noises_for
from vbs_cli.errors import InvalidInput
from vbs_cli.logits import SPREADS, activations_name
from vbs_cli.methods import METHODS
from vbs_cli.metrics import METRICS, SCORES, bootstrap, risk_coverage, scored
from vbs_cli.metrics.proxy import Course
from vbs_cli.metrics.proxy import proxy as spread_and_errors
from vbs_cli.metrics.reliability import bins_of
from vbs_cli.metrics.shifts import ranked, shift_groups
from vbs_cli.models import MODELS, build_model
from vbs_cli.networks import NETWORKS
from vbs_cli.networks.training import Schedule, initialised, train
from vbs_cli.plots import FIGURES
from vbs_cli.registry import Registry
from vbs_cli.views import VIEWS
from vbs_cli.views.walk import walk

PATH = Path(__file__).with_name("golden.json")
MOST = 24  # numbers that stand for one thing
SHAPES = ((2, 400), (3, 32, 32))
SOUND = (1, 800)  # for noises that suit neither
CLASSES = 4
Numbers = list[float]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some(values: Tensor) -> Numbers:
    """Mean, standard deviation and some of the values, evenly over all of them."""
    flat = values.detach().double().flatten()
    places = torch.linspace(0, len(flat) - 1, min(MOST - 2, len(flat))).long()
    return [float(flat.mean()), float(flat.std(correction=0)), *flat[places].tolist()]


def record(seed: int) -> Logits:
    """Patch logits of 200 examples that lean to their labels, with everything that a method may read."""
    labels = torch.randint(0, CLASSES, (200,), generator=rng(seed))
    z = torch.randn(200, CLASSES, 9, generator=rng(seed + 1))
    z[torch.arange(200), labels] += 0.5
    made = Logits.from_patches(z, labels=labels, kernel=2, spreads=[name for name in SPREADS if name != "logits"])
    made.extras.update({activations_name(i): torch.randn(200, 6, generator=rng(seed + 2 + i)) for i in range(2)})
    return made


def split_of(shape: tuple[int, ...], name: str = "test", count: int = 24) -> Split:
    x = torch.rand(count, *shape, generator=rng(len(name))).numpy()
    return Split("golden", name, x, torch.randint(0, CLASSES, (count,), generator=rng(1)))


def metric(name: str) -> Numbers:
    made = record(0)
    probs = made.logits.double().softmax(1)
    found = METRICS[name](scored(probs, made.labels, sigma=made.sigma, part_accuracy=made.part_accuracy))
    return [float(found)]


def method(name: str) -> Numbers:
    return some(METHODS[name]().fit(record(0)).predict_proba(record(10)))


def noise(name: str) -> Numbers:
    found: Numbers = []
    for shape in [shape for shape in SHAPES if name in noises_for(shape)] or [SOUND]:
        x, chosen = torch.rand(2, *shape, generator=rng()), NOISES[name]
        found += some(chosen.apply(x, chosen.draw(x.shape, rng(1)), 0.4))
    return found


def model(name: str) -> Numbers:
    """Patch logits with seeded weights for the first shape of inputs that the architecture takes."""
    for shape in SHAPES:
        try:
            net = initialised(partial(build_model, name, shape=shape, classes=CLASSES, width=6), seed=0, name="golden")
        except InvalidInput:
            continue
        with torch.inference_mode():
            return some(net.eval()(torch.rand(2, *shape, generator=rng())))
    raise AssertionError(f"{name} takes none of {SHAPES}")


def network(name: str, *, epochs: int = 2) -> Numbers:
    """Loss, accuracy and the largest weights after a short training."""
    chosen, shape = NETWORKS[name](), SHAPES[0]
    net = initialised(lambda: chosen.build("conv1d-radio", shape=shape, classes=CLASSES, width=6), seed=0, name=name)
    schedule = Schedule(epochs=epochs, batch=8, lr=1e-3)
    *_, last = train(net, split_of(shape, "train"), split_of(shape, "val"), schedule, seed=0, name=name, network=chosen)
    end = last.history[-1]
    return [
        end.loss,
        end.accuracy,
        end.val_loss,
        *(float(value.double().abs().mean()) for value in last.weights.values()),
    ]


def view(name: str, *, noises: Sequence[str] = ("",)) -> Numbers:
    """Logits, spread and mean softmax of a record; a view across seeds joins those that its source has."""
    chosen = VIEWS[name]()
    if chosen.source:
        return record_numbers(chosen.join([record(seed) for seed in (0, 3, 6)], spreads=["softmax"]))
    shape = SHAPES[0]
    build = NETWORKS[chosen.network]().build
    net = initialised(partial(build, "conv1d-radio", shape=shape, classes=CLASSES, width=6), seed=0, name="golden")
    found = walk(
        net, split_of(shape), chosen, noises=noises, level=0.3 if any(noises) else 0.0, extras=("sigma_softmax",)
    )
    return [number for each in found for number in record_numbers(each)]


def forward_pass() -> Numbers:
    """Records of clean and noisy inputs, and summaries of the activations behind them."""
    shape = SHAPES[0]
    net = initialised(
        partial(build_model, "conv1d-radio", shape=shape, classes=CLASSES, width=6), seed=0, name="golden"
    )
    [made] = walk(net, split_of(shape), VIEWS["patches"](), extras=("activations",))
    activations = [number for each in made.activations for number in some(each)]
    return [*view("patches", noises=["gaussian", "speckle"]), *activations]


def record_numbers(made: Logits) -> Numbers:
    assert made.sigma is not None
    assert made.mean_softmax is not None
    return [*some(made.logits), *some(made.sigma), *some(made.mean_softmax), *some(made.sigma_of("softmax"))]


def figure(name: str) -> Numbers:
    """What a figure of made-up tables draws: counts of axes, letters, lines and dots, and sums over their places."""
    drawn = FIGURES[name](tables())
    lines = [line.get_xydata() for axes in drawn.axes for line in axes.get_lines()]
    dots = [each.get_offsets() for each in drawn.findobj(PathCollection)]
    areas = [path.vertices for each in drawn.findobj(PolyCollection) for path in each.get_paths()]
    bars = [shape_of(patch) for axes in drawn.axes for patch in axes.patches]
    texts = sum(
        len(text.get_text()) for axes in drawn.axes for text in [axes.title, axes.xaxis.label, axes.yaxis.label]
    )
    places = [float(np.nansum(np.abs(np.asarray(each, dtype=float)))) for each in (*lines, *dots, *areas, *bars)]
    return [len(drawn.axes), texts, len(lines), len(dots), len(areas), len(bars), *places[:MOST], sum(places)]


def shape_of(patch: Patch) -> object:
    """Size of a bar, or the corners of another shape."""
    return patch.get_bbox().size if isinstance(patch, Rectangle) else patch.get_path().vertices


def the_tables() -> Numbers:
    """Numbers of the tables that `vbs evaluate` makes, below the metrics and methods: intervals, bins, risks."""
    made = record(0)
    cells = {
        factor: [scored((factor * each.logits.double()).softmax(1), made.labels)]
        for factor in (1, 2)
        for each in [made]
    }
    drawn = bootstrap({str(factor): some for factor, some in cells.items()}, metrics=("nll", "ece"), replicates=50)
    found = [drawn.interval("1", "ece"), drawn.difference("2", "1", "nll")]
    predictions = cells[1][0]
    bins = bins_of(predictions.confidence, predictions.correct, n_bins=10)
    coverage = torch.stack(risk_coverage(predictions))
    return [
        *(x for each in found for x in (each.value, each.low, each.high)),
        *some(bins.accuracy.nan_to_num()),
        *some(coverage),
    ]


def the_shifts() -> Numbers:
    """Mean and worst scores of two methods over two noises at two levels each, by noise, family and severity."""
    swept = ranked({"gaussian": [0.1, 0.2], "clipping": [0.5, 1.0]}, {"gaussian": "noise", "clipping": "level"})
    columns = {
        shift: torch.rand(2, len(SCORES), 51, generator=rng(place), dtype=torch.float64)
        for place, shift in enumerate(swept)
    }
    rows = [shifts.group_table(group, columns, ["a", "b"]) for group in shift_groups(swept, seen="noise")]
    return [
        *map(float, (len(rows), sum(map(len, rows)))),
        *(number for table in rows for number in table.select_dtypes("number").sum()),
    ]


def the_proxy() -> Numbers:
    sigma, wrong = torch.rand(3, 50, generator=rng()), (torch.rand(3, 50, generator=rng(1)) < 0.4).float()
    confidence, right = torch.rand(3, 50, generator=rng(2)), torch.rand(3, 50, generator=rng(3))
    found = spread_and_errors([Course(sigma, wrong, confidence, right)], replicates=50)
    return [x for each in found.values() for x in (each.value, each.low, each.high)]


@dataclass(frozen=True)
class Golden:
    """Something whose results are remembered: its name as recipes have it, its revision, how to get its numbers."""

    name: str
    revision: int
    numbers: Callable[[], Numbers]

    @property
    def remembered(self) -> dict[str, object] | None:
        """Revision and numbers as they were recorded, if they were."""
        return stored().get(self.name)

    def same(self, numbers: object) -> bool:
        found = self.numbers()
        return len(found) == len(numbers) and np.allclose(found, numbers, rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]


def of_registry(registry: Registry[object], numbers: Callable[[str], Numbers]) -> Iterator[Golden]:
    for name in registry:
        [(title, revision)] = registry.revisions([name]).items()
        yield Golden(title, revision, partial(numbers, name))


def every() -> list[Golden]:
    """All that is registered, and the stages that have a revision of their own."""
    registries = [
        (METRICS, metric), (METHODS, method), (NOISES, noise), (MODELS, model), (NETWORKS, network), (VIEWS, view),
        (FIGURES, figure),
    ]  # fmt: skip
    return [
        *(each for registry, numbers in registries for each in of_registry(registry, numbers)),
        Golden("training", training.REVISION, partial(network, "conventional", epochs=3)),
        Golden("forward pass", passes.REVISION, forward_pass),
        Golden("tables", score_tables.REVISION, the_tables),
        Golden("proxy", proxy.REVISION, the_proxy),
        Golden("examples", examples.REVISION, lambda: [examples.MOST_LEVELS, examples.EXAMPLE]),
        Golden("shifts", shifts.REVISION, the_shifts),
    ]


def stored() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(PATH.read_text()) if PATH.is_file() else {}
    return found


def record_all() -> list[str]:
    """Record what is new; returns the names of those whose results changed under the revision that they had."""
    found, refused = {}, []
    for each in every():
        before = each.remembered
        if before is not None and before["revision"] == each.revision:
            if not each.same(before["numbers"]):
                refused.append(each.name)
            found[each.name] = before
        else:
            numbers = [float(f"{number:.7g}") for number in each.numbers()]
            found[each.name] = {"revision": each.revision, "numbers": numbers}
    rows = [f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    PATH.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    return refused


if __name__ == "__main__":
    torch.set_num_threads(1)
    if changed := record_all():
        sys.exit(f"results changed under the same revision, raise it where these are registered: {', '.join(changed)}")
