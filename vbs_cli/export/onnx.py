"""ONNX format, for onnxruntime and others that read it, with weights and graph in one file."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from vbs_cli.export.base import FORMATS, Format, Outputs, Predict, any_batch, needed
from vbs_cli.export.module import INPUT, OUTPUTS, Calibrated

LIBRARIES = ("onnx", "onnxscript", "onnxruntime")


def write(model: Calibrated, example: Tensor) -> bytes:
    for library in LIBRARIES:
        needed(library)
    with warnings.catch_warnings(action="ignore"):
        program = torch.onnx.export(
            model,
            (example,),
            input_names=[INPUT],
            output_names=list(OUTPUTS),
            dynamic_shapes=any_batch(),
            external_data=False,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # source locations on this machine
    data: bytes = proto.SerializeToString()
    return data


def opened(data: bytes) -> Predict:
    session = needed("onnxruntime").InferenceSession(data, providers=["CPUExecutionProvider"])

    def predict(x: Tensor) -> Outputs:
        found = session.run(list(OUTPUTS), {INPUT: x.numpy()})
        return {name: torch.from_numpy(value) for name, value in zip(OUTPUTS, found, strict=True)}

    return predict


FORMATS.register("onnx")(Format(suffix="onnx", write=write, open=opened, libraries=LIBRARIES))
