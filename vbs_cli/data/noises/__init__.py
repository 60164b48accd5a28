"""Noises and suites of noises. One file is one kind of cause; a new file registers what it holds by being there."""

from vbs_cli.data.noises import paper
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__)

__all__ = ["paper"]  # imported first, so that lists of noises begin with the paper's
