"""The report is one safe, complete file."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from vbs_cli.files import format_size
from vbs_cli.paper.claims import claims
from vbs_cli.plots import FIGURES
from vbs_cli.report.page import ReportData, flat, render

EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Collects tags with their attributes, and the visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def data(make_tables: MakeTables) -> ReportData:
    tables = make_tables(n_levels=3)
    return ReportData(
        title="Calibration of radio",
        dataset="radio",
        source="simulated (vbs radio simulator, seed 0)",
        tables=tables,
        figures={name: f'<svg width="518pt" id="{name}"></svg>' for name in FIGURES if name != "cost"},
        settings={"dataset": "radio", "train": {"lr": 0.001, "betas": [0.9, 0.99]}},
        methods={"0": {"vbs": {"alpha": 1.0, "beta": -1.25}}, "1": {"conventional": {}}},
        versions={"python": "3.11.7", "torch": "2.9.0"},
        artifacts=[{"name": "metrics.parquet", "sha256": "ab" * 32, "size": 13_400}],
        commands=["vbs train --dataset radio", "vbs report"],
        left_out={"cost": "there is no bench.parquet; vbs bench makes it"},
    )


def test_the_page_is_well_formed_and_says_everything(data: ReportData) -> None:
    page = Page(render(data))
    assert page.open == []
    for words in ("Calibration of radio", "train.lr", "0.001", "beta = -1.25", "torch", "2.9.0", "ab" * 32):
        assert words in page.text
    for words in ("13.4 kB", "vbs train --dataset radio\nvbs report", "3 seeds", "gaussian 0.50", "± 0.010"):
        assert words in page.text


def test_the_verdict_comes_first_then_a_table_and_figures_per_question(data: ReportData) -> None:
    text = Page(render(data)).text
    places = [
        text.index(words)
        for words in (
            "lowers ECE under gaussian noise on average over its levels",
            "Can the confidence be believed?",
            "Reliability of all methods",
            "Does it hold under all shifts together?",
            "And when the inputs get worse?",
            "Which predictions can be kept?",
            "What does it cost?",
            "The paper's claims",
            "How it was made",
        )
    ]
    assert places == sorted(places)


def test_a_figure_that_could_not_be_drawn_names_the_command(data: ReportData) -> None:
    assert "Not drawn: there is no bench.parquet; vbs bench makes it." in Page(render(data)).text


def test_every_claim_of_the_paper_has_its_mark(data: ReportData) -> None:
    html = render(data)
    states = re.findall(r'class="state (seen|not-seen|not-tested)"', html)
    assert len(states) == len(claims(data.tables, dataset="radio", fitted=data.methods))
    assert {"seen", "not-tested"} <= set(states)


def test_simulated_data_wear_a_badge(data: ReportData) -> None:
    assert '<span class="badge">simulated data</span>' in render(data)
    real = render(replace(data, source="authors' radio captures"))
    assert '<span class="badge">' not in real
    assert "data: radio, authors&#39; radio captures" in real


def test_every_figure_is_in_the_page_once_with_alt_text_and_caption(data: ReportData) -> None:
    page = Page(render(data))
    images = {image["alt"].removeprefix("Figure: "): image["src"] for image in page.of("img")}
    assert len(page.of("img")) == len(images) == len(data.figures)
    for name, svg in data.figures.items():
        prefix, _, code = images[(FIGURES[name].__doc__ or "").partition("\n")[0]].partition(",")
        assert prefix == "data:image/svg+xml;base64"
        assert base64.b64decode(code).decode() == svg
    assert "a box below it is overconfident" in page.text


def test_a_figure_that_is_not_registered_is_shown_under_its_name(data: ReportData) -> None:
    page = Page(render(replace(data, figures={"bench-memory": "<svg/>"})))
    assert page.of("img")[0]["alt"] == "Figure: Bench memory"


def test_nothing_is_fetched_and_nothing_runs(data: ReportData) -> None:
    html = render(replace(data, source="https://example.org/captures"))
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object", "embed", "base"})
    for _, attributes in page.tags:
        assert not attributes.keys() & {"href", "srcset", "action", "onload", "onerror"}
        assert attributes.get("src", "data:").startswith("data:")
    assert not re.search(r"@import|url\(", html)


def test_names_from_users_are_escaped(data: ReportData) -> None:
    wicked = replace(
        data,
        title=EVIL,
        dataset=EVIL,
        source=EVIL,
        settings={EVIL: {EVIL: EVIL}},
        methods={"0": {EVIL: {EVIL: EVIL}}},
        versions={EVIL: EVIL},
        artifacts=[{"name": EVIL, "sha256": EVIL, "size": 1}],
        commands=[EVIL],
        figures={EVIL: "<svg/>"},
        left_out={"cost": EVIL},
    )
    html = render(wicked)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 10


def test_one_seed_is_said_to_tell_nothing_of_other_trainings(data: ReportData, make_tables: MakeTables) -> None:
    page = Page(render(replace(data, tables=make_tables(n_seeds=1, n_levels=3))))
    assert "1 seed" in page.text
    assert "one seed tells nothing of other trainings" in page.text


def test_only_what_an_interval_supports_is_bold(data: ReportData) -> None:
    table = data.tables.intervals
    shown = (table["noise"] == "gaussian") & (table["metric"] == "ece")
    doubtful = table.assign(low=table["low"].where(~shown, -1.0), high=table["high"].where(~shown, 1.0))
    bold = [
        re.findall(r"<b>", gaussian_scores(html, column=4)) for html in (render(data), render(with_(data, doubtful)))
    ]
    assert [len(found) for found in bold] == [1, 0]
    assert "<b>" not in gaussian_scores(render(data), column=6)  # entropy is neither good nor bad


def gaussian_scores(html: str, column: int) -> str:
    """The cells of one column of the scores under gaussian noise."""
    html = html.partition(">gaussian 0.50</th>")[2]
    rows = re.findall(r'<th scope="row">(?:conventional|temperature|variance|MC).*?</tr>', html)[:4]
    return " ".join(re.findall(r"<td>(.*?)</td>", row)[column - 1] for row in rows)


def with_(data: ReportData, intervals: pd.DataFrame) -> ReportData:
    return replace(data, tables=replace(data.tables, intervals=intervals))


def test_the_same_data_give_the_same_page(data: ReportData) -> None:
    assert render(data) == render(data)


def test_nested_settings_become_dotted_names() -> None:
    tree = {"a": 1, "b": {"c": "x", "d": {"e": [1, 2]}, "f": {}}}
    assert list(flat(tree)) == [("a", "1"), ("b.c", "x"), ("b.d.e", "[1, 2]"), ("b.f", "{}")]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1300, "1.3 kB"), (2.5e6, "2.5 MB"), (1.3e12, "1300.0 GB")]
)
def test_sizes_are_readable(size: float, text: str) -> None:
    assert format_size(size) == text
