"""Estimate of the memory that a comparison needs, so that it is refused before the machine starts to swap."""

from __future__ import annotations

import math
import os
import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vbs_cli.bench.contenders import CONTENDERS, Contender
from vbs_cli.bench.network import BenchNetwork
from vbs_cli.errors import VbsError
from vbs_cli.files import format_size
from vbs_cli.logits import sigma_bar
from vbs_cli.models import MODELS
from vbs_cli.views.fast import largest_layer

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")

# Besides a layer's input and output, a dropout holds its mask and a product, and a convolution its own copies.
# Measured with the radio network: 1.1 (conventional) to 1.7 (dropouts on) times input and output.
WORKSPACE = 2


@dataclass(frozen=True)
class Footprint:
    """Memory of a network, in bytes."""

    weights: int  # of one network
    example: int  # one input
    layer: int  # input and output of the largest layer, for one example

    def needed(self, batch: int, *, copies: int = 1, networks: int = 1) -> int:
        """Bytes for a batch that is repeated `copies` times before it enters a network, one of `networks` in memory."""
        passing = batch * copies * (self.example + WORKSPACE * self.layer)
        return networks * self.weights + batch * self.example + passing


def check_memory(network: BenchNetwork, *, batch: int, draws: int, members: int, device: str) -> None:
    """Refuse a batch for which the contender that needs most memory would not fit, and a network that cannot run."""
    footprint = dry_run(network)

    def needed(contender: Contender) -> int:
        copies = draws if contender.all_draws_at_once else 1
        return footprint.needed(batch, copies=copies, networks=contender.networks(members))

    worst = max(CONTENDERS, key=needed)
    available = available_bytes(device)
    if needed(worst) > available:
        raise VbsError(
            f"{worst.name} on a batch of {batch} needs about {format_size(needed(worst))} of memory,"
            f" and {format_size(available)} are free",
            hint="choose a smaller --batch",
        )


def dry_run(network: BenchNetwork) -> Footprint:
    """Memory of a network, by a pass of one example on meta tensors, which have no data."""
    # Torchvision's networks check themselves while they are built, which needs numbers.
    with torch.device("meta") if network.model in MODELS else nullcontext():
        model = network.build(dropout=True).to("meta")
    x = torch.empty(1, *network.shape, device="meta")
    with torch.inference_mode():
        sigma_bar(model(x), network.kernel)  # refuses a window that is longer than the patches
    weights = sum(size(parameter) for parameter in model.parameters())
    return Footprint(weights, example=size(x), layer=largest_layer(model, network.shape))


def size(tensor: Tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def available_bytes(device: str) -> float:
    """Memory that can be taken without swapping; infinite if the system does not report it."""
    if torch.device(device).type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return min(free_of_machine(), free_of_container())


def free_of_machine() -> float:
    """Free memory and caches that can be dropped, or free memory alone if the system does not report caches."""
    if MEMINFO.exists():
        found = re.search(r"^MemAvailable:\s+(\d+) kB$", MEMINFO.read_text(), flags=re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows and macOS
        return math.inf


def free_of_container() -> float:
    """Memory that a container's limit (cgroup v2) leaves; infinite without one."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
    except OSError:
        return math.inf
    return math.inf if limit == "max" else max(0, int(limit) - used)
