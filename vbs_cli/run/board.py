"""Training curves for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vbs_cli import files
from vbs_cli.errors import InvalidInput
from vbs_cli.networks.training import Epoch

CURVES = ("loss", "accuracy", "val_loss", "val_accuracy", "speed")


class Board:
    """TensorBoard curves of one network: its past epochs, then each new one. Nothing is written unless `wanted`."""

    def __init__(self, folder: Path, history: Iterable[Epoch], *, wanted: bool) -> None:
        self.writer: Any = None
        if not wanted:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InvalidInput("--tensorboard needs tensorboard", hint="pip install 'vbs-cli[tensorboard]'") from None
        files.clear_folder(folder)  # otherwise events of an interrupted training would be there twice
        self.writer = SummaryWriter(folder)
        for epoch in history:
            self.add(epoch)

    def add(self, epoch: Epoch) -> None:
        if self.writer is not None:
            for curve in CURVES:
                self.writer.add_scalar(curve, getattr(epoch, curve), epoch.epoch)
            self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
