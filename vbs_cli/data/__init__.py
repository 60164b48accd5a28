"""Stage 1: files -> Split(x, y). Each dataset has a module of its own; noises are in `noises`."""

from vbs_cli.data.base import DATASETS, SIMULATED, SPLITS, Prepared, Split, described, open_dataset
from vbs_cli.data.noise import NOISES, SUITES, Noise, Suite, noises_for
from vbs_cli.data.preparation import Preparation, Request, Workspace, check_request, prepare
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__, "vbs_cli.datasets", "vbs_cli.noises")

__all__ = [
    "DATASETS",
    "NOISES",
    "SIMULATED",
    "SPLITS",
    "SUITES",
    "Noise",
    "Preparation",
    "Prepared",
    "Request",
    "Split",
    "Suite",
    "Workspace",
    "check_request",
    "described",
    "noises_for",
    "open_dataset",
    "prepare",
]
