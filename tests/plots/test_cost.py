"""The figure of cost and calibration, judged by where its markers stand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tests.fixtures.tables import MakeTables
from tests.plots.test_figures import MANY, footer, legend_labels
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, Tables
from vbs_cli.plots.base import settle
from vbs_cli.plots.cost import TIMES
from vbs_cli.plots.style import METHODS


def markers(ax: Axes, method: str) -> list[Line2D]:
    """The markers of a method, in the order of the bench."""
    return [each for each in ax.get_lines() if each.get_label() == METHODS[method].label]


def place(marker: Line2D) -> tuple[float, float]:
    (x,), (y,) = np.asarray(marker.get_xdata()), np.asarray(marker.get_ydata())
    return float(x), float(y)


def costing(tables: Tables, method: str, variant: str, **costs: float) -> Tables:
    """The same with other costs of one contender."""
    bench = tables.bench.copy()
    bench.loc[(bench["method"] == method) & (bench["variant"] == variant), list(costs)] = list(costs.values())
    return replace(tables, bench=bench)


def test_markers_stand_at_the_ratios_and_the_mean_ece_under_noise(make_tables: MakeTables) -> None:
    tables = costing(make_tables(), "vbs", "vbs", flops_ratio=1.002, latency_ratio=0.6)
    flops, latency = FIGURES["cost"](tables).axes
    of_vbs = tables.metrics.query("metric == 'ece' and method == 'vbs' and level > 0")
    expected = np.mean([of_vbs[of_vbs["noise"] == noise]["value"].mean() for noise in ("gaussian", "speckle")])
    assert place(markers(flops, "vbs")[0]) == pytest.approx((1.002, expected))
    assert place(markers(latency, "vbs")[1]) == pytest.approx((0.6, expected))


def test_noises_weigh_the_same_however_many_seeds_each_has(make_tables: MakeTables) -> None:
    tables = make_tables()
    metrics = tables.metrics[(tables.metrics["noise"] != "speckle") | (tables.metrics["seed"] == 0)]
    rows = metrics.query("metric == 'ece' and method == 'vbs' and level > 0")
    expected = rows.groupby("noise")["value"].mean().mean()
    marker = markers(FIGURES["cost"](replace(tables, metrics=metrics)).axes[0], "vbs")[0]
    assert place(marker)[1] == pytest.approx(expected)
    assert expected != pytest.approx(rows["value"].mean())


def test_an_ensemble_of_all_seeds_has_its_marker(make_tables: MakeTables) -> None:
    tables = make_tables(methods=("conventional", "ensemble"))
    metrics = tables.metrics[(tables.metrics["method"] == "conventional") | (tables.metrics["seed"] == 0)].copy()
    metrics.loc[metrics["method"] == "ensemble", "seed"] = -1
    figure = FIGURES["cost"](replace(tables, metrics=metrics))
    assert legend_labels(figure) == ["conventional", "deep ensemble"]
    assert "mean over 3 seeds and all levels of gaussian and speckle noise" in footer(figure)


def test_a_hollow_marker_is_the_way_of_the_paper_and_a_note_says_so(make_tables: MakeTables) -> None:
    tables = costing(make_tables(), "mc-dropout", "vbs", latency_ratio=7.0)
    figure = FIGURES["cost"](tables)
    paper, ours = markers(figure.axes[1], "mc-dropout")
    assert (place(paper)[0], place(ours)[0]) == (10.0, 7.0)
    assert paper.get_markerfacecolor() == "none"
    assert ours.get_markerfacecolor() == METHODS["mc-dropout"].color
    assert "filled: as vbs runs it; hollow: as the paper ran it" in footer(figure)


def test_a_method_measured_in_one_way_has_no_hollow_marker(make_tables: MakeTables) -> None:
    tables = make_tables()
    figure = FIGURES["cost"](replace(tables, bench=tables.bench[tables.bench["variant"] == "paper"]))
    [marker] = markers(figure.axes[1], "vbs")
    assert marker.get_markerfacecolor() == METHODS["vbs"].color
    assert "hollow" not in footer(figure)


def test_where_both_ways_cost_the_same_the_filled_marker_stands_alone(make_tables: MakeTables) -> None:
    flops, latency = FIGURES["cost"](make_tables()).axes
    [marker] = markers(flops, "mc-dropout")
    assert marker.get_markerfacecolor() == METHODS["mc-dropout"].color
    assert len(markers(latency, "mc-dropout")) == 2


def test_a_marker_on_another_is_smaller_and_drawn_over_it(make_tables: MakeTables) -> None:
    tables = make_tables()
    same = tables.metrics.assign(value=tables.metrics["value"].where(tables.metrics["metric"] != "ece", 0.2))
    ax = FIGURES["cost"](replace(tables, metrics=same)).axes[0]
    [below], [above] = markers(ax, "conventional"), markers(ax, "vbs")
    assert place(below) == place(above)
    assert above.get_markersize() < below.get_markersize() - 2
    assert above.get_zorder() > below.get_zorder()


def test_without_noise_the_clean_ece_is_shown_and_said(make_tables: MakeTables) -> None:
    tables = make_tables(noises=())
    figure = FIGURES["cost"](tables)
    clean = tables.metrics.query("metric == 'ece' and method == 'vbs'")["value"]
    assert place(markers(figure.axes[0], "vbs")[0])[1] == pytest.approx(clean.mean())
    assert figure.axes[0].get_ylabel() == "ECE (clean)"
    assert FIGURES["cost"](make_tables()).axes[0].get_ylabel() == "ECE under noise"


def test_methods_without_a_cost_or_without_an_ece_under_every_noise_are_left_out(make_tables: MakeTables) -> None:
    tables = make_tables()
    metrics, bench = tables.metrics, tables.bench
    metrics = metrics[(metrics["method"] != "vbs") | (metrics["noise"] != "speckle")]
    kept = replace(tables, metrics=metrics, bench=bench[bench["method"] != "temperature"])
    assert legend_labels(FIGURES["cost"](kept)) == ["conventional", "MC-dropout"]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (1.01, [1, 2]),
        (10.0, [1, 2, 5, 10]),
        (150.0, [1, 10, 100]),
    ],
)
def test_ticks_are_plain_ratios(make_tables: MakeTables, most: float, ticks: list[int]) -> None:
    tables = make_tables(methods=("conventional", "vbs"))
    ax = FIGURES["cost"](costing(tables, "vbs", "vbs", flops_ratio=most)).axes[0]
    low, high = ax.get_xlim()
    shown = [value for value in ax.get_xticks() if low <= value <= high]
    assert [ax.xaxis.get_major_formatter()(value) for value in shown] == [f"{tick}{TIMES}" for tick in ticks]


@pytest.mark.parametrize("methods", [("conventional", "temperature", "vbs", "mc-dropout"), tuple(METHODS)])
def test_no_text_covers_another(make_tables: MakeTables, methods: tuple[str, ...]) -> None:
    figure = FIGURES["cost"](make_tables(methods=methods))
    settle(figure)
    texts = [*figure.legends[0].get_texts()]
    for ax in figure.axes:
        low, high = ax.get_xlim()
        ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
        texts += [ax.xaxis.label, *(label for value, label in ticks if low <= value <= high)]
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) > 8
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


@pytest.mark.parametrize(("table", "command"), [("bench", "vbs bench --batch 128"), ("metrics", "vbs evaluate")])
def test_a_missing_table_names_its_command(make_tables: MakeTables, table: str, command: str) -> None:
    with pytest.raises(MissingArtifact) as caught:
        FIGURES["cost"](replace(make_tables(), **{table: pd.DataFrame()}))
    assert caught.value.hint == command


def test_costs_of_other_methods_alone_are_as_good_as_none(make_tables: MakeTables) -> None:
    tables = make_tables()
    with pytest.raises(MissingArtifact) as caught:
        FIGURES["cost"](replace(tables, bench=tables.bench.assign(method="unheard-of")))
    assert caught.value.hint == "vbs bench --batch 128"


def test_many_noises_are_counted_rather_than_named(make_tables: MakeTables) -> None:
    figure = FIGURES["cost"](make_tables(n_seeds=1, n_levels=2, noises=MANY))
    assert "all levels of 10 noises" in footer(figure)
