"""What the comparing process and a measuring process say to each other: one line of JSON each way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from vbs_cli.bench.network import Network


@dataclass(frozen=True)
class Request:
    """One contender, to be measured. The first line to a worker; words of COMMANDS follow."""

    network: Network
    method: str
    variant: str
    batch: int
    draws: int
    members: int
    device: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        values = json.loads(text)
        described = values.pop("network")
        return cls(network=Network(**{**described, "shape": tuple(described["shape"])}), **values)


@dataclass(frozen=True)
class Costs:
    """What a prediction of one batch takes, besides time. Bytes, weights included."""

    memory_bytes: int
    memory_deviation: float
    traced_bytes: int
    allocated_bytes: int
    flops: int
    network_flops: int
    parameters: int


@dataclass(frozen=True)
class Timing:
    """One prediction, in milliseconds: all of it, and what came after the network."""

    whole: float
    after: float


@dataclass(frozen=True)
class Rate:
    """How fast this machine multiplies matrices, in FLOPs per second."""

    flops: float


COMMANDS = ("costs", "time", "beside", "gemm")  # each answered by one of the above
