"""What is trained: how a network is built, the loss that it learns by, how training goes. One file is one network."""

from vbs_cli.networks.base import NETWORKS, Network
from vbs_cli.registry import load_submodules

load_submodules(__name__, __path__, "vbs_cli.networks")

__all__ = ["NETWORKS", "Network"]
