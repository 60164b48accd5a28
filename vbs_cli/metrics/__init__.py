"""Stage 5: probabilities and labels -> numbers. Pure, and all metrics come from one pass over the probabilities."""

from vbs_cli.metrics.base import METRICS, Scored, score, scored
from vbs_cli.metrics.reliability import ReliabilityBins, reliability_bins
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__)

__all__ = ["METRICS", "ReliabilityBins", "Scored", "reliability_bins", "score", "scored"]
