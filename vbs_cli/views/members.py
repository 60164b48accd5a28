"""Members of an ensemble: the same inputs through the networks of all seeds of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from vbs_cli.logits import Logits
from vbs_cli.views.base import OF_PREDICTIONS, VIEWS, Options, View


@VIEWS.register("members")
@dataclass(frozen=True)
class Members(View):
    """Predictions of the conventional networks of all seeds, taken from the records of their own passes."""

    parts: ClassVar[str] = "members"
    names: ClassVar = {"mean": "ensemble", "vbs": "vbs-ensemble", "temperature": "temperature-ensemble"}
    defaults: ClassVar[Options] = OF_PREDICTIONS
    source: ClassVar[str] = "patches"
    not_one_pass: ClassVar[str] = "it needs the networks of all seeds, and a file holds one"

    def join(self, records: Sequence[Logits], *, spreads: Sequence[str]) -> Logits:
        stacked = torch.stack([record.logits for record in records])
        return Logits.from_members(stacked, labels=records[0].labels, spreads=spreads)
