"""Execution on a few inputs at a time, and on fewer if memory runs out."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from vbs_cli.errors import is_out_of_memory


def within_memory(run: Callable[..., Tensor], chunk: int) -> Tensor:
    """Result of `run(chunk=...)` with chunks of that size, halved until the memory suffices."""
    while True:
        try:
            return run(chunk=chunk)
        except (RuntimeError, MemoryError) as error:
            if chunk == 1 or not is_out_of_memory(error):
                raise
        chunk //= 2
