"""One HTML file with everything that was found: no network, no script, readable on a phone and on paper."""

from __future__ import annotations

import base64
import inspect
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined

from vbs_cli.files import told_size
from vbs_cli.plots.base import FIGURES, Tables
from vbs_cli.plots.style import method_style
from vbs_cli.plots.summary import SCORES, count_seeds, plus_minus, sized, summary
from vbs_cli.plots.verdict import verdict

SCORE_NAMES = {
    "accuracy": "Accuracy",
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "ece_chance": "by chance",
    "entropy": "Entropy",
}
BEST = {
    "accuracy": "max",
    "nll": "min",
    "brier": "min",
    "ece": "min",
}  # entropy is neither good nor bad
PIXELS_PER_POINT = 1.6  # figures are drawn for paper; on a screen they may be this much larger


@dataclass(frozen=True)
class ReportData:
    """What a report shows."""

    title: str
    dataset: str
    source: str
    tables: Tables
    figures: Mapping[str, str]
    """Figure name -> SVG text."""
    settings: Mapping[str, Any]
    """The resolved settings, flat or nested."""
    methods: Mapping[str, Mapping[str, Any]]
    """Seed -> method -> fitted parameters."""
    versions: Mapping[str, str]
    artifacts: Sequence[Mapping[str, Any]]
    """Each with name, sha256 and size in bytes."""
    commands: Sequence[str]
    """What to type to get the same again."""


def render(data: ReportData) -> str:
    """The report as the text of an HTML file."""
    metrics = data.tables.metrics
    template = resources.files(__package__).joinpath("report.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(template).render(
        title=data.title,
        dataset=data.dataset,
        source=data.source,
        simulated=data.source.lower().startswith("simulated"),
        n_seeds=count_seeds(metrics),
        verdict=verdict(metrics),
        scores=[SCORE_NAMES[score] for score in SCORES],
        results=list(result_groups(summary(metrics))),
        figures=[figure_view(name, svg) for name, svg in data.figures.items()],
        settings=list(flat(data.settings)),
        fitted=[
            (
                "all" if seed == "-1" else seed,
                method_style(method).label,
                ", ".join(f"{k} = {v}" for k, v in flat(parameters)),
            )
            for seed, methods in data.methods.items()
            for method, parameters in methods.items()
        ],
        versions=data.versions,
        artifacts=[{**artifact, "size": told_size(int(artifact["size"]))} for artifact in data.artifacts],
        commands=data.commands,
    )


def result_groups(table: pd.DataFrame) -> Iterator[tuple[str, list[tuple[str, list[dict[str, Any]]]]]]:
    """(condition, rows), each row a method with its cells; the best value of a column is marked."""
    for condition, rows in table.groupby("condition", sort=False):
        best = {score: float(rows[f"{score}_mean"].round(3).agg(choose)) for score, choose in BEST.items()}
        labels = [method_style(name).label for name in rows["method"]]
        cells = [[cell(row, score, best) for score in SCORES] for row in rows.to_dict("records")]
        yield str(condition), list(zip(labels, cells, strict=True))


def cell(row: Mapping[Any, Any], score: str, best: Mapping[str, float]) -> dict[str, Any]:
    """The text of one number and whether it is the best of its column."""
    mean, std = row[f"{score}_mean"], row[f"{score}_std"]
    std = math.nan if score == "ece_chance" else std  # a yardstick, not a measurement
    return {"text": plus_minus(mean, std), "best": round(mean, 3) == best.get(score)}


def figure_view(name: str, svg: str) -> dict[str, str]:
    """A figure as an image of its own, so that ids inside different SVGs cannot meet."""
    title, caption = name.replace("-", " ").capitalize(), ""
    if name in FIGURES:
        title, _, caption = (inspect.getdoc(FIGURES[name]) or title).partition("\n\n")
    points = re.search(r'<svg[^>]*?\swidth="([\d.]+)pt"', svg)
    return {
        "title": title,
        "caption": " ".join(caption.split()),
        "width": f"{float(points[1]) * PIXELS_PER_POINT:.0f}px" if points else "50rem",
        "uri": "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode(),
    }


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, value) of every leaf: {"train": {"lr": 0.001}} -> ("train.lr", "0.001")."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (float, list, tuple)):
            yield f"{prefix}{key}", sized(value)
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
            yield f"{prefix}{key}", text
