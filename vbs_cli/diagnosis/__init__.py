"""Judging whether variance-based smoothing fits a network and its data: records -> findings -> a verdict. Pure."""

from vbs_cli.diagnosis.base import Diagnosis, Finding, Records
from vbs_cli.diagnosis.diagnose import diagnose, diagnosed
from vbs_cli.diagnosis.search import Candidate, Grid, gain_of, search, windowed

__all__ = [
    "Candidate",
    "Diagnosis",
    "Finding",
    "Grid",
    "Records",
    "diagnose",
    "diagnosed",
    "gain_of",
    "search",
    "windowed",
]
