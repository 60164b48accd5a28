"""Figures are judged by what they show: artists, labels, numbers and limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tests.fixtures.tables import MakeTables
from vbs_cli.errors import InvalidInput, MissingArtifact, UnknownName
from vbs_cli.plots import FIGURES, READS, Tables, save
from vbs_cli.plots.base import settle
from vbs_cli.plots.canvas import columns_that_fit
from vbs_cli.plots.style import METHODS, method_style, noise_style

NAMES = (
    *("reliability", "reliability-methods", "risk-coverage", "shift", "shift-scores", "sigma", "training"),
    *("cost", "examples", "families", "noises"),
)

MANY = (
    *("gaussian", "speckle", "salt-and-pepper", "gaussian-blur", "defocus-blur", "fog", "brightness", "pixelate"),
    *("affine-no-zoom", "occlusion"),
)


def line(ax: Axes, label: str) -> Line2D:
    """The line of `ax` with this label."""
    (found,) = [each for each in ax.get_lines() if each.get_label() == label]
    return found


def footer(figure: Figure) -> str:
    """The text under the panels, unwrapped."""
    return " ".join(figure.get_supxlabel().split())


def legend_labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_all_figures_are_registered() -> None:
    assert set(NAMES) <= set(FIGURES)


@pytest.mark.parametrize("n_seeds", [1, 3])
@pytest.mark.parametrize("name", list(FIGURES))
def test_every_figure_states_its_source_and_names_its_axes(make_tables: MakeTables, name: str, n_seeds: int) -> None:
    tables = make_tables(n_seeds=n_seeds)
    figure = FIGURES[name](tables)
    assert "data: radio, simulated (vbs radio simulator, seed 0)" in footer(figure)
    if any("seed" in getattr(tables, table) for table in READS[name]):
        assert "one seed" in footer(figure) if n_seeds == 1 else "3 seeds" in footer(figure)
    for ax in figure.axes:
        place = ax.get_subplotspec()
        assert place is not None
        assert ax.get_xlabel() or not place.is_last_row()
        assert ax.get_ylabel() or not place.is_first_col()


@pytest.mark.parametrize("name", list(FIGURES))
def test_every_figure_has_a_title_and_a_caption_for_the_report(name: str) -> None:
    title, _, caption = (FIGURES[name].__doc__ or "").partition("\n\n")
    assert title.strip()
    assert caption.strip().endswith(".")


@pytest.mark.parametrize("name", list(FIGURES))
def test_the_same_tables_give_the_same_svg(make_tables: MakeTables, name: str) -> None:
    tables = make_tables(n_seeds=2, noises=("gaussian",), n_levels=2, methods=("conventional", "vbs"))
    assert save(FIGURES[name](tables), "svg") == save(FIGURES[name](tables), "svg")


def test_saving_a_figure_leaves_its_layout_as_it_is(make_tables: MakeTables) -> None:
    figure = FIGURES["reliability"](make_tables(methods=("conventional", "vbs")))
    first = save(figure, "svg")
    save(figure, "png")
    assert save(figure, "svg") == first


@pytest.mark.parametrize("name", list(FIGURES))
def test_nothing_is_cut_off_and_no_legend_covers_a_panel(make_tables: MakeTables, name: str) -> None:
    methods = ["conventional", "vbs", "mc-dropout", "ensemble", "unheard-of"]
    figure = FIGURES[name](make_tables(n_seeds=2, n_levels=2, source="a long source " * 9, methods=methods))
    settle(figure)
    legends = [legend.get_window_extent() for legend in figure.legends]
    assert not any(legend.overlaps(ax.get_window_extent()) for legend in legends for ax in figure.axes)
    drawn = figure.get_tightbbox()
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= figure.get_figwidth()
    assert drawn.y1 <= figure.get_figheight()


@pytest.mark.parametrize(("format", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_save_writes_the_format_asked_for(make_tables: MakeTables, format: str, magic: bytes) -> None:
    figure = FIGURES["sigma"](make_tables(n_seeds=1))
    assert save(figure, format).startswith(magic)


def test_an_unknown_format_is_refused(make_tables: MakeTables) -> None:
    with pytest.raises(UnknownName, match="jpg"):
        save(FIGURES["sigma"](make_tables(n_seeds=1)), "jpg")


@pytest.mark.parametrize("name", ["reliability", "training"])
def test_dollars_and_underscores_in_names_are_letters(make_tables: MakeTables, name: str) -> None:
    figure = FIGURES[name](make_tables(dataset="my_$x", source="$\\frac{_ to_the $moon"))
    save(figure, "png")
    assert "data: my_$x, $\\frac{_ to_the $moon" in footer(figure)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("reliability", "vbs evaluate"),
        ("reliability-methods", "vbs evaluate"),
        ("shift", "vbs noise-sweep --noise gaussian"),
        ("shift-scores", "vbs noise-sweep --noise gaussian"),
        ("sigma", "vbs noise-sweep --noise gaussian"),
        ("training", "vbs train"),
    ],
)
def test_missing_rows_name_the_command_that_makes_them(make_tables: MakeTables, name: str, command: str) -> None:
    full = make_tables(n_seeds=1, n_levels=2)
    clean = full.metrics[full.metrics["noise"] == "clean"]
    with pytest.raises(MissingArtifact) as caught:
        FIGURES[name](Tables(clean, full.reliability.iloc[:0], full.training.iloc[:0]))
    assert caught.value.hint == command


def test_two_sources_never_share_a_figure(make_tables: MakeTables) -> None:
    tables = make_tables()
    mixed = tables.training.assign(source=["a", "b"] * (len(tables.training) // 2))
    with pytest.raises(InvalidInput, match="2 different"):
        FIGURES["training"](replace(tables, training=mixed))


def test_reliability_boxes_leave_out_bins_that_no_seed_fills(make_tables: MakeTables) -> None:
    boxes, counts = FIGURES["reliability"](make_tables()).axes
    assert boxes.get_xlim() == (0.2, 1.0)
    medians = [each for each in boxes.get_lines() if each.get_marker() == METHODS["vbs"].marker]
    assert np.size(medians[0].get_xdata()) == 8
    assert counts.get_yscale() == "log"


def test_reliability_draws_the_median_over_seeds_and_the_diagonal(make_tables: MakeTables) -> None:
    tables = make_tables()
    figure = FIGURES["reliability"](tables)
    boxes = figure.axes[0]
    rows = tables.reliability
    last = rows[(rows["method"] == "vbs") & (rows["bin"] == 9)]["accuracy"].tolist()
    (marks,) = [each for each in boxes.get_lines() if each.get_marker() == METHODS["vbs"].marker]
    assert np.asarray(marks.get_ydata())[-1] == pytest.approx(sorted(last)[1])
    diagonal = line(boxes, "perfect calibration")
    assert np.array_equal(diagonal.get_xdata(), diagonal.get_ydata())


def test_reliability_panels_show_accuracy_and_the_gap_to_confidence(make_tables: MakeTables) -> None:
    tables = make_tables()
    figure = FIGURES["reliability-methods"](tables)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert [title.split("\n")[0] for title in titles] == [style.label for style in list(METHODS.values())[:4]]
    rows = tables.reliability
    last = rows[(rows["method"] == "conventional") & (rows["bin"] == 9)]
    accuracy, gap = [each for each in figure.axes[0].containers if isinstance(each, BarContainer)]
    assert accuracy.patches[-1].get_height() == pytest.approx(sum(last["accuracy"]) / 3)
    assert gap.patches[-1].get_y() + gap.patches[-1].get_height() == pytest.approx(sum(last["confidence"]) / 3)


def test_shift_lines_are_means_and_bands_reach_from_lowest_to_highest_seed(make_tables: MakeTables) -> None:
    tables = make_tables()
    entropy = FIGURES["shift"](tables).axes[2]
    chosen = "noise == 'gaussian' and metric == 'entropy' and method == 'vbs' and level == 1"
    rows = tables.metrics.query(chosen)
    drawn = np.asarray(line(entropy, "variance-based smoothing").get_ydata())
    assert drawn[-1] == pytest.approx(sum(rows["value"]) / 3)
    band = entropy.collections[2].get_paths()[0].vertices
    heights = [y for x, y in np.asarray(band) if x == 1]
    assert (min(heights), max(heights)) == pytest.approx((min(rows["value"]), max(rows["value"])))


def test_shift_says_and_shows_that_smoothing_keeps_the_accuracy(make_tables: MakeTables) -> None:
    figure = FIGURES["shift"](make_tables(n_levels=20))
    accuracy = figure.axes[0]
    followers = [line(accuracy, METHODS[name].label) for name in ("temperature", "vbs")]
    assert [each.get_linestyle() for each in followers] == ["None", "None"]
    assert followers[0].get_markevery() != followers[1].get_markevery()
    assert line(accuracy, "conventional").get_linestyle() == "-"
    note = "temperature scaling and variance-based smoothing: same as conventional by construction"
    assert note in footer(figure)


def test_shift_draws_a_line_of_its_own_for_an_accuracy_that_differs(make_tables: MakeTables) -> None:
    tables = make_tables()
    metrics = tables.metrics.copy()
    metrics.loc[(metrics["method"] == "vbs") & (metrics["metric"] == "accuracy"), "value"] -= 0.01
    figure = FIGURES["shift"](replace(tables, metrics=metrics))
    assert line(figure.axes[0], "variance-based smoothing").get_linestyle() == "-"
    assert "accuracy of temperature scaling: same" in footer(figure)


def test_shift_scores_have_a_row_per_score_and_a_column_per_noise(make_tables: MakeTables) -> None:
    figure = FIGURES["shift-scores"](make_tables(noises=("gaussian", "affine", "elastic"), n_levels=3))
    assert [ax.get_title() for ax in figure.axes[:3]] == ["gaussian", "affine", "elastic"]
    labels = [ax.get_ylabel() for ax in figure.axes[::3]]
    assert labels == ["ECE", "NLL (nats)", "Brier score", "KL to uniform (nats)"]


def test_sigma_has_a_line_per_noise_and_a_mark_for_clean(make_tables: MakeTables) -> None:
    tables = make_tables()
    figure = FIGURES["sigma"](tables)
    assert legend_labels(figure) == ["gaussian", "speckle"]
    clean = tables.metrics.query("metric == 'sigma_bar' and method == 'vbs' and noise == 'clean'")["value"]
    (dotted,) = [each for each in figure.axes[0].get_lines() if each.get_linestyle() == ":"]
    assert np.asarray(dotted.get_ydata())[0] == pytest.approx(sum(clean) / 3)


def test_many_noises_go_on_in_further_rows_on_the_same_scales(make_tables: MakeTables) -> None:
    tables = make_tables(n_seeds=1, n_levels=3, noises=MANY, methods=("conventional", "vbs"))
    figure = FIGURES["shift"](tables)
    place = figure.axes[0].get_subplotspec()
    assert place is not None
    assert place.get_gridspec().get_geometry() == (2 * 2, 5)
    titled = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in titled] == list(MANY)
    last = titled[-1]
    expected = tables.metrics.query("noise == @MANY[-1] and metric == 'accuracy' and method == 'vbs'")["value"]
    assert np.asarray(line(last, METHODS["vbs"].label).get_ydata()) == pytest.approx(expected.to_numpy())
    assert len({ax.get_ylim() for ax in titled}) == 1
    assert [ax.get_xlabel() for ax in figure.axes].count("noise level λ") == 5


def test_an_unfinished_last_row_leaves_names_of_axes_above_the_gap(make_tables: MakeTables) -> None:
    figure = FIGURES["shift"](make_tables(n_seeds=1, n_levels=2, noises=MANY[:7], methods=("vbs",)))
    *_, above_the_gap = figure.axes[:8]
    assert (above_the_gap.get_xlabel(), above_the_gap.get_ylabel()) == ("noise level λ", "")
    assert [ax.get_ylabel() for ax in figure.axes[::4][:2]] == ["accuracy", "entropy\n(nats)"]


def test_sigma_of_many_noises_has_a_panel_each_with_the_mark_for_clean(make_tables: MakeTables) -> None:
    tables = make_tables(n_seeds=2, n_levels=2, noises=MANY)
    figure = FIGURES["sigma"](tables)
    assert [ax.get_title() for ax in figure.axes] == list(MANY)
    sigma = tables.metrics.query("metric == 'sigma_bar' and method == 'vbs'")
    clean = sigma[sigma["noise"] == "clean"]["value"].mean()
    for ax, noise in zip(figure.axes, MANY, strict=True):
        of_noise = sigma[sigma["noise"] == noise]
        drawn = np.asarray(line(ax, METHODS["vbs"].label).get_ydata())
        assert drawn == pytest.approx(of_noise.groupby("level")["value"].mean().to_numpy())
        (dotted,) = [each for each in ax.get_lines() if each.get_linestyle() == ":"]
        assert np.asarray(dotted.get_ydata())[0] == pytest.approx(clean)


def test_a_choice_of_methods_holds_in_the_summary_of_shifts_too(make_tables: MakeTables) -> None:
    chosen = make_tables(n_seeds=1, n_levels=2).of_methods(["vbs", "conventional"])
    assert legend_labels(FIGURES["families"](chosen)) == [METHODS["vbs"].label, METHODS["conventional"].label]


@pytest.mark.parametrize("name", ["shift", "sigma", "risk-coverage", "families", "examples", "noises"])
def test_nothing_is_cut_off_and_no_name_covers_another_with_many_noises(make_tables: MakeTables, name: str) -> None:
    figure = FIGURES[name](make_tables(n_seeds=1, n_levels=2, noises=MANY, methods=("conventional", "vbs")))
    settle(figure)
    names = [text for ax in figure.axes for text in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts)]
    boxes = [text.get_window_extent() for text in names if text.get_text() and text.get_visible()]
    assert len(boxes) >= 3
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    drawn = figure.get_tightbbox()
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= figure.get_figwidth()
    assert drawn.y1 <= figure.get_figheight()


def test_training_draws_every_seed_thin_and_their_mean_thick(make_tables: MakeTables) -> None:
    loss = FIGURES["training"](make_tables(n_seeds=3)).axes[0]
    widths = sorted(each.get_linewidth() for each in loss.get_lines())
    assert widths == [0.5] * 6 + [1.3] * 2


def test_a_single_epoch_is_a_visible_point(make_tables: MakeTables) -> None:
    tables = make_tables(n_seeds=1)
    loss = FIGURES["training"](replace(tables, training=tables.training.query("epoch == 1"))).axes[0]
    assert line(loss, "training").get_marker() == "o"
    assert loss.get_xlim() == (0.5, 1.5)


def test_a_history_without_validation_is_drawn_without_it(make_tables: MakeTables) -> None:
    tables = make_tables(n_seeds=1)
    bare = tables.training.assign(val_loss=math.nan, val_accuracy=math.nan)
    loss = FIGURES["training"](replace(tables, training=bare)).axes[0]
    assert np.size(line(loss, "validation").get_xdata()) == 0


def test_an_unknown_method_always_gets_the_same_look_and_never_a_known_one() -> None:
    assert method_style("brand-new") == method_style("brand-new")
    assert method_style("brand-new").label == "brand-new"
    assert method_style("brand-new").marker not in {style.marker for style in METHODS.values()}
    assert noise_style("gaussian").label == "gaussian"


def test_no_two_methods_share_a_marker_or_both_colour_and_line() -> None:
    assert len({style.marker for style in METHODS.values()}) == len(METHODS)
    assert len({(style.color, str(style.line)) for style in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize(("width", "columns"), [(100.0, 4), (2.6, 2), (0.1, 1)])
def test_a_legend_takes_the_columns_that_fit(width: float, columns: int) -> None:
    assert columns_that_fit(["a" * 10] * 4, width) == columns
