"""Networks that are trained: how each is built, its loss, and the training loop. One file is one network."""

from vbs_cli.networks.base import NETWORKS, Network
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__, "vbs_cli.networks")

__all__ = ["NETWORKS", "Network"]
