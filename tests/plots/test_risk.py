"""The risk-coverage figure, judged by its lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from tests.plots.test_figures import MANY, footer, legend_labels, line
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, Tables
from vbs_cli.plots.style import METHODS


def test_a_panel_per_condition_stands_clean_first(make_tables: MakeTables) -> None:
    tables = make_tables(noises=("gaussian", "affine"))
    backwards = replace(tables, coverage=tables.coverage.iloc[::-1])
    titles = [ax.get_title() for ax in FIGURES["risk-coverage"](backwards).axes]
    assert titles == ["clean", "affine, λ = 0.60", "gaussian, λ = 0.60"]


def test_risk_lines_are_means_and_bands_reach_from_lowest_to_highest_seed(make_tables: MakeTables) -> None:
    tables = make_tables()
    ax = FIGURES["risk-coverage"](tables).axes[1]
    rows = tables.coverage.query("noise == 'gaussian' and method == 'vbs'")
    drawn = line(ax, METHODS["vbs"].label)
    expected = rows.groupby("coverage")["risk"].mean()
    assert np.asarray(drawn.get_xdata()) == pytest.approx(expected.index.to_numpy())
    assert np.asarray(drawn.get_ydata()) == pytest.approx(expected.to_numpy())
    last = rows[rows["coverage"] == 1]["risk"]
    heights = [y for x, y in np.asarray(ax.collections[2].get_paths()[0].vertices) if x == 1]
    assert (min(heights), max(heights)) == pytest.approx((last.min(), last.max()))


def test_panels_have_scales_of_their_own_from_zero(make_tables: MakeTables) -> None:
    clean, noisy, _ = FIGURES["risk-coverage"](make_tables()).axes
    assert clean.get_ylim()[1] < noisy.get_ylim()[1] / 3
    assert clean.get_ylim()[0] == pytest.approx(0, abs=0.01)


def test_methods_with_the_same_curve_are_markers_on_it_and_a_note(make_tables: MakeTables) -> None:
    tables = make_tables()
    rows = tables.coverage.copy()
    leader = rows[rows["method"] == "conventional"]["risk"].to_numpy()
    rows.loc[rows["method"] == "temperature", "risk"] = leader
    figure = FIGURES["risk-coverage"](replace(tables, coverage=rows))
    follower = line(figure.axes[0], METHODS["temperature"].label)
    assert follower.get_linestyle() == "None"
    assert follower.get_markevery() != line(figure.axes[0], "conventional").get_markevery()
    assert "error rate of temperature scaling: same as conventional" in footer(figure)
    assert line(figure.axes[0], METHODS["vbs"].label).get_linestyle() == "-"


def test_curves_that_differ_at_one_coverage_are_two(make_tables: MakeTables) -> None:
    tables = make_tables(n_seeds=1, methods=("conventional", "temperature"))
    rows = tables.coverage.copy()
    rows["risk"] = rows["coverage"]
    rows.loc[(rows["method"] == "temperature") & (rows["coverage"] == 1), "risk"] = 0.9
    figure = FIGURES["risk-coverage"](replace(tables, coverage=rows))
    assert "same as" not in footer(figure)
    assert legend_labels(figure) == ["conventional", "temperature scaling"]


@pytest.mark.parametrize(("n_noises", "rows", "columns"), [(0, 1, 1), (2, 1, 3), (3, 2, 2), (5, 2, 3)])
def test_panels_fill_the_page(make_tables: MakeTables, n_noises: int, rows: int, columns: int) -> None:
    noises = ("gaussian", "speckle", "affine", "elastic", "salt-and-pepper")[:n_noises]
    figure = FIGURES["risk-coverage"](make_tables(n_seeds=1, n_levels=2, noises=noises))
    place = figure.axes[0].get_subplotspec()
    assert place is not None
    assert place.get_gridspec().get_geometry() == (rows, columns)
    assert len(figure.axes) == n_noises + 1
    assert figure.axes[-1].get_xlabel() == "coverage (share kept)"


def test_many_conditions_stand_in_five_columns_with_their_level_below_the_name(make_tables: MakeTables) -> None:
    figure = FIGURES["risk-coverage"](make_tables(n_seeds=1, n_levels=2, noises=MANY, methods=("vbs",)))
    place = figure.axes[0].get_subplotspec()
    assert place is not None
    assert place.get_gridspec().get_geometry() == (3, 4)
    assert [ax.get_title() for ax in figure.axes[:2]] == ["clean", "gaussian\nλ = 0.60"]


def test_missing_curves_name_the_command_that_makes_them(make_tables: MakeTables) -> None:
    with pytest.raises(MissingArtifact) as caught:
        FIGURES["risk-coverage"](replace(make_tables(), coverage=Tables().coverage))
    assert caught.value.hint == "vbs evaluate"


def test_a_second_test_set_is_named_without_a_level(make_tables: MakeTables) -> None:
    tables = make_tables()
    phone = tables.coverage[tables.coverage["noise"] == "speckle"].assign(noise="phone", level=1.0)
    figure = FIGURES["risk-coverage"](replace(tables, coverage=pd.concat([tables.coverage, phone])))
    titles = [ax.get_title() for ax in figure.axes]
    assert "phone" in titles
    assert any(title.startswith("gaussian, λ = ") for title in titles)
