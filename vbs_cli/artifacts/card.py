"""Model card of an exported model: everything needed to use it without the run that it came from."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from vbs_cli import __version__
from vbs_cli.artifacts.job import Job
from vbs_cli.conditions import Condition, some_levels
from vbs_cli.data import DATASETS
from vbs_cli.data.base import SIMULATED
from vbs_cli.export import FORMATS
from vbs_cli.export.check import BATCHES, TOLERANCE
from vbs_cli.export.module import INPUT
from vbs_cli.methods.base import Method
from vbs_cli.models.base import FITTING, MODELS, format_shape
from vbs_cli.models.fitting import fitting_name
from vbs_cli.run import layout
from vbs_cli.summary import markdown_table

CARD_METRICS = ("accuracy", "nll", "brier", "ece", "entropy")
LIMITS = (
    "The numbers hold for inputs like those of the test split, prepared in the same way; of inputs from elsewhere they "
    "say nothing. A temperature changes how sure a prediction claims to be, never which class is predicted. "
    "Variance-based smoothing helps only where patches disagree more as inputs get worse: where sigma falls while "
    "errors grow, it does nothing or harm, and temperature scaling is the better choice. High confidence is no proof "
    "that an input belongs to any of the classes. Calibration was fitted on the validation split of the same data and "
    "should be checked again whenever inputs change."
)
OF_SIMULATION = " The data are simulated: nothing here tells how the model does on measured ones."


@dataclass(frozen=True)
class ExportFacts:
    """Facts about an exported file that its card reports: what it holds and the results of its check."""

    seed: int
    method: str
    fitted: Method
    format: str
    artifact: str  # the exported file in the run
    apart: Mapping[str, float]  # largest differences from the Python model, keyed by output
    real: int  # number of test inputs among those compared


def card_of(job: Job, facts: ExportFacts, tables: Sequence[str], *, weights: str) -> dict[str, Any]:
    """Card as plain JSON; `tables` names the tables of scores that are up to date, `weights` the exported weights."""
    data, store, s = job.data, job.run.store, job.run.settings
    network = fitting_name(data.shape) if s.model == FITTING else s.model
    width = f" of width {s.width}" if network in MODELS else ""
    libraries = ("torch", "numpy", *FORMATS[facts.format].libraries)
    what = f"{network}{width} for {data.classes} classes of {data.name}, calibrated by {facts.method}"
    return {
        "schema": 1,
        "file": Path(facts.artifact).name,
        "what": f"{what}; seed {facts.seed} of the run {job.run.path.name}",
        "format": facts.format,
        "network": network,
        "seed": facts.seed,
        "method": {"name": facts.method, **asdict(facts.fitted), "kernel": s.kernel},
        "input": {
            "name": INPUT,
            "shape": ["batch", *data.shape],
            "type": "float32",
            "scaling": DATASETS[data.name].scaling,
        },
        "outputs": {"probabilities": ["batch", data.classes], "temperature": ["batch"], "sigma": ["batch"]},
        "classes": [*data.class_names] or [str(label) for label in range(data.classes)],
        "data": {
            "dataset": data.name,
            "source": data.source,
            "licence": data.licence,
            "fingerprint": data.fingerprint,
            "examples": dict(data.counts),
        },
        "bytes": store.entries[facts.artifact].size,
        "sha256": {"file": store.sha256(facts.artifact), "weights": store.sha256(weights)},
        "differences": {**facts.apart, "tolerance": TOLERANCE, "random": sum(BATCHES), "real": facts.real},
        "metrics": metrics_of(job, facts) if layout.METRICS in tables else [],
        "intervals": intervals_of(job, facts) if layout.INTERVALS in tables else [],
        "versions": {"vbs": __version__, "python": platform.python_version(), **{n: version(n) for n in libraries}},
        "limits": LIMITS + (OF_SIMULATION if data.source.startswith(SIMULATED) else ""),
    }


def metrics_of(job: Job, facts: ExportFacts) -> list[dict[str, Any]]:
    """Scores of the exported seed, clean and under every noise and level that was swept."""
    found = job.run.metrics
    own = found[(found["seed"] == facts.seed) & (found["method"] == facts.method) & found["metric"].isin(CARD_METRICS)]
    return rows(own, ["noise", "level", "metric", "value"])


def intervals_of(job: Job, facts: ExportFacts) -> list[dict[str, Any]]:
    """Intervals of the method's scores over examples and all seeds of the run."""
    found = job.run.intervals
    own = found[(found["method"] == facts.method) & (found["baseline"] == "") & found["metric"].isin(CARD_METRICS)]
    return rows(own, ["noise", "level", "metric", "value", "low", "high"])


def rows(table: pd.DataFrame, columns: list[str]) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table[columns].to_dict("records")]


def markdown_of(card: Mapping[str, Any]) -> str:
    """Card as Markdown."""
    method, given, data, apart = card["method"], card["input"], card["data"], card["differences"]
    numbers = [[name, str(value)] for name, value in method.items() if name != "name" and value is not None]
    shapes = [[name, format_shape(tuple(shape))] for name, shape in card["outputs"].items()]
    compared = f"{apart['random']} random inputs in batches of {', '.join(map(str, BATCHES))}"
    compared += f" and on {apart['real']} of the test split, half of them under noise" if apart["real"] else ""
    largest = ", ".join(f"{name} {apart[name]:.1e}" for name in card["outputs"])
    examples = " / ".join(f"{count:,}" for count in data["examples"].values())
    sections = [
        f"# {card['file']}",
        f"{card['what']}. One forward pass gives probabilities, temperature and sigma; format {card['format']}, "
        f"{card['bytes']:,} bytes.",
        "## Method",
        f"`{method['name']}`, fitted on the validation split:",
        markdown_table(["parameter", "value"], numbers),
        "## Input and outputs",
        f"`{given['name']}`, {given['type']}, {format_shape(tuple(given['shape']))}: {given['scaling']}.",
        markdown_table(["output", "shape"], shapes),
        f"Classes, in the order of the probabilities: {', '.join(card['classes'])}.",
        "## Data",
        f"{data['dataset']}: {data['source']}; licence: {data['licence']}; {examples} examples for training, "
        f"validation and test; fingerprint `{data['fingerprint']}`.",
        "## Scores on the test split",
        *score_sections(card),
        "## Check",
        f"The file was run on {compared}. Largest differences from the Python model (of probabilities; relative ones "
        f"of temperature and sigma): {largest}; at most {apart['tolerance']:.0e} is allowed.",
        markdown_table(["sha256 of", ""], [[name, f"`{value}`"] for name, value in card["sha256"].items()]),
        "Made with " + ", ".join(f"{name} {value}" for name, value in card["versions"].items()) + ".",
        "## Limits",
        card["limits"],
    ]
    return "\n\n".join(sections) + "\n"


def score_sections(card: Mapping[str, Any]) -> list[str]:
    """Sections with this network's scores and with the method's intervals over all seeds, as far as there are any."""
    if not card["metrics"]:
        return ["The run has not been evaluated; `vbs evaluate`, then `vbs export` again, fills this in."]
    found = pd.DataFrame(card["metrics"])
    columns = ["condition", *CARD_METRICS]
    lines = [[at.name, *cells(at.of(found))] for at in listed_conditions(found)]
    sections = [f"This network, seed {card['seed']}:", markdown_table(columns, lines)]
    if card["intervals"]:
        over = pd.DataFrame(card["intervals"])
        lines = [[at.name, *cells(at.of(over))] for at in listed_conditions(over)]
        sections += ["The method over all seeds, with 95 % intervals:", markdown_table(columns, lines)]
    return sections


def listed_conditions(found: pd.DataFrame) -> list[Condition]:
    """Conditions that a card lists: clean first, then some levels of every noise."""
    conditions = [Condition(layout.CLEAN, 0.0)]
    for noise, swept in found[found["level"] > 0].groupby("noise", sort=False):
        conditions += [Condition(str(noise), level) for level in some_levels(swept)]
    return conditions


def cells(found: pd.DataFrame) -> list[str]:
    """Scores of one condition as text, in the order of CARD_METRICS, with their intervals if the rows have any."""
    by_metric = {str(row["metric"]): row for row in found.to_dict("records")}

    def cell(row: Mapping[Any, Any]) -> str:
        interval = f" [{row['low']:.3f}, {row['high']:.3f}]" if "low" in row else ""
        return f"{row['value']:.3f}{interval}"

    return [cell(by_metric[name]) if name in by_metric else "-" for name in CARD_METRICS]
