"""Format of torch.export itself, for torch.export.load, AOTInductor and ExecuTorch."""

from __future__ import annotations

import io
import warnings

import torch
from torch import Tensor

from vbs_cli.export.base import FORMATS, Format, Predict, any_batch, called
from vbs_cli.export.module import Calibrated


def write(model: Calibrated, example: Tensor) -> bytes:
    with warnings.catch_warnings(action="ignore"):
        program = torch.export.export(model, (example,), dynamic_shapes=any_batch())
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # source locations on this machine
        sink = io.BytesIO()
        torch.export.save(program, sink)
        return sink.getvalue()


def opened(data: bytes) -> Predict:
    with warnings.catch_warnings(action="ignore"):
        module = torch.export.load(io.BytesIO(data)).module()
    return called(module)


FORMATS.register("pt2")(Format(suffix="pt2", write=write, open=opened))
