"""Base classes of methods: frozen dataclasses whose fitted form is plain JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, TypeVar

from torch import Tensor

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import Logits
from vbs_cli.registry import Registry

METHODS: Registry[type[Method]] = Registry("method")
T = TypeVar("T")


@dataclass(frozen=True)
class Method(ABC):
    """Turns records into probabilities, whichever network and view they come from."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of what it needs of a record besides logits and labels: "sigma", "mean_softmax", "activations", ..."""
        return ()

    def fit(self, val: Logits) -> Self:
        """Fit to validation data: return a copy with numbers in place of rules. By default there is nothing to fit."""
        return self

    @abstractmethod
    def predict_proba(self, record: Logits) -> Tensor:
        """Probabilities (N, K) in float64."""


@dataclass(frozen=True)
class TemperatureMethod(Method):
    """Divides the scores of each example by one positive number, so the predicted class stays as it was."""

    @abstractmethod
    def temperature(self, record: Logits) -> Tensor:
        """Divisor of each example's scores: (N,) in float64."""

    def scores(self, record: Logits) -> Tensor:
        """Scores that are divided by the temperature: (N, K) in float64."""
        return record.logits.double()

    def predict_proba(self, record: Logits) -> Tensor:
        return (self.scores(record) / self.temperature(record)[:, None]).softmax(1)


def need_labels(record: Logits) -> Tensor:
    """Labels of a record to fit on, or an error if it has none."""
    if record.labels is None:
        raise InvalidInput("fitting needs labels", hint="pass labels= when the record is made")
    return record.labels


def need(value: Tensor | None, what: str) -> Tensor:
    """Value of a record that a method needs, or an error if it is None."""
    if value is None:
        raise InvalidInput(f"this record has no {what}", hint="make it with from_patches or from_members")
    return value


def need_fitted(value: T | None, what: str) -> T:
    """Value that `fit` sets, or an error if it is None."""
    if value is None:
        raise InvalidInput(f"{what} is not fitted", hint="call fit on validation logits first")
    return value


def need_classes(record: Logits, classes: int, what: str) -> Logits:
    """Record itself, or an error unless it has as many classes as the method was fitted on."""
    if record.classes != classes:
        raise InvalidInput(f"{what} was fitted on {classes} classes, this record has {record.classes}")
    return record
