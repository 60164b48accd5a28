"""Stage 5: probabilities and labels -> numbers. Pure, and all metrics come from one pass over the probabilities."""

from vbs_cli.metrics.base import (
    HIGHER,
    LOWER,
    METRICS,
    NEITHER,
    SCORES,
    Metric,
    Scored,
    metric,
    score,
    scored,
    values_of,
)
from vbs_cli.metrics.bootstrap import Bootstrap, Interval, bootstrap
from vbs_cli.metrics.detection import error_detection, risk_coverage
from vbs_cli.metrics.reliability import ReliabilityBins, reliability_bins
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__, "vbs_cli.metrics")

__all__ = [
    "HIGHER",
    "LOWER",
    "METRICS",
    "NEITHER",
    "SCORES",
    "Bootstrap",
    "Interval",
    "Metric",
    "ReliabilityBins",
    "Scored",
    "bootstrap",
    "error_detection",
    "metric",
    "reliability_bins",
    "risk_coverage",
    "score",
    "scored",
    "values_of",
]
