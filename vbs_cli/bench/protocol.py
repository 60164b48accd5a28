"""What the comparing process and a measuring process say to each other: one JSON object each way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from vbs_cli.bench.network import Network


@dataclass(frozen=True)
class Request:
    """One contender, to be measured."""

    network: Network
    method: str
    variant: str
    batch: int
    draws: int
    repeats: int
    device: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        values = json.loads(text)
        described = values.pop("network")
        return cls(network=Network(**{**described, "shape": tuple(described["shape"])}), **values)


@dataclass(frozen=True)
class Answer:
    """What it costs on one batch."""

    memory_bytes: int
    latency_ms: float
    flops: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Answer:
        return cls(**json.loads(text))
