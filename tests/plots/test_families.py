"""The figure of families of shifts, judged by its lines, bands, limits and notes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from tests.plots.test_figures import footer, legend_labels, line
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, Tables
from vbs_cli.plots.style import METHODS

NOISES = ("gaussian", "affine", "speckle", "gaussian-blur")


def of_suites(tables: Tables, **families: list[str]) -> Tables:
    """The same with further suites, each of these families; a suite's conditions are those of its families."""
    everything = tables.shifts
    added = []
    for suite, names in families.items():
        rows = everything[everything["name"].isin(names)].assign(suite=suite)
        at_all_levels = rows[(rows["severity"] == 0) & (rows["metric"] == "ece") & (rows["method"] == "vbs")]
        total = at_all_levels["conditions"].sum()
        added += [rows, everything[everything["over"] == "all"].assign(suite=suite, conditions=total)]
    return replace(tables, shifts=pd.concat([everything, *added]))


def test_a_panel_per_family_has_a_line_and_a_band_per_method_by_severity(make_tables: MakeTables) -> None:
    tables = make_tables(noises=NOISES)
    figure = FIGURES["families"](tables)
    assert [ax.get_title() for ax in figure.axes[:3]] == ["noise\n2 kinds", "geometric\none kind", "blur\none kind"]
    assert [figure.axes[i].get_ylabel() for i in (0, 3)] == ["ECE", "NLL (nats)"]
    nll = figure.axes[3]
    swept = tables.metrics.query("noise in ('gaussian', 'speckle') and metric == 'nll' and method == 'mc-dropout'")
    expected = swept[swept["level"] > 0].groupby("level")["value"].mean().to_numpy()
    drawn = line(nll, METHODS["mc-dropout"].label)
    assert np.array_equal(np.asarray(drawn.get_xdata()), [1, 2, 3, 4, 5])
    assert np.asarray(drawn.get_ydata()) == pytest.approx(expected)
    band = np.asarray(nll.collections[3].get_paths()[0].vertices)
    heights = [y for x, y in band if x == 5]
    assert (min(heights), max(heights)) == pytest.approx((expected[-1] - 0.01, expected[-1] + 0.01))


def test_only_means_of_a_methods_own_values_are_drawn(make_tables: MakeTables) -> None:
    tables = make_tables(noises=NOISES)
    rows = tables.shifts
    strange = pd.concat(
        [rows.assign(statistic="worst", value=9.0), rows.assign(baseline="vbs", value=9.0), rows.assign(over="unseen")]
    )
    figure = FIGURES["families"](replace(tables, shifts=pd.concat([rows, strange])))
    assert len(figure.axes) == 6
    assert max(np.max(np.asarray(each.get_ydata())) for ax in figure.axes for each in ax.get_lines()) < 9


def test_panels_of_a_row_share_their_scale_from_zero(make_tables: MakeTables) -> None:
    axes = FIGURES["families"](make_tables(noises=NOISES)).axes
    assert len({ax.get_ylim() for ax in axes[:3]}) == 1
    assert axes[0].get_ylim() != axes[3].get_ylim()
    assert axes[3].get_ylim()[0] == pytest.approx(0, abs=0.05 * axes[3].get_ylim()[1])


def test_the_registered_suite_of_most_conditions_is_shown_and_named(make_tables: MakeTables) -> None:
    tables = of_suites(make_tables(noises=NOISES), small=["blur"], large=["noise", "geometric"])
    figure = FIGURES["families"](tables)
    assert [ax.get_title().split("\n")[0] for ax in figure.axes[:2]] == ["noise", "geometric"]
    assert "suite large" in footer(figure)


def test_without_a_suite_all_that_was_swept_is_shown(make_tables: MakeTables) -> None:
    assert "all noises that were swept" in footer(FIGURES["families"](make_tables(noises=NOISES)))


def drawn(shifts: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Rows of the means that are drawn, families by severity."""
    return shifts.query(
        "metric == @metric and over == 'family' and severity > 0 and statistic == 'mean' and baseline == ''"
    )


def test_a_method_far_above_the_others_is_cut_off_with_a_note(make_tables: MakeTables) -> None:
    tables = make_tables(noises=NOISES, methods=("conventional", "temperature", "vbs", "isotonic"))
    rows = tables.shifts.copy()
    far = (rows["method"] == "isotonic") & (rows["metric"] == "nll")
    rows.loc[far, ["value", "low", "high"]] = 180.0
    figure = FIGURES["families"](replace(tables, shifts=rows))
    nll = figure.axes[3]
    others = drawn(rows[~far], "nll")
    bottom, top = nll.get_ylim()
    assert others["high"].max() <= top <= 1.2 * others["high"].max()
    assert bottom > -0.1 * top
    assert "NLL of isotonic regression: up to 180, beyond the axis" in footer(figure)
    assert "isotonic regression" in legend_labels(figure)


def test_methods_that_are_all_bad_are_all_shown(make_tables: MakeTables) -> None:
    tables = make_tables(noises=NOISES)
    rows = tables.shifts.copy()
    rows.loc[rows["metric"] == "nll", ["value", "low", "high"]] *= 100
    figure = FIGURES["families"](replace(tables, shifts=rows))
    assert figure.axes[3].get_ylim()[1] >= drawn(rows, "nll")["value"].max()
    assert "beyond" not in footer(figure)


def test_a_method_equal_to_another_is_markers_on_its_line_and_a_note(make_tables: MakeTables) -> None:
    tables = make_tables(noises=NOISES, methods=("conventional", "vbs"))
    rows = tables.shifts.copy()
    rows.loc[rows["method"] == "vbs", "value"] = rows[rows["method"] == "conventional"]["value"].to_numpy()
    figure = FIGURES["families"](replace(tables, shifts=rows))
    assert line(figure.axes[0], METHODS["vbs"].label).get_linestyle() == "None"
    assert "ECE of variance-based smoothing: same as conventional" in footer(figure)


def test_more_families_than_fit_go_on_below(make_tables: MakeTables) -> None:
    tables = make_tables(n_seeds=1, n_levels=3, noises=("gaussian",), methods=("vbs",))
    rows = tables.shifts[tables.shifts["over"] == "family"]
    eight = pd.concat([rows.assign(name=f"family {i}") for i in range(8)])
    figure = FIGURES["families"](replace(tables, shifts=eight))
    place = figure.axes[0].get_subplotspec()
    assert place is not None
    assert place.get_gridspec().get_geometry() == (2 * 2, 4)


def test_shifts_without_a_family_name_the_command_that_makes_them(make_tables: MakeTables) -> None:
    tables = make_tables()
    for shifts in (pd.DataFrame(), tables.shifts[tables.shifts["over"] != "family"]):
        with pytest.raises(MissingArtifact) as caught:
            FIGURES["families"](replace(tables, shifts=shifts))
        assert caught.value.hint == "vbs noise-sweep --noise gaussian"
