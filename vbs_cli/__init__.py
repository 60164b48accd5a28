"""vbs: classifier confidences that mean something, from one forward pass.

The public names are resolved on first use, so that importing the package does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vbs_cli.logits import Logits, sigma_bar
    from vbs_cli.methods.conventional import Conventional
    from vbs_cli.methods.mc_dropout import MCDropout
    from vbs_cli.methods.temperature import TemperatureScaling
    from vbs_cli.methods.variance import VarianceSmoothing
    from vbs_cli.metrics import reliability_bins, score
    from vbs_cli.models.pooled_head import wrap
    from vbs_cli.run import open_run

_HOME = {
    "Conventional": "vbs_cli.methods.conventional",
    "Logits": "vbs_cli.logits",
    "MCDropout": "vbs_cli.methods.mc_dropout",
    "TemperatureScaling": "vbs_cli.methods.temperature",
    "VarianceSmoothing": "vbs_cli.methods.variance",
    "open_run": "vbs_cli.run",
    "reliability_bins": "vbs_cli.metrics",
    "score": "vbs_cli.metrics",
    "sigma_bar": "vbs_cli.logits",
    "wrap": "vbs_cli.models.pooled_head",
}

__all__ = [
    "Conventional",
    "Logits",
    "MCDropout",
    "TemperatureScaling",
    "VarianceSmoothing",
    "open_run",
    "reliability_bins",
    "score",
    "sigma_bar",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vbs_cli' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
