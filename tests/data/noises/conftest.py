"""Pictures of the tests of noises, real and made."""

import pytest

from .pictures import from_archive, smooth


@pytest.fixture(params=["smooth", pytest.param("real", marks=pytest.mark.outside_data("cifar10-images.tar.xz"))])
def levels(request):
    """A dozen colour images in 256 levels: (12, 32, 32, 3)."""
    return smooth() if request.param == "smooth" else from_archive(request.getfixturevalue("outside_data"))
