"""Messages between the comparing process and a measuring process, one per line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from vbs_cli.bench.network import BenchNetwork


@dataclass(frozen=True)
class BenchRequest:
    """Contender to be measured, and on what: the first line to a worker, as JSON. Words of COMMANDS follow."""

    network: BenchNetwork
    method: str
    variant: str
    batch: int
    draws: int
    members: int
    device: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BenchRequest:
        values = json.loads(text)
        described = values.pop("network")
        return cls(network=BenchNetwork(**{**described, "shape": tuple(described["shape"])}), **values)


@dataclass(frozen=True)
class Costs:
    """Cost of predicting one batch, except time. Bytes include the weights."""

    memory_bytes: int
    memory_deviation: float
    traced_bytes: int
    allocated_bytes: int
    flops: int
    network_flops: int
    parameters: int


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one prediction: all of it, and the part after the network."""

    whole: float
    after: float


@dataclass(frozen=True)
class Rate:
    """Speed at which this machine multiplies matrices, in FLOPs per second."""

    flops: float


COMMANDS = ("costs", "time", "beside", "gemm")  # each answered by one of the above, as JSON
