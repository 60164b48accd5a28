"""Check of an exported file against the Python model: largest difference of their outputs on the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from vbs_cli.errors import VbsError
from vbs_cli.export.base import Outputs, Predict
from vbs_cli.export.module import OUTPUTS
from vbs_cli.logits import Logits, spreads_named
from vbs_cli.methods.base import TemperatureMethod
from vbs_cli.models.memory import to_device
from vbs_cli.seeding import generator
from vbs_cli.views.fast import fast

TOLERANCE = 1e-5
BATCHES = (1, 2, 7)
# Patches that agree have a spread of rounding errors; values below this count as this in relative differences.
SMALLEST = 1e-3


def reference(model: nn.Module, method: TemperatureMethod, *, shape: tuple[int, ...], kernel: int) -> Predict:
    """Function that predicts as `vbs evaluate` does: by the fast network, its record and the method in float64."""
    net = fast(model, shape).net
    spread = next(iter(spreads_named(method.reads)), "logits")

    @torch.inference_mode()
    def predict(x: Tensor) -> Outputs:
        record = Logits.from_patches(net(to_device(x)), kernel=kernel, spreads=spreads_named(method.reads))
        values = (method.predict_proba(record), method.temperature(record), record.sigma_of(spread))
        return dict(zip(OUTPUTS, values, strict=True))

    return predict


def random_inputs(shape: tuple[int, ...]) -> Iterator[Tensor]:
    """Random batches of several sizes, as a file must take any, in the range of pixels: (B, *shape)."""
    for batch in BATCHES:
        yield torch.rand(batch, *shape, generator=generator("export", "check", batch))


def differences(predict: Predict, expected: Predict, inputs: Iterable[Tensor]) -> dict[str, float]:
    """Largest difference over all inputs, by output: absolute for probabilities, relative for temperature and sigma."""
    found: dict[str, list[Tensor]] = {name: [torch.zeros((), dtype=torch.float64)] for name in OUTPUTS}
    for x in inputs:
        ours, theirs = expected(x), predict(x)
        for name in OUTPUTS:
            found[name].append(difference(name, theirs[name].double(), ours[name].double()))
    return {name: float(torch.stack(values).max()) for name, values in found.items()}


def difference(name: str, found: Tensor, expected: Tensor) -> Tensor:
    if found.shape != expected.shape:
        raise VbsError(f"the file gives {name} of shape {tuple(found.shape)} instead of {tuple(expected.shape)}")
    scale = 1.0 if name == "probabilities" else expected.abs().clamp(min=SMALLEST)
    return ((found - expected).abs() / scale).max()


def check(apart: dict[str, float]) -> None:
    """Refuse a file with an output that differs from the model's by more than TOLERANCE, or by NaN."""
    for name, value in apart.items():
        if not value <= TOLERANCE:
            why = f"the file's {name} are apart from the model's by {value:.1e}, more than {TOLERANCE:.0e}"
            raise VbsError(why, hint="nothing was written; try another format")
