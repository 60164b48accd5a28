"""Formats of exported files: how a module becomes bytes, and how those bytes are run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.export.module import INPUT, Calibrated
from vbs_cli.registry import Registry

Outputs = Mapping[str, Tensor]  # by the names of `module.OUTPUTS`
Predict = Callable[[Tensor], Outputs]


@dataclass(frozen=True)
class Format:
    """Format of an exported file, for one kind of runtime."""

    suffix: str
    write: Callable[[Calibrated, Tensor], bytes]  # of a module and a batch of at least two inputs
    open: Callable[[bytes], Predict]
    libraries: tuple[str, ...] = ()  # needed besides torch


FORMATS: Registry[Format] = Registry("format")


def any_batch() -> dict[str, dict[int, Any]]:
    """Shapes of the inputs for torch.export: any number of examples, all else as in the example batch."""
    return {INPUT: {0: torch.export.Dim("batch", min=1)}}


def called(module: Callable[[Tensor], Outputs]) -> Predict:
    """Function that calls a loaded module without gradients."""

    def predict(x: Tensor) -> Outputs:
        with torch.no_grad():
            return module(x)

    return predict


def needed(library: str) -> Any:
    """Import a library that only some formats need."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise InvalidInput(f"ONNX needs {library}, which is missing", hint="pip install 'vbs-cli[export]'") from None
