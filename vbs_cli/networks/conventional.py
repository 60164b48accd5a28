"""Conventional classifier, trained by cross entropy on the pooled patch logits."""

from __future__ import annotations

from dataclasses import dataclass

from vbs_cli.networks.base import NETWORKS, Network


@NETWORKS.register("conventional")
@dataclass(frozen=True)
class ConventionalNetwork(Network):
    """Conventional network, without dropout at test time; its patches are the sub-predictions."""
