"""Lines and notes of the tables that `vbs bench` shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vbs_cli.registry import join_names

Rows = Sequence[Mapping[Any, Any]]
COST_COLUMNS = ("method", "variant", "memory", "ratio", "summed", "latency", "ratio", "FLOPs", "ratio")
DETAIL_COLUMNS = ("method", "variant", "traced", "deviation", "p95", "an example", "examples/s", "after", "parameters")
KERNEL_COLUMNS = ("kernel", "size", "reference", "vbs", "the other", "ratio", "max diff")
SCALING_COLUMNS = ("against", "value", "method", "latency", "after", "memory", "FLOPs")
EXPONENT_COLUMNS = ("grows with", "method", "latency", "after", "memory", "FLOPs")
SCALING_NOTE = "as vbs runs them; powers: of what is varied, by which each cost grows"
AGREE = 0.1  # relative difference up to which resident and traced memory count as equal
COST_NOTE = (
    "memory: weights and the peak of a prediction beyond the loaded program (traced: by torch's allocator; deviation: "
    "over repeats); summed: all allocations added up, as the paper did, as a ratio; latency: median of a batch; after: "
    "what of it follows the network; ratios: to the conventional prediction as the paper ran it"
)
VARIANT_NOTE = (
    "paper: the plain network on the whole batch, all draws at once, all members in memory; vbs: its fast form on a "
    "few inputs at a time, one draw or member after another"
)


def cost_lines(costs: Iterable[Mapping[Any, Any]]) -> list[list[str]]:
    """Lines of COST_COLUMNS, each cost followed by its ratio to the conventional prediction."""
    return [
        [
            row["method"],
            row["variant"],
            f"{row['memory_bytes'] / 1e6:.1f} MB",
            f"{row['memory_ratio']:.3f}",
            f"{row['allocated_ratio']:.2f}",
            f"{row['latency_ms']:.1f} ms",
            f"{row['latency_ratio']:.3f}",
            f"{row['flops'] / 1e9:.3f} G",
            f"{row['flops_ratio']:.4f}",
        ]
        for row in costs
    ]


def detail_lines(costs: Iterable[Mapping[Any, Any]]) -> list[list[str]]:
    """Lines of DETAIL_COLUMNS, with the further measurements of the bench."""
    return [
        [
            row["method"],
            row["variant"],
            f"{row['traced_bytes'] / 1e6:.1f} MB",
            f"{row['memory_deviation'] / 1e6:.1f} MB",
            f"{row['latency_p95_ms']:.1f} ms",
            f"{row['example_ms']:.3f} ms",
            f"{row['throughput']:,.0f}",
            f"{row['after_ms']:.2f} ms",
            f"{row['parameters'] / 1e6:.3g} M",
        ]
        for row in costs
    ]


def cost_notes(costs: Rows) -> list[str]:
    """Notes on the columns, on the speed of the machine, and on how far two measurements of memory agree."""
    return [VARIANT_NOTE, COST_NOTE, *gemm_note(costs), *memory_note(costs)]


def gemm_note(costs: Rows) -> list[str]:
    """Note on the speed of the network relative to matrix products, if both variants of it were measured."""
    of = {row["variant"]: row for row in costs if row["method"] == "conventional"}
    if not {"paper", "vbs"} <= set(of):
        return []
    rate = max(row["gemm_flops"] for row in of.values())
    shares = [f"{100 * of[variant]['gemm_share']:.0f} % of that ({variant})" for variant in ("paper", "vbs")]
    return [f"matrix products run at {rate / 1e9:,.0f} GFLOP/s here; the conventional network at {join_names(shares)}"]


def memory_note(costs: Rows) -> list[str]:
    """Note on the methods whose resident and traced memory differ, or that all agree."""
    apart = [row for row in costs if abs(row["traced_bytes"] / row["memory_bytes"] - 1) > AGREE]
    differing = [
        f"{row['method']} ({row['variant']}) {row['memory_bytes'] / 1e6:.1f} and {row['traced_bytes'] / 1e6:.1f} MB"
        for row in apart
    ]
    both, limit = "resident set and torch's own trace of its allocations", f"{100 * AGREE:.0f} %"
    return [
        f"{both} differ by more than {limit}: {join_names(differing)}" if differing else f"{both} agree within {limit}"
    ]


def kernel_lines(kernels: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Lines of KERNEL_COLUMNS; a dash where there was nothing to measure or compare."""

    def format_value(value: float | None, form: str) -> str:
        return "-" if value is None or math.isnan(value) else form.format(value)

    return [
        [
            row["kernel"],
            row["size"],
            row["rival"],
            format_value(row["ours_ms"], "{:.3g} ms"),
            format_value(row["rival_ms"], "{:.3g} ms"),
            format_value(row["ratio"], "{:.3g}"),
            format_value(row["max_diff"], "{:.1g}"),
        ]
        for row in kernels
    ]


def scaling_lines(rows: Rows) -> list[list[str]]:
    """Lines of SCALING_COLUMNS, one per measurement of `vbs bench --scaling`."""
    return [
        [
            row["against"],
            f"{row['value']:,}",
            row["method"],
            f"{row['latency_ms']:.1f} ms",
            f"{row['after_ms']:.2f} ms",
            f"{row['memory_bytes'] / 1e6:.1f} MB",
            f"{row['flops'] / 1e9:.3f} G",
        ]
        for row in rows
    ]


def exponent_lines(rows: Rows) -> list[list[str]]:
    """Lines of EXPONENT_COLUMNS: the exponents by which costs grow."""
    return [
        [
            row["against"],
            row["method"],
            *(f"{row[name]:.2f}" for name in ("latency_ms", "after_ms", "memory_bytes", "flops")),
        ]
        for row in rows
    ]
