"""Stage 1: bytes -> Split(x, y). One file is one dataset; noises are in `noise`."""

from vbs_cli.data.base import DATASETS, SIMULATED, Preparation, Prepared, Split, described, open_dataset, prepare
from vbs_cli.data.noise import NOISES, Noise
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__)

__all__ = [
    "DATASETS",
    "NOISES",
    "SIMULATED",
    "Noise",
    "Preparation",
    "Prepared",
    "Split",
    "described",
    "open_dataset",
    "prepare",
]
