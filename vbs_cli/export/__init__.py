"""Stage 9: a calibrated model as a file that runs without vbs, and the check that its outputs are the same."""

from vbs_cli.export.base import FORMATS
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__)

__all__ = ["FORMATS"]
