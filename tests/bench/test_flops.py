"""The formulas against numbers that count what is done to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest

from vbs_cli.bench import flops
from vbs_cli.bench.flops import Head

HEADS = [
    Head(classes=3, grid=(7,), kernel=1),
    Head(classes=3, grid=(7,), kernel=3),
    Head(classes=4, grid=(3, 5), kernel=2, passes=3),
]


class Counted:
    """A number; every operation on it is counted."""

    done = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def operate(self, value: float) -> Counted:
        Counted.done += 1
        return Counted(value)

    def __add__(self, other: Counted) -> Counted:
        return self.operate(self.value + other.value)

    def __sub__(self, other: Counted) -> Counted:
        return self.operate(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        return self.operate(self.value * other.value)

    def __truediv__(self, other: Counted) -> Counted:
        return self.operate(self.value / other.value)

    def larger(self, other: Counted) -> Counted:
        return self.operate(max(self.value, other.value))

    def root(self) -> Counted:
        return self.operate(math.sqrt(self.value))

    def exp(self) -> Counted:
        return self.operate(math.exp(self.value))


Numbers = Sequence[Counted]
Patches = list[dict[tuple[int, ...], Counted]]  # for each class, by position


def total(values: Numbers) -> Counted:
    first, *rest = values
    for value in rest:
        first = first + value
    return first


def mean(values: Numbers) -> Counted:
    return total(values) / Counted(len(values))


def std(values: Numbers) -> Counted:
    centre = mean(values)
    deviations = [value - centre for value in values]
    return (total([d * d for d in deviations]) / Counted(len(values) - 1)).root()


def softmax(values: Numbers) -> Numbers:
    top, *rest = values
    for value in rest:
        top = top.larger(value)
    powers = [(value - top).exp() for value in values]
    whole = total(powers)
    return [power / whole for power in powers]


def windows(patches: dict[tuple[int, ...], Counted], head: Head) -> Numbers:
    centre = mean(list(patches.values()))
    values = {at: value - centre for at, value in patches.items()}
    if head.kernel == 1:
        return list(values.values())
    for axis in range(len(head.grid)):
        values = slide(values, head.kernel, axis)
    return [value / Counted(head.kernel ** len(head.grid)) for value in values.values()]


def slide(values: dict[tuple[int, ...], Counted], kernel: int, axis: int) -> dict[tuple[int, ...], Counted]:
    """Sums along an axis as differences of running sums, the first of which is nothing yet."""
    running: dict[tuple[int, ...], Counted] = {}
    for at in sorted(values):
        before = (*at[:axis], at[axis] - 1, *at[axis + 1 :])
        running[at] = running[before] + values[at] if before in running else values[at]
    sums = {}
    for at, value in running.items():
        start = at[axis] - kernel + 1
        if start >= 0:
            behind = running.get((*at[:axis], start - 1, *at[axis + 1 :]), Counted(0.0))
            sums[(*at[:axis], start, *at[axis + 1 :])] = value - behind
    return sums


def some_patches(head: Head) -> Patches:
    positions = list(itertools.product(*(range(size) for size in head.grid)))
    return [{at: Counted(math.sin(k + 2 * sum(at))) for at in positions} for k in range(head.classes)]


def pooled(patches: Patches) -> Numbers:
    return [mean(list(one.values())) for one in patches]


def conventional(head: Head) -> None:
    softmax(pooled(some_patches(head)))


def temperature(head: Head) -> None:
    softmax([value / Counted(1.5) for value in pooled(some_patches(head))])


def vbs(head: Head) -> None:
    patches = some_patches(head)
    sigma = mean([std(windows(one, head)) for one in patches])
    divisor = (Counted(2.0) * (sigma + Counted(0.5))).larger(Counted(1.0))
    softmax([value / divisor for value in pooled(patches)])


def naive(head: Head) -> None:
    by_class = []
    for patches in some_patches(head):
        centre = Counted(0.5)  # which the windows have taken already
        by_class.append([value + centre for value in windows(patches, head)])
    softmaxes = [softmax(window) for window in zip(*by_class, strict=True)]
    for values in zip(*softmaxes, strict=True):
        mean(values)


def average(head: Head) -> None:
    passes = [softmax(pooled(some_patches(head))) for _ in range(head.passes)]
    for values in zip(*passes, strict=True):
        mean(values)


@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize(
    ("formula", "work"),
    [
        (flops.conventional_flops, conventional),
        (flops.temperature_flops, temperature),
        (flops.vbs_flops, vbs),
        (flops.naive_flops, naive),
        (flops.average_flops, average),
    ],
)
def test_a_formula_counts_every_operation(
    formula: Callable[[Head], int], work: Callable[[Head], None], head: Head
) -> None:
    before = Counted.done
    work(head)
    assert formula(head) == Counted.done - before


def test_the_radio_window_leaves_seventy_windows() -> None:
    assert Head(classes=20, grid=(79,), kernel=10).windows == 70
