"""Figures from tables. Nothing here opens a run, a network or torch.

A figure is a function `Tables -> Figure` entered by `@drawn` with its name and the tables that it reads; a new file in
this folder is found automatically.
"""

from vbs_cli.plots.base import FIGURES, FORMATS, READS, Tables, save
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__, "vbs_cli.figures")

__all__ = ["FIGURES", "FORMATS", "READS", "Tables", "save"]
