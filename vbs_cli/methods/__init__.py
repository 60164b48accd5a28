"""Stage 4: Logits -> probabilities. Pure: tensors in, tensors out. One file is one method."""

from vbs_cli.methods.base import METHODS, Method, TemperatureMethod
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__, "vbs_cli.methods")

__all__ = ["METHODS", "Method", "TemperatureMethod"]
