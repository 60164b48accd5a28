"""Stage 8: cost of a prediction. Memory, latency and FLOPs of each method on one batch, side by side."""

from vbs_cli.bench.compare import COLUMNS, bench
from vbs_cli.bench.contenders import CONTENDERS
from vbs_cli.bench.network import BenchNetwork

__all__ = ["COLUMNS", "CONTENDERS", "BenchNetwork", "bench"]
