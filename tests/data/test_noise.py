"""Noise: one standard draw per example, scaled by the level."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as TF

from vbs_cli.data import NOISES, noise
from vbs_cli.data.noise import KeptDraws, distort, kind_of, noises_for
from vbs_cli.data.noises import paper
from vbs_cli.errors import InvalidInput

PLACE = {"dataset": "radio", "split": "test", "block": 0}
SIZES = [(3, 32, 32), (1, 20, 33), (2, 33, 20)]
FOR_IMAGES = noises_for((3, 32, 32))
SIGNAL_NOISES = ["gaussian", "speckle", "salt-and-pepper"]


def inputs():
    return torch.randn(8, 2, 50, generator=torch.Generator().manual_seed(0))


def images(count=8, shape=(3, 32, 32), dtype=torch.float32):
    return torch.rand((count, *shape), generator=torch.Generator().manual_seed(0), dtype=dtype)


def drawn(name, x, block=0):
    return NOISES[name].draw(x.shape, noise.generator("radio", "test", name, block))


@pytest.fixture
def draws_made(monkeypatch):
    """The names that generators were seeded with, one per draw."""
    made = []
    original = noise.generator
    monkeypatch.setattr(noise, "generator", lambda *names: made.append(names) or original(*names))
    return made


@pytest.mark.parametrize("name", list(NOISES))
def test_level_zero_is_the_identity_bit_for_bit(name):
    for x in (inputs(), images()):
        assert torch.equal(distort(x, noise=name, level=0.0, **PLACE), x)


@pytest.mark.parametrize("level", [-0.1, math.nan, math.inf])
def test_a_level_that_is_negative_or_not_finite_is_refused(level):
    with pytest.raises(InvalidInput, match="finite numbers from 0 on"):
        distort(inputs(), noise="gaussian", level=level, **PLACE)


@pytest.mark.parametrize("name", ["gaussian", "speckle"])
def test_the_draw_depends_on_the_place_and_not_on_the_level(name):
    x = inputs()
    half, full = (distort(x, noise=name, level=level, **PLACE) - x for level in (0.5, 1.0))
    torch.testing.assert_close(2 * half, full, atol=1e-5, rtol=1e-4)
    for other in ({"block": 1}, {"split": "val"}, {"dataset": "cifar10"}):
        elsewhere = distort(x, noise=name, level=1.0, **{**PLACE, **other}) - x
        assert not torch.allclose(full, elsewhere)


def test_gaussian_noise_adds_and_speckle_noise_multiplies():
    x = torch.full((200, 1, 500), 3.0)
    for name, expected in (("gaussian", 0.4), ("speckle", 1.2)):
        added = distort(x, noise=name, level=0.4, **PLACE) - x
        assert added.mean().item() == pytest.approx(0, abs=0.01)
        assert added.std().item() == pytest.approx(expected, rel=0.01)
    silent = torch.zeros(2, 1, 10)
    assert torch.equal(distort(silent, noise="speckle", level=1.0, **PLACE), silent)


def test_gaussian_and_speckle_noise_draw_what_they_drew_before_there_were_others():
    """Runs that were swept then stay what they are."""
    x = inputs()
    eps = {name: torch.randn(x.shape, generator=noise.generator("radio", "test", name, 0)) for name in SIGNAL_NOISES}
    gaussian, speckle = (distort(x, noise=name, level=0.3, **PLACE) for name in ("gaussian", "speckle"))
    assert torch.equal(gaussian, torch.add(x, eps["gaussian"], alpha=0.3))
    assert torch.equal(speckle, torch.addcmul(x, x, eps["speckle"], value=0.3))


@pytest.mark.parametrize(("x", "low", "high"), [(images(64), 0.0, 1.0), (inputs().repeat(40, 1, 10), -1.0, 1.0)])
def test_salt_and_pepper_replace_a_share_by_the_ends_of_the_range_for_all_channels(x, low, high):
    x = 0.01 + 0.98 * x.sigmoid()  # nothing at an end by itself
    for level in (0.1, 0.5, 0.9):
        noisy = distort(x, noise="salt-and-pepper", level=level, **PLACE)
        for end in (low, high):
            replaced = noisy == end
            assert torch.equal(replaced.any(1), replaced.all(1))
            assert replaced.double().mean().item() == pytest.approx(level / 2, abs=0.01)
        kept = (noisy != low) & (noisy != high)
        assert torch.equal(noisy[kept], x[kept])


def test_what_salt_and_pepper_replace_at_a_level_stays_replaced_at_higher_ones():
    x = images().clamp(0.01, 0.99)
    before = torch.zeros_like(x, dtype=torch.bool)
    last = x
    for level in np.linspace(0, 1, 20).tolist():
        noisy = distort(x, noise="salt-and-pepper", level=level, **PLACE)
        replaced = noisy != x
        assert (replaced | ~before).all()
        assert torch.equal(noisy[before], last[before])
        before, last = replaced, noisy
    assert before.all()
    assert torch.equal(distort(x, noise="salt-and-pepper", level=3.0, **PLACE), last)


def torchvision_affine(image, *, level, shear, scale):
    height, width = image.shape[1:]
    moved = TF.affine(
        TF.pad(image, round(0.2 * max(height, width))),
        angle=30 * level,
        translate=[0, 0],
        scale=scale,
        shear=[shear * level, 0.0],
        interpolation=TF.InterpolationMode.NEAREST,
    )
    return TF.center_crop(moved, [height, width])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize(("name", "shear", "zoom"), [("affine", 10, 1), ("affine-no-zoom", 40, 0)])
def test_affine_noise_is_torchvisions_map_of_each_image_pixel_for_pixel(name, shear, zoom, shape, dtype):
    x = images(3, shape, dtype) - 0.5
    for level in np.linspace(0, 1, 20)[1:].tolist():
        expected = [torchvision_affine(image, level=level, shear=shear, scale=1 + zoom * level) for image in x]
        assert torch.equal(distort(x, noise=name, level=level, **PLACE), torch.stack(expected))


def test_what_an_affine_map_takes_from_outside_the_image_is_zero_even_beside_infinity():
    x = torch.full((2, 3, 32, 32), math.inf)
    noisy = distort(x, noise="affine-no-zoom", level=1.0, **PLACE)
    assert set(noisy.unique().tolist()) == {0.0, math.inf}


def elastic_by_loops(x, draw, level, precision):
    """Image by image and pixel by pixel, in numpy's arithmetic of a precision."""
    count, _, height, width = x.shape
    result = np.empty_like(x)
    reach = precision(5 * level)
    for n in range(count):
        for row in range(height):
            for column in range(width):
                to_x = precision(column) + reach * precision(draw[n, 0, row, column])
                to_y = precision(row) + reach * precision(draw[n, 1, row, column])
                to_x, to_y = min(max(to_x, 0), width - 1), min(max(to_y, 0), height - 1)
                result[n, :, row, column] = x[n, :, int(np.rint(to_y)), int(np.rint(to_x))]
    return result


@pytest.mark.parametrize("shape", SIZES)
def test_elastic_noise_takes_the_nearest_pixel_to_where_a_loop_over_pixels_finds_it(shape):
    x = images(4, shape)
    draw = drawn("elastic", x)
    for level in (0.05, 0.5, 1.0):
        noisy = distort(x, noise="elastic", level=level, **PLACE).numpy()
        single, double = (elastic_by_loops(x.numpy(), draw.numpy(), level, p) for p in (np.float32, np.float64))
        np.testing.assert_array_equal(noisy, single)
        assert (noisy == double).mean() > 0.9999


def test_elastic_noise_halfway_between_two_pixels_takes_the_even_one():
    x = torch.arange(6.0).view(1, 1, 1, 6)
    draw = torch.tensor([0.1, 0.1, 0.1, -0.1, -0.1, -0.1]).view(1, 1, 1, 6)
    noisy = NOISES["elastic"].apply(x, torch.cat([draw, torch.zeros_like(draw)], 1), 1.0)
    assert noisy.flatten().tolist() == [0, 2, 2, 2, 4, 4]


@pytest.mark.parametrize("shape", SIZES)
def test_elastic_noise_is_torchvisions_with_its_displacement_clamped_to_the_image(shape):
    x = images(256, shape)
    _, height, width = shape
    place = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy")).double()
    size = torch.tensor([width, height], dtype=torch.float64).view(2, 1, 1)
    for level in (0.3, 1.0):
        target = (place + 5 * level * drawn("elastic", x).double()).clamp(min=0).minimum(size - 1)
        units = (2 * (target - place) / size).float().permute(0, 2, 3, 1)
        pairs = zip(x, units, strict=True)
        theirs = [TF.elastic_transform(i, u[None], interpolation=TF.InterpolationMode.NEAREST) for i, u in pairs]
        equal = distort(x, noise="elastic", level=level, **PLACE) == torch.stack(theirs)
        assert equal.double().mean().item() > 0.9999


def test_elastic_noise_moves_pixels_by_five_at_most_and_all_channels_alike():
    rows, columns = torch.meshgrid(torch.arange(40.0), torch.arange(30.0), indexing="ij")
    x = torch.stack([rows, columns, rows]).expand(16, -1, -1, -1)
    noisy = distort(x, noise="elastic", level=1.0, **PLACE)
    moved = (noisy - x).abs()
    assert moved.amax((0, 2, 3)).tolist() == [5, 5, 5]
    assert torch.equal(noisy[:, 0], noisy[:, 2])
    assert not torch.equal(moved[:, 0], moved[:, 1])


@pytest.mark.parametrize("name", ["affine", "affine-no-zoom", "elastic"])
@pytest.mark.parametrize("shape", [(1, 50), (2, 50), (4, 50)])
def test_noises_for_images_refuse_signals_and_name_those_that_suit_them(name, shape):
    takes = r"(signals take|sound takes|radio takes) gaussian, speckle, salt-and-pepper.*$"
    with pytest.raises(InvalidInput, match=f"^{name} is a noise for images; {takes}"):
        distort(torch.rand(2, *shape), noise=name, level=0.5, **PLACE)


def test_a_level_beyond_the_last_defined_one_is_refused(monkeypatch):
    monkeypatch.setitem(NOISES._entries, "gaussian", replace(NOISES["gaussian"], most=1.0))
    distort(inputs(), noise="gaussian", level=1.0, **PLACE)
    with pytest.raises(InvalidInput, match=r"^gaussian noise has no level 1\.2; its levels end at 1$"):
        distort(inputs(), noise="gaussian", level=1.2, **PLACE)


def test_the_shape_of_inputs_tells_their_kind_and_the_noises_that_suit_it():
    shapes = {(3, 32, 32): "colour images", (1, 28, 28): "images", (1, 800): "sound", (2, 800): "radio"}
    assert {shape: kind_of(shape) for shape in shapes} == shapes
    assert kind_of((6, 800)) == "signals"
    assert noises_for((3, 32, 32))[:6] == [*SIGNAL_NOISES, "affine", "affine-no-zoom", "elastic"]
    assert noises_for((2, 1580))[:3] == SIGNAL_NOISES


@pytest.mark.parametrize("name", FOR_IMAGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_inputs_and_draws_are_left_as_they_were_and_the_type_is_kept(name, dtype):
    x = images(dtype=torch.float64).to(dtype)
    draw = drawn(name, x)
    kept = x.clone(), draw.clone()
    noisy = NOISES[name].apply(x, draw, 1.0)
    assert noisy.dtype == dtype
    assert torch.equal(x, kept[0])
    assert torch.equal(draw, kept[1])


@pytest.mark.parametrize("name", FOR_IMAGES)
def test_inputs_may_lie_in_memory_in_any_order(name):
    x = images()
    shuffled = x.to(memory_format=torch.channels_last)
    a, b = (distort(each, noise=name, level=0.5, **PLACE) for each in (x, shuffled))
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["gaussian", "speckle", "salt-and-pepper", "elastic"])
def test_levels_and_models_share_one_draw_per_block(name, draws_made):
    draws = KeptDraws()
    for _model in range(2):
        for level in (0.0, 0.25, 0.5, 1.0):
            for block, x in enumerate(images(20).split(8)):
                distort(x, noise=name, level=level, **{**PLACE, "block": block}, draws=draws)
    assert draws_made == [("radio", "test", name, block) for block in range(3)]


@pytest.mark.parametrize("name", FOR_IMAGES)
def test_what_is_kept_does_not_show_in_the_results(name):
    blocks = images(20).split(8)
    size = max(drawn(name, blocks[0]).nbytes, 1)

    def swept(draws):
        return [
            distort(x, noise=name, level=level, **{**PLACE, "block": block}, draws=draws)
            for level in (0.2, 0.7)
            for block, x in enumerate(blocks)
        ]

    expected = swept(KeptDraws(bound=0))
    for bound in (size, 2 * size, 100 * size):
        assert all(torch.equal(a, b) for a, b in zip(swept(KeptDraws(bound)), expected, strict=True))


def test_draws_beyond_the_bound_are_drawn_again(draws_made):
    x = images()
    draws = KeptDraws(bound=2 * x.nbytes)
    for level in (0.5, 1.0):
        for block in range(3):
            distort(x, noise="gaussian", level=level, **{**PLACE, "block": block}, draws=draws)
    assert [names[-1] for names in draws_made] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    "other", [{"noise": "speckle"}, {"split": "val"}, {"dataset": "cifar10"}, {"x": images(8, (3, 16, 16))}]
)
def test_draws_of_different_things_are_kept_side_by_side(other, draws_made):
    first = {"x": images(), "noise": "gaussian", "level": 0.5, **PLACE}
    draws = KeptDraws()
    for call, made in ((first, 1), (first, 1), (first | other, 2), (first | other, 2), (first, 2)):
        call = dict(call)
        distort(call.pop("x"), **call, draws=draws)
        assert len(draws_made) == made


def test_a_block_of_another_length_has_a_draw_of_its_own():
    x = images()
    draws = KeptDraws()
    distort(x, noise="gaussian", level=0.5, **PLACE, draws=draws)
    short = distort(x[:3], noise="gaussian", level=0.5, **PLACE, draws=draws)
    assert torch.equal(short, distort(x[:3], noise="gaussian", level=0.5, **PLACE, draws=KeptDraws(bound=0)))


@pytest.mark.parametrize("name", ["speckle", "affine", "elastic"])
def test_what_a_forward_pass_left_serves_where_gradients_are_needed(name):
    draws = KeptDraws()
    paper.affine_sources.cache_clear()
    with torch.inference_mode():
        distort(images(), noise=name, level=0.5, **PLACE, draws=draws)
    x = images().requires_grad_()
    distort(x, noise=name, level=0.5, **PLACE, draws=draws).sum().backward()
    assert x.grad.isfinite().all()
