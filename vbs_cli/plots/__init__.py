"""Tables to figures, and one HTML report. Nothing here opens a run, a model or torch.

A figure is a function `Tables -> Figure` entered in `FIGURES`; a new file in this folder is found by itself.
"""

from vbs_cli.plots.base import FIGURES, Tables, save
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__)

__all__ = ["FIGURES", "Tables", "save"]
