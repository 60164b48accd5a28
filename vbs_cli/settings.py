"""The settings of a run, and how a user overrides them by flag, variable or file."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from vbs_cli.errors import DamagedArtifact, InvalidInput, MissingArtifact
from vbs_cli.registry import unknown

Options = Mapping[str, Mapping[str, Any]]


CHOICES = {"select": ("last", "best"), "precision": ("auto", "float32", "bfloat16")}


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result of a run."""

    dataset: str
    profile: str
    model: str
    seeds: int
    width: int
    epochs: int
    batch: int
    lr: float
    weight_decay: float
    dropout: float  # rate in the MC-dropout network, after every ReLU
    draws: int  # passes of MC-dropout at inference
    kernel: int  # window of neighbouring patches that the spread is taken over
    methods: tuple[str, ...]
    noises: tuple[str, ...]
    levels: int  # of the sweeps of `vbs run`, evenly from 0 to max_level
    max_level: float
    reliability_bins: int
    shifts: tuple[str, ...] = ()  # names of second test sets of the user's own
    patience: int = 0  # epochs without a better validation loss after which a training stops; 0 is never
    select: str = "last"  # the weights that are evaluated: those of the last epoch, or of the best
    precision: str = "auto"  # of training: bfloat16 where a GPU has it; or float32, or bfloat16
    compile: bool = False  # train through torch.compile
    threads: int = 1  # of one network on a CPU; networks run in parallel
    tuned_on: str = ""  # noise that the options were chosen under, which summaries then leave out
    weights: str = ""  # sha256 of the file of weights of a network that was trained elsewhere
    options: Options = field(default_factory=dict)  # of single methods, e.g. {"vbs": {"alpha": 1.0}}

    def __post_init__(self) -> None:
        for name in ("seeds", "width", "epochs", "batch", "kernel", "reliability_bins", "threads"):
            bounded(self, name, at_least=1)
        for name in ("draws", "levels"):
            bounded(self, name, at_least=2)
        for name in ("lr", "max_level"):
            bounded(self, name, above=0)
        for name in ("weight_decay", "patience"):
            bounded(self, name, at_least=0)
        bounded(self, "dropout", above=0, below=1)
        if not self.methods:
            raise InvalidInput(
                "no method is named", hint="methods are names by commas, such as conventional,vbs, or all"
            )
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise unknown(name, getattr(self, name), choices)

    @property
    def given(self) -> bool:
        """Whether the run is on logits given by the user, so that there is no network."""
        return self.model == GIVEN

    def level_values(self) -> list[float]:
        """The levels of a sweep, rounded so that 0.1 + 0.2 is 0.3."""
        return [round(self.max_level * i / (self.levels - 1), 6) for i in range(self.levels)]


def bounded(
    settings: Settings, name: str, *, at_least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> None:
    """Refuse a setting that is not a finite number within bounds; the error states them."""
    value = getattr(settings, name)
    if math.isfinite(value) and value >= at_least and above < value < below:
        return
    bounds = [f"at least {at_least:g}"] if at_least > -math.inf else []
    bounds += [f"above {above:g}"] if above > -math.inf else []
    bounds += [f"below {below:g}"] if below < math.inf else []
    raise InvalidInput(f"{name} is {value}", hint=f"it must be {' and '.join(bounds)}")


PAPER_METHODS = ("conventional", "temperature", "vbs", "mc-dropout")
GIVEN = "given"  # the model of a run on logits given by the user

# Common settings of the paper's protocols; the module of each dataset has the rest.
PAPER = Settings(
    dataset="",
    profile="paper",
    model="auto",
    seeds=10,
    width=512,
    epochs=30,
    batch=32,
    lr=1e-3,
    weight_decay=0.0,
    dropout=0.5,
    draws=10,
    kernel=1,
    methods=PAPER_METHODS,
    noises=("gaussian", "speckle"),
    levels=20,
    max_level=1.0,
    reliability_bins=10,
    options={"vbs": {"alpha": 1.0, "beta": "mean+0.5"}},
)


def given_settings(flags: Mapping[str, Any], config: Path | None = None) -> dict[str, Any]:
    """Settings given by the user, by precedence: flag, `VBS_*` variable, config file. A flag of None was not given."""
    return {
        **(read_toml(config) if config else {}),
        **from_environment(os.environ),
        **{name: value for name, value in flags.items() if value is not None},
    }


def override(base: Settings, changes: Mapping[str, Any]) -> Settings:
    """Settings like `base` with some values changed, each coerced to the type of the value that it replaces."""
    known = {f.name for f in fields(Settings)}
    for name in changes:
        if name not in known:
            raise unknown("setting", name, sorted(known))
    return replace(base, **{name: coerce(name, getattr(base, name), value) for name, value in changes.items()})


def coerce(name: str, current: Any, value: Any) -> Any:
    """Convert `value` to the type of `current`, from text of the environment or lists of TOML."""
    if isinstance(current, tuple):
        items = value.split(",") if isinstance(value, str) else list(value)
        return tuple(dict.fromkeys(text for item in items if (text := str(item).strip())))
    if isinstance(current, Mapping):
        return {method: {**current.get(method, {}), **options} for method, options in {**current, **value}.items()}
    if isinstance(current, bool):
        return truth(name, value)
    try:
        if isinstance(current, int) and float(value) != int(float(value)):
            raise ValueError
        return type(current)(value)
    except (TypeError, ValueError):
        kind = "a whole number" if isinstance(current, int) else "a number"
        raise InvalidInput(f"{name} is {value!r}", hint=f"it must be {kind}") from None


def truth(name: str, value: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if str(value).lower() not in words:
        raise InvalidInput(f"{name} is {value!r}", hint="it must be true or false")
    return words[str(value).lower()]


def assignments(texts: Iterable[str], flags: Mapping[str, Any]) -> dict[str, str]:
    """Settings from `--set NAME=VALUE`; a name given twice, or by its own flag too, is refused."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (word.strip() for word in text.partition("="))
        name = name.replace("-", "_")
        if not equals or name == "options":
            hint = "write NAME=VALUE, such as weight_decay=1e-4; options of methods are set by calibrate --option"
            raise InvalidInput(f"--set {text}", hint=hint)
        if name in found or flags.get(name) is not None:
            raise InvalidInput(f"{name} is given twice", hint="leave one of them out")
        found[name] = value
    return found


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings from variables such as VBS_EPOCHS=5."""
    names = {f"VBS_{f.name.upper()}": f.name for f in fields(Settings) if f.name != "options"}
    return {names[key]: value for key, value in environment.items() if key in names}


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingArtifact(f"no settings at {path}", hint="give --config a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DamagedArtifact(f"{path} is not valid TOML: {error}", hint="mend or remove it") from None


def to_toml(settings: Settings) -> bytes:
    return tomli_w.dumps(asdict(settings)).encode()
