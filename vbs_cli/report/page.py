"""Report of a run as one HTML file: no network, no script, readable on a phone and on paper."""

from __future__ import annotations

import base64
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from vbs_cli.files import format_size
from vbs_cli.paper.claims import claims
from vbs_cli.plots.base import FIGURES, Tables
from vbs_cli.plots.style import method_style
from vbs_cli.report.questions import Question, questions
from vbs_cli.report.verdict import verdict
from vbs_cli.summary import count_seeds, describe_size

PIXELS_PER_POINT = 1.6  # figures are drawn for paper; on a screen they may be this much larger


@dataclass(frozen=True)
class ReportData:
    """Contents of a report."""

    title: str
    dataset: str
    source: str
    tables: Tables
    figures: Mapping[str, str]
    """Figure name -> SVG text."""
    settings: Mapping[str, Any]
    """The resolved settings, flat or nested."""
    methods: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Seed -> method -> fitted parameters."""
    versions: Mapping[str, str]
    artifacts: Sequence[Mapping[str, Any]]
    """Each with name, sha256 and size in bytes."""
    commands: Sequence[str]
    """Commands that make the run again."""
    left_out: Mapping[str, str]
    """Figure name -> why it could not be drawn and which command would help."""

    @property
    def simulated(self) -> bool:
        return self.source.lower().startswith("simulated")

    @property
    def n_seeds(self) -> int:
        return count_seeds(self.tables.metrics)


def page(template: str, **values: Any) -> str:
    """Render a template with these values, which are escaped."""
    loader = PackageLoader("vbs_cli.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


def render(data: ReportData) -> str:
    """Text of an HTML file with the report."""
    asked = [*questions(data.tables), Question("Further figures", (), unasked(data.figures))]
    sections = [
        (
            each,
            [figure_view(name, data.figures[name]) for name in each.figures if name in data.figures],
            [data.left_out[name] for name in each.figures if name in data.left_out],
        )
        for each in asked
    ]
    return page(
        "report.html.j2",
        data=data,
        title=data.title,
        verdict=verdict(data.tables.metrics, data.tables.intervals, data.tables.shifts),
        sections=[section for section in sections if section[0].tables or section[1] or section[2]],
        claims=claims(data.tables, dataset=data.dataset, fitted=data.methods),
        settings=list(flat(data.settings)),
        fitted=list(fitted_rows(data.methods)),
        artifacts=[{**artifact, "size": format_size(int(artifact["size"]))} for artifact in data.artifacts],
    )


def unasked(figures: Iterable[str]) -> tuple[str, ...]:
    """Names of the figures that belong to no question."""
    placed = {name for each in questions(Tables()) for name in each.figures}
    return tuple(name for name in figures if name not in placed)


def fitted_rows(methods: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[tuple[str, str, str]]:
    """Yield (seed, label of the method, its parameters as text) of every fitted method."""
    for seed, of_seed in methods.items():
        for method, parameters in of_seed.items():
            parameters_text = ", ".join(f"{name} = {value}" for name, value in flat(parameters))
            yield "all" if seed == "-1" else seed, method_style(method).label, parameters_text


def figure_view(name: str, svg: str) -> dict[str, str]:
    """Title, caption, width and data URI of a figure, an image of its own so that ids of several SVGs cannot clash."""
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
    """Yield (dotted name, value) of every leaf: {"train": {"lr": 0.001}} -> ("train.lr", "0.001")."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (float, list, tuple)):
            yield f"{prefix}{key}", describe_size(value)
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
            yield f"{prefix}{key}", text
