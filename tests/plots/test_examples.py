"""The figure of example inputs, judged by the numbers that its images, lines and dots hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from tests.fixtures.tables import MakeTables
from tests.plots.test_figures import MANY, footer, legend_labels
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, Tables, save
from vbs_cli.plots.base import settle

SHAPES = [(3, 8, 8), (1, 8, 12), (1, 20480), (2, 1580), (2, 64), (5, 400)]


def of(tables: Tables, noise: str, level: float) -> np.ndarray:
    """The input of the table at one place."""
    rows = tables.examples
    (row,) = rows[(rows["noise"] == noise) & (rows["level"] == level)].to_dict("records")
    return np.array(row["values"]).reshape(row["shape"])


def lines(ax: Axes) -> list[np.ndarray]:
    return [np.asarray(each.get_ydata()) for each in ax.get_lines()]


def test_images_are_the_clipped_inputs_in_a_strip_per_noise(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(3, 8, 8))
    figure = FIGURES["examples"](tables)
    assert len(figure.axes) == 2 * 5
    assert [ax.get_title() for ax in figure.axes[:5]] == [f"λ = {level:.2f}" for level in (0, 0.25, 0.5, 0.75, 1)]
    assert [figure.axes[i].get_ylabel() for i in (0, 5)] == ["gaussian", "speckle"]
    (image,) = figure.axes[5 + 2].get_images()
    noisy = of(tables, "speckle", 0.5)
    assert noisy.max() > 1
    assert np.array_equal(np.asarray(image.get_array()), np.clip(noisy, 0, 1).transpose(1, 2, 0))
    assert image.get_interpolation() == "nearest"
    assert not any([*ax.get_xticks(), *ax.get_yticks()] for ax in figure.axes)
    assert not figure.legends


def test_an_image_of_one_channel_is_grey_from_black_to_white(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 8, 12), noises=("gaussian",))
    (image,) = FIGURES["examples"](tables).axes[1].get_images()
    assert np.array_equal(np.asarray(image.get_array()), np.clip(of(tables, "gaussian", 0.25)[0], 0, 1))
    assert image.get_clim() == (0, 1)
    assert image.get_cmap().name == "gray"


def test_a_short_signal_is_drawn_sample_by_sample(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 100))
    figure = FIGURES["examples"](tables)
    (drawn,) = figure.axes[5 + 3].get_lines()
    assert np.array_equal(np.asarray(drawn.get_xdata()), np.arange(100))
    assert np.array_equal(np.asarray(drawn.get_ydata()), of(tables, "speckle", 0.75)[0])
    assert not figure.legends


def test_a_long_signal_is_drawn_by_lows_and_highs_in_a_small_file(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 20480), noises=("gaussian", "speckle", "affine"))
    figure = FIGURES["examples"](tables)
    (drawn,) = lines(figure.axes[4])
    signal = of(tables, "gaussian", 1.0)[0]
    starts = np.linspace(0, 20480, len(drawn) // 2, endpoint=False).astype(int)
    parts = np.split(signal, starts[1:])
    assert np.array_equal(drawn[0::2], [part.min() for part in parts])
    assert np.array_equal(drawn[1::2], [part.max() for part in parts])
    assert len(save(figure, "svg")) < 200_000


def test_all_waveforms_share_their_scales(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 500))
    axes = FIGURES["examples"](tables).axes
    assert len({ax.get_ylim() for ax in axes}) == 1
    low, high = axes[0].get_ylim()
    values = np.concatenate([np.array(each) for each in tables.examples["values"]])
    assert low <= values.min()
    assert high >= values.max()


def test_a_radio_signal_has_its_first_samples_and_its_constellation(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(2, 1580))
    figure = FIGURES["examples"](tables)
    noisy = of(tables, "speckle", 0.5)
    waves, constellation = figure.axes[10 + 2], figure.axes[15 + 2]
    assert np.array_equal(np.stack(lines(waves)), noisy[:, :200])
    (dots,) = constellation.collections
    assert np.array_equal(np.asarray(dots.get_offsets()), noisy.T)
    assert constellation.get_aspect() == 1
    assert constellation.get_xlim() == constellation.get_ylim() == figure.axes[5].get_xlim()
    assert figure.axes[10].get_ylabel() == "speckle\namplitude"
    assert (figure.axes[15].get_xlabel(), figure.axes[15].get_ylabel()) == ("I", "Q")
    assert legend_labels(figure) == ["I", "Q"]
    assert "the first 200 of 1580 samples" in footer(figure)


def test_of_many_channels_three_are_drawn(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(5, 64), noises=("gaussian",))
    figure = FIGURES["examples"](tables)
    assert np.array_equal(np.stack(lines(figure.axes[0])), of(tables, "gaussian", 0.0)[:3])
    assert legend_labels(figure) == ["channel 1", "channel 2", "channel 3"]


def test_tables_from_a_file_hold_arrays_and_are_drawn_as_well(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(2, 64))
    arrays = tables.examples.assign(
        shape=[np.array(each) for each in tables.examples["shape"]],
        values=[np.array(each, dtype=np.float32) for each in tables.examples["values"]],
    )
    drawn = lines(FIGURES["examples"](replace(tables, examples=arrays)).axes[0])
    assert np.stack(drawn) == pytest.approx(of(tables, "gaussian", 0.0), abs=1e-6)


def test_one_example_is_shown_and_named(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 64))
    other = tables.examples.assign(example=8, label=5, values=[[0.0] * 64] * len(tables.examples))
    figure = FIGURES["examples"](replace(tables, examples=pd.concat([tables.examples, other])))
    assert "example 7 of the test split, label 3" in footer(figure)
    assert np.array_equal(lines(figure.axes[0])[0], of(tables, "gaussian", 0.0)[0])


def test_a_level_that_a_noise_lacks_leaves_a_gap(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 64))
    rows = tables.examples
    figure = FIGURES["examples"](replace(tables, examples=rows[(rows["noise"] != "speckle") | (rows["level"] < 1)]))
    assert [ax.axison for ax in figure.axes] == [True] * 9 + [False]


def own_levels(tables: Tables, factor: float, *, n_levels: int = 5) -> Tables:
    """The same with levels of speckle that no other noise has, the first few of them."""
    rows = tables.examples.copy()
    speckle = rows["noise"] == "speckle"
    rows.loc[speckle, "level"] *= factor
    first = sorted(rows[speckle]["level"])[:n_levels]
    return replace(tables, examples=rows[~speckle | rows["level"].isin(first)])


def test_levels_that_differ_stand_in_columns_by_rank_with_their_own_numbers(make_tables: MakeTables) -> None:
    tables = own_levels(make_tables(shape=(3, 8, 8)), 0.1)
    axes = FIGURES["examples"](tables).axes
    assert [ax.get_title() for ax in axes[:5]] == ["clean", "severity 1", "severity 2", "severity 3", "severity 4"]
    assert [text.get_text() for ax in axes[:5] for text in ax.texts] == [
        f"λ = {x}" for x in ("0.25", "0.5", "0.75", "1")
    ]
    assert [text.get_text() for text in axes[5 + 4].texts] == ["λ = 0.1"]
    shown = np.asarray(axes[5 + 2].get_images()[0].get_array())
    assert np.array_equal(shown, np.clip(of(tables, "speckle", 0.05), 0, 1).transpose(1, 2, 0))


def test_a_noise_of_fewer_levels_of_its_own_leaves_gaps_at_the_end(make_tables: MakeTables) -> None:
    axes = FIGURES["examples"](own_levels(make_tables(shape=(3, 8, 8)), 0.1, n_levels=3)).axes
    assert [ax.axison for ax in axes] == [True] * 8 + [False] * 2


def test_six_common_levels_are_all_shown(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 64), noises=("gaussian",))
    more = tables.examples[tables.examples["level"] == 1].assign(level=1.5)
    axes = FIGURES["examples"](replace(tables, examples=pd.concat([tables.examples, more]))).axes
    assert [ax.get_title() for ax in axes] == [f"λ = {level:.2f}" for level in (0, 0.25, 0.5, 0.75, 1, 1.5)]


def test_of_many_own_levels_five_are_shown_as_steps_rather_than_severities(make_tables: MakeTables) -> None:
    tables = own_levels(make_tables(shape=(1, 64)), 0.1)
    noisy = tables.examples[tables.examples["level"] == 1]
    rows = pd.concat([tables.examples, *(noisy.assign(level=level) for level in (1.25, 1.5, 1.75, 2.0))])
    axes = FIGURES["examples"](replace(tables, examples=rows)).axes
    assert [ax.get_title() for ax in axes[:6]] == ["clean", *(f"step {k}" for k in range(1, 6))]
    assert axes[5].texts[0].get_text() == "λ = 2"


def test_many_noises_have_small_images_in_rows_by_family(make_tables: MakeTables) -> None:
    figure = FIGURES["examples"](make_tables(shape=(3, 8, 8), noises=MANY))
    settle(figure)
    names = [figure.axes[i].get_ylabel() for i in range(0, 5 * len(MANY), 5)]
    assert names[:4] == ["gaussian", "speckle", "salt-and-pepper", "gaussian-blur"]
    assert sorted(names) == sorted(MANY)
    assert names.index("pixelate") < names.index("affine-no-zoom") < names.index("occlusion")
    heights = {round(ax.get_window_extent().height / figure.dpi, 2) for ax in figure.axes}
    assert all(0.5 < height < 0.75 for height in heights)


def test_many_noises_of_a_radio_signal_are_constellations_of_one_reach(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(2, 64), noises=MANY)
    figure = FIGURES["examples"](tables)
    assert len(figure.axes) == 5 * len(MANY)
    (dots,) = figure.axes[5 + 2].collections
    assert np.array_equal(np.asarray(dots.get_offsets()), of(tables, "speckle", 0.5).T)
    assert {ax.get_xlim()[1] for ax in figure.axes} == {2 * 1.05 * np.abs(of(tables, "gaussian", 0.0)).max()}
    assert "panels end at 2 times the reach of the clean input" in footer(figure)
    assert not figure.legends


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noises", [("gaussian",), ("gaussian", "salt-and-pepper", "affine-no-zoom")])
def test_no_text_covers_another_and_none_is_cut_off(
    make_tables: MakeTables, shape: tuple[int, ...], noises: tuple[str, ...]
) -> None:
    figure = FIGURES["examples"](make_tables(shape=shape, noises=noises))
    settle(figure)
    texts = [text for ax in figure.axes for text in (ax.title, ax.xaxis.label, ax.yaxis.label) if text.get_text()]
    for legend in figure.legends:
        texts += legend.get_texts()
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) >= 5 + len(noises)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    drawn = figure.get_tightbbox()
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= figure.get_figwidth()
    assert drawn.y1 <= figure.get_figheight()


def test_missing_examples_name_the_command_that_makes_them(make_tables: MakeTables) -> None:
    with pytest.raises(MissingArtifact) as caught:
        FIGURES["examples"](replace(make_tables(), examples=pd.DataFrame()))
    assert caught.value.hint == "vbs noise-sweep --noise gaussian"
