"""Tables that figures read, the registry of figures, and their files."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from vbs_cli.errors import InvalidInput, MissingArtifact
from vbs_cli.registry import Registry, unknown


@dataclass(frozen=True)
class Tables:
    """Tidy tables of one run, each with these columns after `dataset` and `source`; empty if it was not made.

    metrics: seed, method, noise, level, metric, value
    reliability: seed, method, bin, lower, upper, count, accuracy, confidence
    training: seed, network, epoch, loss, accuracy, val_loss, val_accuracy, seconds
    study: seed (-1), method (ensemble, vbs-ensemble), noise, level, metric, value
    distributions: method, noise, level, example, rank, label, class, probability
    intervals: noise, level, method, baseline ("" is none), metric, value, low, high
    proxy: noise, view, quantity, value, low, high
    coverage: seed, method, noise, level, coverage, risk
    examples: noise, family, level, example, label, shape, values
    bench: method, variant, memory_bytes, memory_ratio, latency_ms, latency_ratio, flops, flops_ratio, batch
    study_intervals: as intervals, of the study
    shifts: suite, over, name, severity, statistic, method, baseline ("" is none), metric, value, low, high, conditions

    `distributions` holds whole predictions, a row per class, of a few examples at every level of the study. `rank`
    is where an example's entropy stands under the deep ensemble at the strongest level: 0.0 lowest, 0.5 median,
    1.0 highest. `examples` holds one input of the test split at a few levels of every noise: `shape` is (C, L) or
    (C, H, W), `values` the numbers in that order.

    `shifts` sums up the noises of a suite ("" is all that was swept): `over` says what a row is about ("noise",
    "family", "all" or "unseen", the families that no method was fitted on) and `name` which noise or family.
    `severity` is k for the k-th level above zero of each noise and 0 for all of them, `statistic` "mean" or "worst",
    and `conditions` how many pairs of noise and level it is taken over.
    """

    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    reliability: pd.DataFrame = field(default_factory=pd.DataFrame)
    training: pd.DataFrame = field(default_factory=pd.DataFrame)
    study: pd.DataFrame = field(default_factory=pd.DataFrame)
    distributions: pd.DataFrame = field(default_factory=pd.DataFrame)
    intervals: pd.DataFrame = field(default_factory=pd.DataFrame)
    proxy: pd.DataFrame = field(default_factory=pd.DataFrame)
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    examples: pd.DataFrame = field(default_factory=pd.DataFrame)
    bench: pd.DataFrame = field(default_factory=pd.DataFrame)
    study_intervals: pd.DataFrame = field(default_factory=pd.DataFrame)
    shifts: pd.DataFrame = field(default_factory=pd.DataFrame)

    def of_methods(self, methods: Sequence[str]) -> Tables:
        """Tables with the rows of these methods alone, in this order."""

        def kept(table: pd.DataFrame) -> pd.DataFrame:
            if "method" not in table:
                return table
            return pd.concat([table[table["method"] == method] for method in methods])

        return Tables(**{each.name: kept(getattr(self, each.name)) for each in fields(self)})


Drawing = Callable[[Tables], Figure]
FIGURES: Registry[Drawing] = Registry("figure")
"""Figures by name. The report shows their docstrings: first the title, then, after a blank line, how to read it."""
READS: dict[str, tuple[str, ...]] = {}
"""Tables that each figure is drawn from, as fields of `Tables`; it is drawn anew when one of them changes."""


def drawn(name: str, *reads: str, revision: int = 1) -> Callable[[Drawing], Drawing]:
    """Decorator: register a figure under its name, with the tables that it reads and the revision of its looks."""
    READS[name] = reads
    return FIGURES.register(name, revision=revision)


# No date in the metadata: the same tables give the same bytes.
FORMATS: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def save(figure: Figure, format: str) -> bytes:
    """Bytes of a figure's file, the same every time; `format` is svg, png (160 dpi) or pdf."""
    if format not in FORMATS:
        raise unknown("figure format", format, FORMATS)
    settle(figure)
    file = io.BytesIO()
    # TrueType (42) keeps the text of a PDF searchable; journals reject the default Type 3.
    with mpl.rc_context({"svg.hashsalt": "vbs", "svg.fonttype": "path", "pdf.fonttype": 42}):
        figure.savefig(file, format=format, dpi=160, metadata=FORMATS[format])
    return file.getvalue()


def settle(figure: Figure) -> None:
    """Lay out a figure once and for all: every further draw would move the panels slightly."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def require(rows: pd.DataFrame, what: str, *, hint: str) -> pd.DataFrame:
    """Return `rows` if there are any, of one dataset and source; else raise an error that names the command to run."""
    if rows.empty:
        raise MissingArtifact(f"no {what} to plot", hint=hint)
    origins = rows[["dataset", "source"]].drop_duplicates()
    if len(origins) > 1:
        raise InvalidInput(
            f"rows of {len(origins)} different datasets or sources", hint="plot one dataset from one source"
        )
    return rows


def in_order(column: pd.Series[Any]) -> list[str]:
    """Different values of a column, in the order of first appearance."""
    return [str(value) for value in column.drop_duplicates()]
