"""Smoothing around a trained classifier of the user's own.

The public function `vbs_cli.wrap` has the name of this package, and any import from the package puts the package in the
function's place. So the package can be called like the function.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from torch import nn

from vbs_cli.wrap import smoothed


class Callable(ModuleType):
    """Package that can be called like its function `wrap`."""

    def __call__(self, net: nn.Module, **options: Any) -> smoothed.Smoothed:
        return smoothed.wrap(net, **options)


sys.modules[__name__].__class__ = Callable
