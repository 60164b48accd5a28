"""Stage 2: inputs -> patch logits. Every model maps (B, C, *size) to (B, K, *grid)."""

from vbs_cli.models.base import MODELS, build_model
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__, "vbs_cli.models")

__all__ = ["MODELS", "build_model"]
