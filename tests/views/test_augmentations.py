"""Test-time augmentation: what changes, what must not, and that changing nothing is the conventional network."""

import math

import pytest
import torch
import torchvision.transforms.functional as TF

from vbs_cli import Averaging
from vbs_cli.data import base, open_dataset
from vbs_cli.data.noise import distort
from vbs_cli.models import build_model
from vbs_cli.views import Place
from vbs_cli.views.augmentations import Augmentations, change_image, change_signal, rotated
from vbs_cli.views.patches import Patches
from vbs_cli.views.walk import walk

PLACE = Place(seed=0, split="test", block=0)


@pytest.fixture
def split(made):
    return open_dataset(made / "data", "radio").split("test")


@pytest.fixture
def model():
    torch.manual_seed(0)
    net = build_model("conv1d-radio", shape=(2, 200), classes=4, width=6)
    net(torch.randn(32, 2, 200))  # give BatchNorm statistics
    return net.eval()


SHAPES = [(3, 16, 24), (1, 16, 16), (1, 64), (2, 64), (5, 64)]  # images, sound, radio, other signals


def inputs(*shape, seed=0):
    return torch.rand(5, *shape, generator=torch.Generator().manual_seed(seed))


def test_copies_that_change_nothing_are_the_conventional_network_bit_for_bit(split, model):
    [plain] = walk(model, split, Patches(kernel=3))
    [record] = walk(model, split, Augmentations(count=4, strength=0.0), keep_parts=True)
    for copy in range(4):
        assert torch.equal(record.parts[:, :, copy], plain.logits)
    assert torch.equal(record.logits, plain.logits)
    assert record.sigma.max() < 1e-6
    expected = plain.logits.double().softmax(1)
    torch.testing.assert_close(Averaging().predict_proba(record), expected, rtol=1e-6, atol=1e-7)


def test_the_first_copy_is_the_input_itself(split, model):
    [plain] = walk(model, split, Patches(kernel=3))
    [record] = walk(model, split, Augmentations(count=3), keep_parts=True)
    assert torch.equal(record.parts[:, :, 0], plain.logits)
    assert not torch.equal(record.parts[:, :, 1], plain.logits)
    assert record.sigma.min() > 0


def noisy(x, block, level):
    return distort(x, noise="gaussian", level=level, dataset="radio", split="test", block=block)


@pytest.mark.parametrize("level", [0.0, 0.3])
@torch.inference_mode()
def test_the_prediction_is_the_mean_softmax_over_the_copies_of_each_block(split, model, level, monkeypatch):
    monkeypatch.setattr(base, "BLOCK", 40)  # 70 examples: 40 + 30
    view = Augmentations(count=3)
    [record] = walk(model, split, view, noises=["gaussian"], level=level, keep_parts=True)
    parts = []
    for block, x in enumerate(split.inputs(slice(None)).split(40)):
        given, place = noisy(x, block, level), Place(seed=0, split="test", block=block)
        copies = [given, *(view.changed(given, place, copy) for copy in (1, 2))]
        parts.append(torch.stack([model(copy).mean(2) for copy in copies], 2))
    expected = torch.cat(parts)
    torch.testing.assert_close(record.parts, expected, rtol=1e-4, atol=1e-5)
    mean = expected.double().softmax(1).mean(2)
    torch.testing.assert_close(Averaging().predict_proba(record), mean, rtol=1e-4, atol=1e-5)


def test_copies_depend_on_split_and_block_and_not_on_the_networks_seed():
    view, x = Augmentations(), inputs(2, 64)
    again = view.changed(x, Place(seed=7, split="test", block=0), 1)
    assert torch.equal(view.changed(x, PLACE, 1), again)
    for other in (Place(0, "val", 0), Place(0, "test", 1)):
        assert not torch.equal(view.changed(x, other, 1), again)
    assert not torch.equal(view.changed(x, PLACE, 2), again)


@pytest.mark.parametrize("shape", SHAPES)
def test_noise_is_changed_as_the_input_beneath_it(shape):
    """A change is linear in what it is made on, and drawn without a look at it."""
    view, x, noise = Augmentations(), inputs(*shape).double(), inputs(*shape, seed=1).double()
    together = view.changed(x + noise, PLACE, 1)
    torch.testing.assert_close(together, view.changed(x, PLACE, 1) + view.changed(noise, PLACE, 1))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_strength_of_zero_changes_no_bit(shape):
    x = inputs(*shape)
    assert torch.equal(Augmentations(strength=0.0).changed(x, PLACE, 1), x)


@pytest.mark.parametrize("shape", SHAPES)
def test_copies_keep_shape_and_type_and_leave_the_input_alone(shape):
    x = inputs(*shape)
    before = x.clone()
    changed = Augmentations().changed(x, PLACE, 1)
    assert changed.shape == x.shape
    assert changed.dtype == x.dtype
    assert torch.equal(x, before)
    assert not torch.equal(changed, x)


def test_images_are_mirrored_and_shifted_as_torchvision_does():
    x = inputs(3, 16, 24)
    rng = torch.Generator().manual_seed(3)
    changed = change_image(x, 1.0, rng)
    again = torch.Generator().manual_seed(3)
    tops, lefts = (torch.randint(0, 2 * reach + 1, (5, 1), generator=again).flatten() for reach in (2, 3))
    mirrored = torch.rand(5, generator=again) < 0.5
    assert mirrored.any()
    assert not mirrored.all()
    for image, top, left, mirror, result in zip(x, tops, lefts, mirrored, changed, strict=True):
        expected = TF.crop(TF.pad(image, [3, 2, 3, 2], padding_mode="reflect"), int(top), int(left), 16, 24)
        assert torch.equal(result, TF.hflip(expected) if mirror else expected)


@pytest.mark.parametrize(("strength", "reach"), [(1.0, 8), (0.5, 4), (0.25, 2)])
def test_signals_are_shifted_cyclically_by_up_to_an_eighth_of_their_length_times_the_strength(strength, reach):
    x = torch.arange(64.0).expand(400, 3, 64)
    changed = change_signal(x, strength, torch.Generator().manual_seed(0))
    shifts = (changed[:, 0, 0] + 32) % 64 - 32
    assert set(shifts.tolist()) == set(range(-reach, reach + 1))
    for signal, shift in zip(changed, shifts, strict=True):
        assert torch.equal(signal, x[0].roll(-int(shift), dims=1))


@pytest.mark.parametrize(("strength", "reach"), [(1.0, (2, 3)), (0.5, (1, 2))])
def test_images_are_shifted_by_up_to_an_eighth_of_their_size_times_the_strength(strength, reach):
    """Each pixel is told by its row and its column, and those of the middle by no reflection."""
    grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(24.0), indexing="ij"))
    changed = change_image(grid.expand(400, 2, 16, 24), strength, torch.Generator().manual_seed(0))
    rows, columns = changed[:, 0, 8, 12] - 8, changed[:, 1, 8, 12]
    mirrored = changed[:, 1, 8, 13] < columns
    assert 150 < mirrored.sum() < 250
    assert set(rows.tolist()) == set(range(-reach[0], reach[0] + 1))
    for centre, some in ((11, mirrored), (12, ~mirrored)):
        assert set((columns[some] - centre).tolist()) == set(range(-reach[1], reach[1] + 1))


def test_radio_signals_keep_their_power_and_turn_as_complex_numbers_do():
    x, angle = inputs(2, 64), torch.linspace(-math.pi, math.pi, 5)
    turned = torch.complex(x[:, 0], x[:, 1]) * torch.exp(1j * angle)[:, None]
    result = rotated(x, angle)
    torch.testing.assert_close(torch.complex(result[:, 0], result[:, 1]), turned)
    power = change_signal(x, 1.0, torch.Generator().manual_seed(0)).square().sum((1, 2))
    torch.testing.assert_close(power, x.square().sum((1, 2)))


def test_sound_changes_its_gain_by_six_decibels_at_most():
    x = inputs(1, 64)
    changed = change_signal(x, 1.0, torch.Generator().manual_seed(0))
    decibels = 10 * torch.log10(changed.square().sum((1, 2)) / x.square().sum((1, 2)))
    assert decibels.abs().max() <= 6
    assert decibels.std() > 0.5


@pytest.mark.parametrize("options", [{"count": 1}, {"strength": -0.1}, {"strength": 1.5}])
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="augmentations"):
        Augmentations(**options)
