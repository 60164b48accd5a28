"""The figure of one input under every noise, judged by the numbers that its panels hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.fixtures.tables import MakeTables
from tests.plots.test_examples import lines, of
from tests.plots.test_figures import footer, legend_labels
from vbs_cli.errors import MissingArtifact
from vbs_cli.plots import FIGURES, save
from vbs_cli.plots.inputs import log_power

NOISES = ("gaussian", "affine", "speckle", "gaussian-blur")


def test_the_clean_input_comes_first_then_noises_by_family_at_their_strongest(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(3, 8, 8), noises=NOISES)
    rows = tables.examples
    weak = replace(tables, examples=rows[(rows["noise"] != "speckle") | (rows["level"] <= 0.25)])
    axes = FIGURES["noises"](weak).axes
    assert [ax.get_title() for ax in axes] == ["clean", "gaussian", "speckle", "affine", "gaussian-blur"]
    small = [text.get_text() for ax in axes for text in ax.texts]
    expected = ["λ = 0", "noise, λ = 1", "noise, λ = 0.25", "geometric, λ = 1", "blur, λ = 1"]
    assert small == expected
    shown = [np.asarray(ax.get_images()[0].get_array()) for ax in axes]
    inputs = [of(tables, "gaussian", 0.0), of(tables, "gaussian", 1.0), of(tables, "speckle", 0.25)]
    for image, values in zip(shown, inputs, strict=False):
        assert np.array_equal(image, np.clip(values, 0, 1).transpose(1, 2, 0))


def test_a_clean_row_of_its_own_and_rows_without_families_are_drawn_too(make_tables: MakeTables) -> None:
    rows = make_tables(shape=(3, 8, 8), noises=NOISES).examples.drop(columns="family")
    clean = rows[rows["level"] == 0].iloc[:1].assign(noise="clean")
    tables = replace(make_tables(), examples=pd.concat([clean, rows[rows["level"] > 0]]))
    axes = FIGURES["noises"](tables).axes
    assert [ax.get_title() for ax in axes] == ["clean", *NOISES]
    first = FIGURES["examples"](tables).axes[0]
    assert np.array_equal(first.get_images()[0].get_array(), axes[0].get_images()[0].get_array())


def test_a_table_without_a_clean_input_begins_with_a_noise(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 8, 8), noises=NOISES)
    rows = tables.examples
    axes = FIGURES["noises"](replace(tables, examples=rows[rows["level"] > 0])).axes
    assert axes[0].get_title() == "gaussian"


def test_a_tone_lies_at_its_frequency_and_is_as_loud_as_it_is() -> None:
    power = log_power(0.5 * np.sin(np.pi * 0.25 * np.arange(8000)))
    assert np.argmax(power.mean(axis=1)) == 0.25 * (len(power) - 1)
    quieter = log_power(0.05 * np.sin(np.pi * 0.25 * np.arange(8000)))
    assert power.max() - quieter.max() == pytest.approx(20, abs=0.01)
    assert np.isfinite(log_power(np.zeros(8000))).all()


def test_sound_is_drawn_as_spectrograms_on_one_scale_that_ends_at_the_clean_input(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 4000), noises=NOISES)
    figure = FIGURES["noises"](tables)
    images = [ax.get_images()[0] for ax in figure.axes]
    clean = log_power(of(tables, "gaussian", 0.0)[0])
    assert np.array_equal(np.asarray(images[0].get_array()), clean)
    assert np.array_equal(np.asarray(images[1].get_array()), log_power(of(tables, "gaussian", 1.0)[0]))
    assert {image.get_clim() for image in images} == {(clean.max() - 80, clean.max())}
    assert "80 dB" in footer(figure)


def test_colours_of_a_spectrogram_grow_darker_with_power(make_tables: MakeTables) -> None:
    (image, *_) = FIGURES["noises"](make_tables(shape=(1, 4000), noises=("gaussian",))).axes[0].get_images()
    grey = [image.get_cmap()(share)[:3] @ np.array([0.3, 0.59, 0.11]) for share in np.linspace(0, 1, 16)]
    assert np.all(np.diff(grey) < 0)


def test_spectrograms_of_many_noises_make_a_small_file(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(1, 20480), noises=[f"noise {i}" for i in range(9)])
    assert len(save(FIGURES["noises"](tables), "svg")) < 700_000


def test_a_radio_signal_is_a_constellation_that_ends_at_twice_the_clean_one(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(2, 300), noises=("gaussian", "affine"))
    figure = FIGURES["noises"](tables)
    (dots,) = figure.axes[1].collections
    noisy = of(tables, "gaussian", 1.0)
    assert np.array_equal(np.asarray(dots.get_offsets()), noisy.T)
    reach = 2 * np.abs(of(tables, "gaussian", 0.0)).max()
    assert np.abs(noisy).max() > reach
    for ax in figure.axes:
        assert ax.get_xlim() == ax.get_ylim() == pytest.approx((-1.05 * reach, 1.05 * reach))
        assert ax.get_aspect() == 1
    assert "go on beyond" in footer(figure)


def test_panels_reach_no_further_than_the_inputs_do(make_tables: MakeTables) -> None:
    tables = make_tables(shape=(2, 300), noises=("gaussian",))
    weak = tables.examples[tables.examples["level"] == 0]
    figure = FIGURES["noises"](replace(tables, examples=weak))
    assert figure.axes[0].get_xlim()[1] == pytest.approx(1.05 * np.abs(of(tables, "gaussian", 0.0)).max())
    assert "beyond" not in footer(figure)


@pytest.mark.parametrize(("shape", "names"), [((5, 400), ["channel 1", "channel 2", "channel 3"]), ((1, 300), [])])
def test_other_signals_are_waveforms(make_tables: MakeTables, shape: tuple[int, ...], names: list[str]) -> None:
    tables = make_tables(shape=shape, noises=("gaussian",))
    figure = FIGURES["noises"](tables)
    drawn = of(tables, "gaussian", 0.0)
    assert len(lines(figure.axes[0])) == min(len(drawn), 3)
    assert (legend_labels(figure) if figure.legends else []) == names
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    assert ("the first 200 of 400 samples" in footer(figure)) == (shape == (5, 400))


@pytest.mark.parametrize(("shape", "columns"), [((3, 8, 8), 6), ((1, 4000), 4), ((2, 64), 4)])
def test_eleven_noises_fill_rows_of_as_many_columns(
    make_tables: MakeTables, shape: tuple[int, ...], columns: int
) -> None:
    figure = FIGURES["noises"](make_tables(shape=shape, noises=[f"noise {i}" for i in range(11)]))
    place = figure.axes[0].get_subplotspec()
    assert place is not None
    assert place.get_gridspec().get_geometry() == (12 // columns, columns)
    assert len(figure.axes) == 12


def test_missing_examples_name_the_command_that_makes_them(make_tables: MakeTables) -> None:
    with pytest.raises(MissingArtifact) as caught:
        FIGURES["noises"](replace(make_tables(), examples=pd.DataFrame()))
    assert caught.value.hint == "vbs noise-sweep --noise gaussian"
