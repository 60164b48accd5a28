"""The figure of the ensemble study shows what its two tables hold, whatever the number of classes and levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from tests.fixtures.tables import MakeTables
from tests.plots.test_figures import footer, legend_labels, line
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, Tables, save
from vbs_cli.plots.base import settle
from vbs_cli.plots.style import METHODS

MakeStudy = Callable[..., Tables]
NAMES = ("ensemble", "vbs-ensemble")
QUANTITIES = ("accuracy", "kl_uniform", "ece", "brier")


@pytest.fixture
def make_study(make_tables: MakeTables) -> MakeStudy:
    """Tables of a study with one ensemble, made from all seeds together."""

    def make(**given: object) -> Tables:
        tables = make_tables(n_seeds=1, **given)
        return replace(tables, study=tables.study.assign(seed=-1))

    return make


def draw(tables: Tables) -> Figure:
    return FIGURES["ensemble-study"](tables)


def bars(ax: Axes) -> list[BarContainer]:
    """The bars of all classes, then that of the true class."""
    return [each for each in ax.containers if isinstance(each, BarContainer)]


@pytest.mark.parametrize("n_levels", [1, 2, 60])
def test_the_line_of_each_ensemble_goes_through_its_values(make_study: MakeStudy, n_levels: int) -> None:
    tables = make_study(n_levels=n_levels, n_classes=10, noises=("gaussian",))
    for ax, metric in zip(draw(tables).axes[:4], QUANTITIES, strict=True):
        for name in NAMES:
            rows = tables.study[(tables.study["metric"] == metric) & (tables.study["method"] == name)]
            drawn = line(ax, METHODS[name].label)
            assert np.array_equal(drawn.get_xdata(), rows["level"])
            assert np.allclose(drawn.get_ydata(), rows["value"], rtol=0, atol=1e-12)


def test_every_quantity_has_its_name_and_an_axis_of_its_own(make_study: MakeStudy) -> None:
    axes = draw(make_study()).axes
    assert [ax.get_ylabel() for ax in axes[:4]] == ["accuracy", "KL to uniform (nats)", "ECE", "Brier score"]
    assert len({ax.get_ylim() for ax in axes[:4]}) == 4


@pytest.mark.parametrize("n_classes", [40, 251])
def test_bars_are_the_predictions_for_the_median_input_under_the_strongest_noise(
    make_study: MakeStudy, n_classes: int
) -> None:
    tables = make_study(n_levels=3, n_classes=n_classes)
    chosen = tables.distributions.query("noise == 'gaussian' and level == 1 and rank == 0.5")
    for ax, name in zip(draw(tables).axes[4:], NAMES, strict=True):
        expected = chosen[chosen["method"] == name]["probability"]
        assert len(expected) == n_classes
        patches = bars(ax)[0].patches
        assert [patch.get_height() for patch in patches] == expected.to_list()
        assert np.allclose([patch.get_x() + patch.get_width() / 2 for patch in patches], range(n_classes))
        assert ax.get_title() == f"{METHODS[name].label}, λ = 1.00"


def test_classes_stand_in_order_whatever_the_order_of_the_rows(make_study: MakeStudy) -> None:
    tables = make_study()
    mixed = tables.distributions.sort_values(["method", "probability"])
    assert save(draw(replace(tables, distributions=mixed)), "svg") == save(draw(tables), "svg")


@pytest.mark.parametrize("n_classes", [40, 251])
def test_the_true_class_has_a_colour_and_a_marker_of_its_own(make_study: MakeStudy, n_classes: int) -> None:
    tables = make_study(n_levels=2, n_classes=n_classes)
    label = tables.distributions.query("rank == 0.5")["label"].iloc[0]
    for ax in draw(tables).axes[4:]:
        every, (true,) = bars(ax)
        assert true.get_x() + true.get_width() / 2 == pytest.approx(label)
        assert true.get_height() == every.patches[label].get_height()
        assert true.get_facecolor() != every.patches[label].get_facecolor()
        mark = line(ax, "true class")
        assert mark.get_marker() not in ("", "None", None)
        assert np.array_equal(mark.get_xydata(), [[label, true.get_height()]])


@pytest.mark.parametrize("n_classes", [40, 251])
def test_both_predictions_share_an_axis_and_the_line_of_the_uniform_one(make_study: MakeStudy, n_classes: int) -> None:
    tables = make_study(n_levels=2, n_classes=n_classes)
    deep, smoothed = draw(tables).axes[4:]
    assert deep.get_ylim() == smoothed.get_ylim()
    assert deep.get_ylim()[1] > max(patch.get_height() for ax in (deep, smoothed) for patch in bars(ax)[0].patches)
    for ax in (deep, smoothed):
        dotted = line(ax, "uniform (1/K)")
        assert dotted.get_linestyle() == ":"
        assert np.array_equal(dotted.get_ydata(), [1 / n_classes] * 2)


def test_one_of_hundreds_of_bars_is_still_wide_enough_to_see(make_study: MakeStudy) -> None:
    figure = draw(make_study(n_levels=2, n_classes=251))
    settle(figure)
    widths = [patch.get_window_extent().width for ax in figure.axes[4:] for patch in bars(ax)[0].patches]
    assert min(widths) * 72 / figure.dpi > 0.75


def test_a_single_level_is_drawn_with_whole_markers(make_study: MakeStudy) -> None:
    tables = make_study(n_levels=1)
    for ax, metric in zip(draw(tables).axes[:4], QUANTITIES, strict=True):
        bottom, top = ax.get_ylim()
        highest = tables.study[tables.study["metric"] == metric]["value"].max()
        assert bottom < 0
        assert top - highest > 0.03 * top


def test_the_first_of_several_noises_is_drawn_and_named(make_study: MakeStudy) -> None:
    both = make_study(noises=("speckle", "gaussian"), n_levels=3)
    alone = replace(
        both,
        study=both.study.query("noise == 'speckle'"),
        distributions=both.distributions.query("noise == 'speckle'"),
    )
    assert save(draw(both), "svg") == save(draw(alone), "svg")
    labels = [ax.get_xlabel() for ax in draw(both).axes]
    assert labels == ["speckle noise level λ"] * 4 + ["class"] * 2


def test_legend_and_footnote_explain_what_is_drawn(make_study: MakeStudy) -> None:
    figure = draw(make_study())
    assert legend_labels(figure) == ["deep ensemble", "VBS ensemble", "true class", "uniform (1/K)"]
    assert footer(figure) == (
        "accuracy of VBS ensemble: same as deep ensemble "
        "distributions: the input of median entropy under the deep ensemble "
        "data: radio, simulated (vbs radio simulator, seed 0)"
    )


@pytest.mark.parametrize("missing", ["study", "distributions"])
def test_without_a_study_the_command_that_makes_it_is_named(make_study: MakeStudy, missing: str) -> None:
    full = make_study(n_levels=2)
    bare = Tables(metrics=full.metrics, reliability=full.reliability, training=full.training)
    with pytest.raises(MissingArtifact) as caught:
        draw(replace(full, **{missing: getattr(bare, missing)}))
    assert caught.value.hint == "vbs noise-sweep --study ensemble"


@pytest.mark.parametrize("format", ["svg", "png", "pdf"])
def test_the_same_study_gives_the_same_bytes(make_study: MakeStudy, format: str) -> None:
    tables = make_study(n_levels=3, n_classes=251)
    assert save(draw(tables), format) == save(draw(tables), format)
