"""Image files: RGB pixels of one size, or an error that names the file."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

from tests.fixtures.datasets import noise, write_image
from vbs_cli.data import images
from vbs_cli.data.images import BadImage, ImageReading, read_pixels
from vbs_cli.data.preparation import Example
from vbs_cli.errors import VbsError


def examples(paths):
    return [Example(path, number, path.name) for number, path in enumerate(paths)]


def read_all(paths, left_out=None, **options):
    reading = ImageReading(**options)
    shape, like = reading.shape(examples(paths))
    batches = list(
        reading.batches(examples(paths), Counter() if left_out is None else left_out, shape=shape, like=like)
    )
    x = np.concatenate([batch.x for batch in batches])
    return x, [label for batch in batches for label in batch.y], [name for batch in batches for name in batch.ids]


@pytest.mark.parametrize("name", ["a.png", "a.PNG", "a.webp"])
def test_lossless_files_give_their_very_pixels(tmp_path, name):
    options = {"lossless": True} if name.endswith("webp") else {}
    pixels = noise(1, 9, 7)
    x, _, _ = read_all([write_image(tmp_path / name, pixels, **options)])
    assert x.dtype == np.uint8
    assert np.array_equal(x[0], pixels.transpose(2, 0, 1))


def test_a_jpeg_gives_nearly_its_pixels(tmp_path):
    pixels = np.full((16, 16, 3), (200, 100, 50), np.uint8)
    x = read_pixels(write_image(tmp_path / "a.jpeg", pixels, quality=95))
    assert np.abs(x.astype(int) - pixels).max() < 6


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1"])
def test_grey_palette_and_transparent_files_become_rgb(tmp_path, mode):
    image = Image.fromarray(noise(2)).convert(mode)
    image.save(tmp_path / "a.png")
    assert np.array_equal(read_pixels(tmp_path / "a.png"), np.asarray(image.convert("RGB")))


def test_transparency_is_dropped_not_blended(tmp_path):
    pixels = np.dstack([noise(3), np.arange(64, dtype=np.uint8).reshape(8, 8)])
    assert np.array_equal(read_pixels(write_image(tmp_path / "a.png", pixels)), pixels[..., :3])


def test_sixteen_bits_of_grey_are_scaled_not_cut_off(tmp_path):
    wide = np.array([[0, 255, 257 * 128, 65535]], np.uint16)
    x = read_pixels(write_image(tmp_path / "a.png", wide))
    assert x[0].tolist() == [[0] * 3, [1] * 3, [128] * 3, [255] * 3]


def test_of_an_animation_the_first_image_is_taken(tmp_path):
    first, second = (Image.fromarray(np.full((4, 4), value, np.uint8)) for value in (10, 200))
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second])
    assert (read_pixels(tmp_path / "a.gif") == 10).all()


def test_photographs_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[274] = 6  # the camera was held sideways
    pixels = noise(4, 8, 16)
    path = write_image(tmp_path / "a.png", pixels, exif=exif)
    assert np.array_equal(read_pixels(path), np.rot90(pixels, -1))


def test_the_shorter_side_is_resized_and_the_middle_kept(tmp_path):
    flat = np.zeros((20, 40, 3), np.uint8)
    flat[:, 15:25] = 255
    path = write_image(tmp_path / "a.png", flat)
    assert read_pixels(path, size=10, crop=4).shape == (4, 4, 3)
    assert (read_pixels(path, size=20, crop=8) == 255).all()
    assert np.array_equal(read_pixels(path, size=10), read_pixels(path, size=10, crop=10))


def test_resizing_averages_rather_than_picking_pixels(tmp_path):
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    x = read_pixels(write_image(tmp_path / "a.png", board), size=8)
    assert np.abs(x.astype(int) - 127).max() < 12


def test_a_crop_alone_keeps_the_very_pixels_of_the_middle(tmp_path):
    pixels = noise(5, 9, 12)
    x, _, _ = read_all([write_image(tmp_path / "a.png", pixels)], crop=5)
    assert np.array_equal(x[0].transpose(1, 2, 0), pixels[2:7, 3:8])


def test_order_labels_and_names_are_kept_over_threads_and_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "BATCH", 5)
    paths = [write_image(tmp_path / f"{n}.png", noise(n)) for n in range(13)]
    x, y, ids = read_all(paths)
    assert y == list(range(13))
    assert ids == [f"{n}.png" for n in range(13)]
    assert all(np.array_equal(x[n].transpose(1, 2, 0), noise(n)) for n in range(13))


def test_different_sizes_name_two_files_and_the_cure(tmp_path):
    paths = [write_image(tmp_path / "a.png", noise(1, 30, 20)), write_image(tmp_path / "b.png", noise(2, 32, 32))]
    wanted = r"images have different sizes: .*a\.png is 20 x 30, .*b\.png 32 x 32; --size 64 resizes and crops them"
    with pytest.raises(VbsError, match=wanted):
        read_all(paths)
    x, _, _ = read_all(paths, size=16)
    assert x.shape == (2, 3, 16, 16)


def damages():
    return {"cut off": lambda b: b[: len(b) // 2], "another": lambda b: b"hello", "empty": lambda b: b""}


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp"])
@pytest.mark.parametrize("damage", damages())
def test_a_damaged_file_is_named_or_left_out_and_counted(tmp_path, suffix, damage):
    paths = [write_image(tmp_path / f"{n}.{suffix}", noise(n)) for n in range(3)]
    paths[1].write_bytes(damages()[damage](paths[1].read_bytes()))
    with pytest.raises(BadImage, match=rf"1\.{suffix} is damaged.*; --skip-bad leaves such files out and counts them"):
        read_all(paths)
    left_out: Counter[str] = Counter()
    assert read_all(paths, left_out, skip_bad=True)[1] == [0, 2]
    assert left_out == {"damaged": 1}


def test_a_flipped_bit_in_a_png_is_found_or_does_no_harm(tmp_path):
    pixels = noise(1)
    path = write_image(tmp_path / "a.png", pixels)
    whole = path.read_bytes()
    for place in range(len(whole)):
        broken = bytearray(whole)
        broken[place] ^= 4
        path.write_bytes(broken)
        try:
            found = read_pixels(path)
        except BadImage:
            continue
        assert np.array_equal(found, pixels), place


def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(BadImage, match=r"a\.png is damaged"):
        read_pixels(write_image(tmp_path / "a.png", noise(1)))


@pytest.mark.parametrize(("height", "width"), [(9, 5), (5, 9)])
def test_an_image_smaller_than_the_crop_is_named_or_left_out(tmp_path, height, width):
    paths = [write_image(tmp_path / "a.png", noise(1, 9, 9)), write_image(tmp_path / "b.png", noise(2, height, width))]
    with pytest.raises(BadImage, match=rf"b\.png is {width} x {height}, smaller than the crop of 8 x 8; --skip-bad"):
        read_all(paths, crop=8)
    left_out: Counter[str] = Counter()
    assert read_all(paths, left_out, crop=8, skip_bad=True)[1] == [0]
    assert left_out == {"smaller than the crop": 1}


def test_nothing_readable_at_all_is_an_error_even_when_bad_files_are_skipped(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(VbsError, match="none of 1 images can be read"):
        read_all([tmp_path / "a.png"], skip_bad=True)
