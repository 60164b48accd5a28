"""Record that every method reads: mean and spread of several sub-predictions of each input.

Patches of a feature map, dropout draws and ensemble members differ only in where they come from. Each is a tensor
of *parts* (N, K, *grid): N examples, K classes, and one or two axes of S sub-predictions in all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vbs_cli.errors import InvalidInput, NotFinite
from vbs_cli.registry import unknown

# Functions of the window-pooled parts (N, K, S) that the spread can be taken of.
SPREADS: dict[str, Callable[[Tensor], Tensor]] = {
    "logits": lambda windows: windows,
    "softmax": lambda windows: windows.softmax(1),
    "relu": torch.relu,
    "softplus": F.softplus,
    "exp": lambda windows: windows.double().exp(),
}

ACTIVATIONS = "activations"  # methods ask by it for summaries of intermediate activations, one extra per layer


@dataclass(frozen=True, eq=False)
class Logits:
    """Scores of N examples and the spread of the sub-predictions behind them."""

    logits: Tensor  # (N, K), the mean over all parts
    sigma: Tensor | None = None  # (N,), sigma_bar over the window-pooled parts
    labels: Tensor | None = None  # (N,)
    mean_softmax: Tensor | None = None  # (N, K), mean over the window-pooled parts of their softmax
    part_accuracy: Tensor | None = None  # (N,), share of single parts that are right
    parts: Tensor | None = None  # (N, K, *grid), if they were kept
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # further summaries, (N, ...) each

    def __post_init__(self) -> None:
        check_logits(self.logits)
        if self.labels is not None:
            check_labels(self.labels, examples=len(self), classes=self.classes)

    def __len__(self) -> int:
        return self.logits.shape[0]

    @property
    def classes(self) -> int:
        return self.logits.shape[1]

    @classmethod
    def from_logits(cls, logits: Any, *, labels: Any = None) -> Logits:
        """Record of plain logits (N, K); methods that need a spread refuse it."""
        return cls(as_tensor(logits), labels=as_labels(labels))

    @classmethod
    def from_patches(
        cls,
        patches: Any,
        *,
        labels: Any = None,
        kernel: int = 1,
        spreads: Sequence[str] = (),
        keep_parts: bool = False,
    ) -> Logits:
        """Record of patch logits (N, K, T) or (N, K, H, W), the layout that a convolution returns.

        `kernel` is the window that neighbouring patches are averaged over (stride 1, no padding) before their
        spread is taken; `logits` are always the mean over the single patches. `spreads` names further functions of
        SPREADS whose spread the record is to have.
        """
        z = check_parts(as_tensor(patches))
        plain = cls.from_logits(pool(z), labels=labels)
        sums, centre, size = window_sums(z, kernel)
        windows = torch.add(centre, sums, alpha=1 / size)
        return replace(
            plain,
            sigma=check_spread(deviation(sums) / size, "logits"),
            mean_softmax=windows.softmax(1).mean(2),
            part_accuracy=None if plain.labels is None else right_parts(z, plain.labels),
            parts=z if keep_parts else None,
            extras={spread_name(of): spread_of(windows, of) for of in spreads},
        )

    @classmethod
    def from_members(
        cls, members: Any, *, labels: Any = None, spreads: Sequence[str] = (), keep_parts: bool = False
    ) -> Logits:
        """Record of the logits of M ensemble members or dropout draws, (M, N, K)."""
        z = as_tensor(members)
        if z.ndim != 3:
            raise InvalidInput(f"members have shape {tuple(z.shape)}", hint="expected (M, N, K)")
        return cls.from_patches(z.permute(1, 2, 0), labels=labels, spreads=spreads, keep_parts=keep_parts)

    def at_kernel(self, kernel: int, *, spreads: Sequence[str] = ()) -> Logits:
        """Record with its spreads taken over another window; needs the parts."""
        if self.parts is None:
            raise InvalidInput("this record keeps no parts", hint="make it with keep_parts=True")
        record = Logits.from_patches(self.parts, labels=self.labels, kernel=kernel, spreads=spreads, keep_parts=True)
        others = {name: value for name, value in self.extras.items() if name not in map(spread_name, SPREADS)}
        return replace(record, extras={**others, **record.extras})

    def sigma_of(self, spread: str) -> Tensor:
        """sigma_bar of the logits or of another function of them, (N,)."""
        found = self.sigma if spread == "logits" else self.extras.get(spread_name(spread))
        if found is None:
            how = "" if spread == "logits" else f" and spreads=({spread!r},)"
            raise InvalidInput(f"this record has no spread of {spread}", hint=f"make it with from_patches{how}")
        return found

    @property
    def activations(self) -> list[Tensor]:
        """Summaries of intermediate activations, (N, 2C) per tapped layer from the first to the last."""
        places = sorted(int(name.rpartition(".")[2]) for name in self.extras if name.startswith(f"{ACTIVATIONS}."))
        if not places:
            raise InvalidInput("this record has no activations", hint="only a pass of a convolutional network has them")
        return [self.extras[activations_name(place)] for place in places]

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the record by name; the inverse of `from_tensors`."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extras"}
        return {name: value for name, value in {**named, **self.extras}.items() if value is not None}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Logits:
        """Record with these tensors; names that are not fields become extras."""
        known = {f.name for f in fields(cls)} - {"extras"}
        named = {name: value for name, value in tensors.items() if name in known}
        return cls(**named, extras={name: value for name, value in tensors.items() if name not in known})

    @classmethod
    def concat(cls, records: Sequence[Logits]) -> Logits:
        """Join records of consecutive examples into one."""
        columns = [record.tensors() for record in records]
        return cls.from_tensors({name: torch.cat([column[name] for column in columns]) for name in columns[0]})


def sigma_bar(patches: Any, kernel: int = 1, *, spread: str = "logits") -> Tensor:
    """Class mean of the sample standard deviation over window-pooled patches: (N, K, *grid) -> (N,).

    The paper's equations 4 and 5 (left); `spread` takes it of another function of the logits, one of SPREADS.
    """
    if spread not in SPREADS:
        raise unknown("spread", spread, SPREADS)
    sigma = spread_over(check_parts(as_tensor(patches)), kernel, spread=spread)
    return sigma if spread == "logits" else check_spread(sigma, spread)


def spread_over(z: Tensor, kernel: int, *, spread: str) -> Tensor:
    """sigma_bar without a check for overflow: a GPU would have to wait for it, and a compiled graph would break."""
    sums, centre, size = window_sums(z, kernel)
    if spread == "logits":
        return deviation(sums) / size
    return deviation(SPREADS[spread](torch.add(centre, sums, alpha=1 / size)))


def deviation(windows: Tensor) -> Tensor:
    """Sample standard deviation over windows, mean over classes: (N, K, S) -> (N,).

    Computed as a norm of deviations, ten times as fast as torch's own standard deviation.
    """
    deviations = windows - windows.mean(2, keepdim=True)
    norms: Tensor = torch.linalg.vector_norm(deviations, dim=2)
    return norms.mean(1) / math.sqrt(windows.shape[2] - 1)


def spread_of(windows: Tensor, spread: str) -> Tensor:
    """sigma_bar of a function of the windows: (N, K, S) -> (N,)."""
    if spread not in SPREADS:
        raise unknown("spread", spread, SPREADS)
    return check_spread(deviation(SPREADS[spread](windows)), spread)


def spread_name(spread: str) -> str:
    """Name under which a record keeps sigma_bar of a function of the logits: "sigma", "sigma_softmax"."""
    return "sigma" if spread == "logits" else f"sigma_{spread}"


def activations_name(place: int) -> str:
    """Name under which a record keeps the summaries of a layer, by its place among the tapped ones."""
    return f"{ACTIVATIONS}.{place}"


def spreads_named(names: Iterable[str]) -> list[str]:
    """Keys of SPREADS, other than the logits, whose spread is among these names of a record's tensors."""
    wanted = set(names)
    return [spread for spread in SPREADS if spread != "logits" and spread_name(spread) in wanted]


def check_spread(sigma: Tensor, spread: str) -> Tensor:
    """Refuse a spread that has overflowed, as that of exp does for large logits."""
    if not torch.isfinite(sigma).all():
        raise NotFinite(f"the spread of {spread} overflows", hint="scale the logits down, or take that of softmax")
    return sigma


def pool(z: Tensor) -> Tensor:
    """Average over all parts, the classifier's final pooling: (N, K, *grid) -> (N, K)."""
    return z.flatten(2).mean(2)


def window_sums(z: Tensor, kernel: int) -> tuple[Tensor, Tensor, int]:
    """Sums over windows of `kernel` neighbours less the mean over all parts, that mean, and the size of a window.

    (N, K, *grid) -> (N, K, S), (N, K, 1), number; stride 1, no padding, so T' = T - kernel + 1. Sums slide along each
    axis as differences of running sums, which the subtraction of the mean keeps small and so exact.
    """
    check_kernel(kernel, grid=z.shape[2:])
    centre = pool(z).unsqueeze(2)
    windows = z - centre.view(*centre.shape[:2], *(1 for _ in z.shape[2:]))
    if kernel > 1:
        for axis in range(2, z.ndim):
            windows = sliding_sums(windows, kernel, axis)
    return windows.flatten(2), centre, kernel ** (z.ndim - 2)


def sliding_sums(z: Tensor, kernel: int, axis: int) -> Tensor:
    """Sums over `kernel` neighbours along an axis, which shrinks by kernel - 1."""
    running = z.cumsum(axis)
    rest = z.shape[axis] - kernel
    sums = running.narrow(axis, kernel - 1, rest + 1).clone()
    sums.narrow(axis, 1, rest).sub_(running.narrow(axis, 0, rest))
    return sums


def check_kernel(kernel: int, *, grid: Sequence[int]) -> None:
    """Refuse a window that is empty, too long, or leaves a single sub-prediction."""
    if kernel < 1:
        raise InvalidInput(f"kernel is {kernel}", hint="it must be at least 1")
    if kernel > min(grid):
        raise InvalidInput(f"kernel {kernel} is longer than the {min(grid)} patches")
    if math.prod([size - kernel + 1 for size in grid]) < 2:
        why = "one sub-prediction has no standard deviation"
        raise InvalidInput(why, hint="use a smaller kernel" if kernel > 1 else "give at least two patches or members")


def right_parts(z: Tensor, labels: Tensor) -> Tensor:
    """Share of single parts whose largest score is the label's: (N, K, *grid), (N,) -> (N,)."""
    # The indices of max are those of argmax, in a quarter of its time.
    return (z.flatten(2).max(1).indices == labels[:, None]).to(z.dtype).mean(1)


def as_tensor(values: Any) -> Tensor:
    """Floating-point tensor of at least single precision, from torch or numpy."""
    tensor = torch.as_tensor(values).detach()
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def as_labels(labels: Any) -> Tensor | None:
    """Class indices as int64, or None."""
    if labels is None:
        return None
    tensor = torch.as_tensor(labels)
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise InvalidInput(f"labels are {tensor.dtype}", hint="expected class indices, integers from 0 to K - 1")
    return tensor.long()


def check_parts(z: Tensor) -> Tensor:
    if z.ndim not in (3, 4):
        raise InvalidInput(f"patch logits have shape {tuple(z.shape)}", hint="expected (N, K, T) or (N, K, H, W)")
    return z


def check_logits(logits: Tensor, *, start: int = 0) -> None:
    """Refuse scores that cannot be a classifier's logits; the first example is number `start` of its split."""
    if logits.ndim != 2:
        raise InvalidInput(f"logits have shape {tuple(logits.shape)}", hint="expected (N, K)")
    examples, classes = logits.shape
    if examples == 0:
        raise InvalidInput("there are no examples", hint="give a split with at least one")
    if classes < 2:
        raise InvalidInput(f"there are {classes} classes", hint="a classifier has at least two")
    bad = (~torch.isfinite(logits)).any(1)
    if bad.any():
        first, count = start + int(bad.nonzero()[0]), int(bad.sum())
        raise NotFinite(f"NaN or infinite logits in {count} of {examples} examples, the first is {first}")
    if (logits >= 0).all() and ((logits.double().sum(1) - 1).abs() < 1e-4).all():
        raise InvalidInput("these rows look like probabilities", hint="give the logits, before the softmax")


def check_labels(labels: Tensor, *, examples: int, classes: int) -> None:
    if labels.shape != (examples,):
        raise InvalidInput(f"labels have shape {tuple(labels.shape)}", hint=f"expected ({examples},)")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InvalidInput(f"labels go from {low} to {high}", hint=f"expected 0 to {classes - 1}")
