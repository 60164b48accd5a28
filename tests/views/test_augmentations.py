"""Test-time augmentation: what changes, what must not, and that changing nothing is the conventional network."""

import math

import pytest
import torch
import torchvision.transforms.functional as TF

from vbs_cli import Averaging, Logits
from vbs_cli.data import open_dataset
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


def test_the_prediction_is_the_mean_softmax_over_the_copies(split, model):
    view = Augmentations(count=3)
    [record] = walk(model, split, view)
    x = split.inputs(slice(None))
    with torch.inference_mode():
        copies = [x, *(view.changed(x, PLACE, copy) for copy in (1, 2))]
        expected = torch.stack([model(copy).mean(2).double().softmax(1) for copy in copies]).mean(0)
    torch.testing.assert_close(Averaging().predict_proba(record), expected, rtol=1e-4, atol=1e-5)


def test_copies_depend_on_split_and_block_and_not_on_the_networks_seed():
    view, x = Augmentations(), inputs(2, 64)
    again = view.changed(x, Place(seed=7, split="test", block=0), 1)
    assert torch.equal(view.changed(x, PLACE, 1), again)
    for other in (Place(0, "val", 0), Place(0, "test", 1)):
        assert not torch.equal(view.changed(x, other, 1), again)
    assert not torch.equal(view.changed(x, PLACE, 2), again)


@pytest.mark.parametrize("shape", [(3, 16, 24), (1, 16, 16), (1, 64), (2, 64), (5, 64)])
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


def test_the_record_is_the_same_whatever_the_noise_does_to_other_blocks(split, model):
    [clean] = walk(model, split, Augmentations(count=2))
    [noisy] = walk(model, split, Augmentations(count=2), noises=["gaussian"], level=0.3)
    assert isinstance(noisy, Logits)
    assert not torch.equal(clean.logits, noisy.logits)
