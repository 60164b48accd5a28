"""What a method is: a frozen dataclass whose fitted form is plain JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.registry import Registry

METHODS: Registry[type[Method]] = Registry("method")


@dataclass(frozen=True)
class Method(ABC):
    """Turns the record of a network into probabilities.

    `model` names the network whose record it reads: "conventional" (parts are patches) or "dropout" (parts are draws).
    """

    model: ClassVar[str] = "conventional"

    def fit(self, val: Logits) -> Self:
        """The same method with its rules resolved to numbers on validation data; nothing to learn by default."""
        return self

    @abstractmethod
    def predict_proba(self, record: Logits) -> Tensor:
        """Probabilities (N, K) in float64."""


@dataclass(frozen=True)
class TemperatureMethod(Method):
    """Divides the logits of each example by one positive number, so the predicted class stays as it was."""

    @abstractmethod
    def temperature(self, record: Logits) -> Tensor:
        """The divisor of each example: (N,) in float64."""

    def predict_proba(self, record: Logits) -> Tensor:
        return (record.logits.double() / self.temperature(record)[:, None]).softmax(1)


def need_labels(record: Logits) -> Tensor:
    """The labels to fit on."""
    if record.labels is None:
        raise InvalidInput("fitting needs labels", hint="pass labels= when the record is made")
    return record.labels


def need(value: Tensor | None, what: str) -> Tensor:
    """A part of the record that a method cannot do without."""
    if value is None:
        raise InvalidInput(f"this record has no {what}", hint="make it with from_patches or from_members")
    return value
