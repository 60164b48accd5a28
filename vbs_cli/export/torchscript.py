"""TorchScript format, for libtorch and for Python environments with torch alone."""

from __future__ import annotations

import io
import warnings

import torch
from torch import Tensor

from vbs_cli.export.base import FORMATS, Format, Predict, called
from vbs_cli.export.module import Calibrated


def write(model: Calibrated, example: Tensor) -> bytes:
    # Torch warns that the format is an old one, and that the number of patches becomes a constant, which is intended.
    with warnings.catch_warnings(action="ignore"):
        sink = io.BytesIO()
        # The outputs are a dictionary, which only a trace that is not strict may return.
        torch.jit.save(torch.jit.trace(model, (example,), strict=False), sink)  # type: ignore[no-untyped-call]
        return sink.getvalue()


def opened(data: bytes) -> Predict:
    with warnings.catch_warnings(action="ignore"):
        module = torch.jit.load(io.BytesIO(data), map_location="cpu")  # type: ignore[no-untyped-call]
    return called(module)


FORMATS.register("torchscript")(Format(suffix="torchscript", write=write, open=opened))
