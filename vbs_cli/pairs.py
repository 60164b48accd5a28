"""Pairs of a method and a view, and the names that people know them by.

`vbs@members` is variance-based smoothing of the members of an ensemble, known as `vbs-ensemble`; a method's own name
means the method on patches. Tables and settings use the known name where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import ACTIVATIONS
from vbs_cli.methods import METHODS, Method
from vbs_cli.networks import NETWORKS
from vbs_cli.registry import unknown
from vbs_cli.settings import Settings
from vbs_cli.views import VIEWS

T = TypeVar("T")
AT = "@"  # between a method and a view
USUAL = "patches"  # the view of a method that is named without one
ALL = "all"  # every pair that has a name of its own


@dataclass(frozen=True)
class Pair:
    """A method and the view that it is applied to."""

    method: str
    view: str

    @property
    def name(self) -> str:
        """Name in tables: `vbs`, `mc-dropout`, `vbs-ensemble`, or `bbq@draws` for a pair without a name of its own."""
        alone = self.method if self.view == USUAL else str(self)
        return VIEWS[self.view].names.get(self.method, alone)

    def __str__(self) -> str:
        return f"{self.method}{AT}{self.view}"


def find_pair(name: str) -> Pair:
    """Pair of a known name, of a method's own name, or of METHOD@VIEW."""
    method, at, view = name.partition(AT)
    if at:
        METHODS[method], VIEWS[view]  # either refuses a name that it does not know
        return Pair(method, view)
    if name in METHODS:
        return Pair(name, USUAL)
    known = known_pairs()
    if name not in known:
        raise unknown("method", name, known)
    return known[name]


def known_pairs() -> dict[str, Pair]:
    """Every pair that has a name of its own: methods on patches, and those that a view has a name for."""
    pairs = [Pair(method, USUAL) for method in METHODS]
    pairs += [Pair(method, view) for view, chosen in VIEWS.items() for method in chosen.names]
    return {pair.name: pair for pair in pairs}


def pair_names(names: Iterable[str], first: Iterable[str] = ()) -> tuple[str, ...]:
    """Names as tables use them, each once; "all" stands for every known pair, beginning with those of `first`."""
    spread = [each for name in names for each in ([*first, *known_pairs()] if name == ALL else [name])]
    return tuple(dict.fromkeys(find_pair(name).name for name in spread))


def method_of(pair: Pair, options: Mapping[str, Any]) -> Method:
    """Unfitted method of a pair, with the given options over the view's defaults for it."""
    chosen = METHODS[pair.method]
    return chosen(**{**VIEWS[pair.view].defaults.get(pair.method, {}), **accepted(chosen, options)})


def configured(chosen: type[T], name: str, settings: Settings) -> T:
    """Network or view with its fields set by the options under its name, else by the settings of the same names."""
    names = [field.name for field in fields(chosen)]  # type: ignore[arg-type]
    shared = {field: getattr(settings, field) for field in names if hasattr(settings, field)}
    return chosen(**{**shared, **accepted(chosen, settings.options.get(name, {}))})


def accepted(chosen: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that a method, network or view has a field for."""
    names = {field.name for field in fields(chosen)}
    return {name: value for name, value in options.items() if name in names}


def check_options(options: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse unknown names, unknown options and invalid values, even for what the run does not use."""
    for name, values in options.items():
        owners: list[Any] = [registry[name] for registry in (NETWORKS, VIEWS) if name in registry]
        if not owners or name in known_pairs() or AT in name:
            owners.append(METHODS[find_pair(name).method])
            method_of(find_pair(name), values)
        known = [field.name for owner in owners for field in fields(owner)]
        for option in values:
            if option not in known:
                raise unknown(f"option of {name}", option, known)


def check_extras(pair: Pair, method: Method, *, passes: int) -> None:
    """Refuse a method that reads activations on a view whose network runs several times, or not at all."""
    if ACTIVATIONS in method.reads and (passes != 1 or VIEWS[pair.view].source):
        hint = f"{pair.method}{AT}{USUAL} has them"
        raise InvalidInput(f"{pair} has no activations: it is not one pass of one network", hint=hint)
