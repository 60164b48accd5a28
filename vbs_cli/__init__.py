"""vbs: classifier confidences that mean something, from one forward pass.

The public names are resolved on first use, so that importing the package does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vbs_cli.diagnosis import diagnose
    from vbs_cli.logits import Logits, sigma_bar
    from vbs_cli.methods.averaging import Averaging
    from vbs_cli.methods.bbq import BayesianBinning
    from vbs_cli.methods.conventional import Conventional
    from vbs_cli.methods.dirichlet import DirichletCalibration
    from vbs_cli.methods.histogram import HistogramBinning
    from vbs_cli.methods.isotonic import IsotonicCalibration
    from vbs_cli.methods.temperature import TemperatureScaling
    from vbs_cli.methods.variance import VarianceSmoothing
    from vbs_cli.methods.vector import VectorScaling
    from vbs_cli.metrics import bootstrap, error_detection, reliability_bins, score, scored
    from vbs_cli.run import open_run
    from vbs_cli.wrapping.smoothed import wrap

_HOME = {
    "Averaging": "vbs_cli.methods.averaging",
    "BayesianBinning": "vbs_cli.methods.bbq",
    "Conventional": "vbs_cli.methods.conventional",
    "DirichletCalibration": "vbs_cli.methods.dirichlet",
    "HistogramBinning": "vbs_cli.methods.histogram",
    "IsotonicCalibration": "vbs_cli.methods.isotonic",
    "Logits": "vbs_cli.logits",
    "TemperatureScaling": "vbs_cli.methods.temperature",
    "VarianceSmoothing": "vbs_cli.methods.variance",
    "VectorScaling": "vbs_cli.methods.vector",
    "bootstrap": "vbs_cli.metrics",
    "diagnose": "vbs_cli.diagnosis",
    "error_detection": "vbs_cli.metrics",
    "open_run": "vbs_cli.run",
    "reliability_bins": "vbs_cli.metrics",
    "score": "vbs_cli.metrics",
    "scored": "vbs_cli.metrics",
    "sigma_bar": "vbs_cli.logits",
    "wrap": "vbs_cli.wrapping.smoothed",
}

__all__ = [
    "Averaging",
    "BayesianBinning",
    "Conventional",
    "DirichletCalibration",
    "HistogramBinning",
    "IsotonicCalibration",
    "Logits",
    "TemperatureScaling",
    "VarianceSmoothing",
    "VectorScaling",
    "bootstrap",
    "diagnose",
    "error_detection",
    "open_run",
    "reliability_bins",
    "score",
    "scored",
    "sigma_bar",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vbs_cli' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
