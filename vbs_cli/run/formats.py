"""Artifacts as bytes: tensors as safetensors, tables as parquet with page checksums. Never a pickle."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
from torch import Tensor

from vbs_cli.errors import DamagedArtifact
from vbs_cli.logits import Logits
from vbs_cli.networks.training import Checkpoint, Epoch

T = TypeVar("T")
NOTES = "vbs"  # key of vbs's entry in the metadata of a file


def table_bytes(table: pd.DataFrame, notes: Mapping[str, str] | None = None) -> bytes:
    """Table as bytes of a parquet file, with notes in its metadata."""
    columns = pa.Table.from_pandas(table, preserve_index=False)
    if notes is not None:
        columns = columns.replace_schema_metadata({**columns.schema.metadata, NOTES: json.dumps(notes, sort_keys=True)})
    sink = io.BytesIO()
    pq.write_table(columns, sink, write_page_checksum=True)
    return sink.getvalue()


def table_from(data: bytes) -> pd.DataFrame:
    def read() -> pd.DataFrame:
        table: pd.DataFrame = pq.read_table(io.BytesIO(data), page_checksum_verification=True).to_pandas()
        return table

    return parsed(read, "parquet table")


def table_notes(data: bytes) -> dict[str, str]:
    """Notes in the metadata of a table, empty if there are none."""

    def read() -> dict[str, str]:
        notes: dict[str, str] = json.loads(pq.read_schema(io.BytesIO(data)).metadata.get(NOTES.encode(), b"{}"))
        return notes

    return parsed(read, "parquet table")


def tensors_bytes(tensors: Mapping[str, Tensor], notes: Any = None) -> bytes:
    """Tensors as bytes of a safetensors file, with notes as JSON in its metadata."""
    contiguous = {name: value.contiguous() for name, value in tensors.items()}
    # One entry, since safetensors writes several in any order, and the same notes must give the same bytes.
    metadata = {} if notes is None else {NOTES: json.dumps(notes, sort_keys=True)}
    return safetensors.torch.save(contiguous, metadata=metadata)


def tensors_from(data: bytes) -> dict[str, Tensor]:
    return parsed(lambda: safetensors.torch.load(data), "safetensors file")


def tensors_notes(data: bytes) -> Any:
    """Notes in the metadata of a safetensors file, whose first eight bytes give the length of its JSON header."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8 : 8 + size])["__metadata__"][NOTES])


def logits_bytes(record: Logits) -> bytes:
    return tensors_bytes(record.tensors())


def logits_from(data: bytes) -> Logits:
    return Logits.from_tensors(tensors_from(data))


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    """Bytes of a checkpoint: weights, optimiser, best weights (if different), the network's memory and the history."""
    parts = {"weights": checkpoint.weights, "optimizer": checkpoint.optimizer, "memory": checkpoint.memory}
    if checkpoint.best is not checkpoint.weights:
        parts["best"] = checkpoint.best
    tensors = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    return tensors_bytes(tensors, notes=[vars(epoch) for epoch in checkpoint.history])


def checkpoint_from(data: bytes) -> Checkpoint:
    tensors = tensors_from(data)

    def below(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

    history = tuple(Epoch(**row) for row in tensors_notes(data))
    weights = below("weights.")
    return Checkpoint(weights, below("optimizer."), below("best.") or weights, history, below("memory."))


def parsed(parse: Callable[[], T], what: str) -> T:
    """Run a parser and report any error as damage: the hash was checked before, so something else wrote the file."""
    try:
        return parse()
    except Exception as error:
        raise DamagedArtifact(f"not a valid {what}: {error}", hint="remove it and run again") from error
