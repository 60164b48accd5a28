"""What a format is: how a module becomes bytes, and how those bytes are run."""

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

Outputs = Mapping[str, Tensor]  # by the names of `calibrated.OUTPUTS`
Predict = Callable[[Tensor], Outputs]


@dataclass(frozen=True)
class Format:
    """One file for one runtime."""

    suffix: str
    write: Callable[[Calibrated, Tensor], bytes]  # of a module and a batch of at least two inputs
    open: Callable[[bytes], Predict]
    libraries: tuple[str, ...] = ()  # beside torch


FORMATS: Registry[Format] = Registry("format")


def any_batch() -> dict[str, dict[int, Any]]:
    """The shapes of the inputs as torch.export wants them told: any number of examples, all else as in the example."""
    return {INPUT: {0: torch.export.Dim("batch", min=1)}}


def called(module: Callable[[Tensor], Outputs]) -> Predict:
    """A module that was loaded, without gradients."""

    def predict(x: Tensor) -> Outputs:
        with torch.no_grad():
            return module(x)

    return predict


def needed(library: str) -> Any:
    """A library that only some formats need."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise InvalidInput(f"ONNX needs {library}, which is not here", hint="pip install 'vbs-cli[export]'") from None
