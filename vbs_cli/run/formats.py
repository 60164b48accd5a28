"""Artifacts as bytes: tensors as safetensors, tables as parquet with page checksums. Never a pickle."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
from torch import Tensor

from vbs_cli.errors import DamagedArtifact
from vbs_cli.logits import Logits
from vbs_cli.models.training import Checkpoint, Epoch

T = TypeVar("T")


def table_bytes(table: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), sink, write_page_checksum=True)
    return sink.getvalue()


def table_from(data: bytes) -> pd.DataFrame:
    def read() -> pd.DataFrame:
        table: pd.DataFrame = pq.read_table(io.BytesIO(data), page_checksum_verification=True).to_pandas()
        return table

    return parsed(read, "parquet table")


def tensors_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    contiguous = {name: value.contiguous() for name, value in tensors.items()}
    return safetensors.torch.save(contiguous, metadata=dict(metadata or {}))


def tensors_from(data: bytes) -> dict[str, Tensor]:
    return parsed(lambda: safetensors.torch.load(data), "safetensors file")


def logits_bytes(record: Logits) -> bytes:
    return tensors_bytes(record.tensors())


def logits_from(data: bytes) -> Logits:
    return Logits.from_tensors(tensors_from(data))


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    """Weights, optimiser, best weights (where they are others) and history in one file."""
    parts = {"weights": checkpoint.weights, "optimizer": checkpoint.optimizer}
    if checkpoint.best is not checkpoint.weights:
        parts["best"] = checkpoint.best
    tensors = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    history = json.dumps([vars(epoch) for epoch in checkpoint.history])
    return tensors_bytes(tensors, {"history": history})


def checkpoint_from(data: bytes) -> Checkpoint:
    tensors = tensors_from(data)

    def below(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

    # The header of a safetensors file: its length in eight bytes, then JSON.
    size = int.from_bytes(data[:8], "little")
    history = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["history"])
    weights = below("weights.")
    return Checkpoint(weights, below("optimizer."), below("best.") or weights, tuple(Epoch(**row) for row in history))


def parsed(parse: Callable[[], T], what: str) -> T:
    """The hash has been checked before, so a file that cannot be read was written by something else."""
    try:
        return parse()
    except Exception as error:
        raise DamagedArtifact(f"not a valid {what}: {error}", hint="remove it and run again") from error
