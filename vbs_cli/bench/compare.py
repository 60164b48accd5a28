"""Measure every contender in a process of its own and put the costs side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from vbs_cli.bench.contenders import CONTENDERS
from vbs_cli.bench.estimate import check_memory
from vbs_cli.bench.network import Network
from vbs_cli.bench.protocol import Answer, Request
from vbs_cli.errors import InvalidInput, VbsError

COLUMNS = (
    "method",
    "variant",
    "memory_bytes",
    "memory_ratio",
    "latency_ms",
    "latency_ratio",
    "flops",
    "flops_ratio",
)
WORKER = "vbs_cli.bench.worker"
SOURCE = Path(__file__).parents[2]  # the folder that holds the package


def bench(
    network: Network,
    *,
    batch: int,
    draws: int = 10,
    repeats: int = 30,
    device: str = "cpu",
    advance: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Rows of COLUMNS, one for each contender: what it costs to predict one batch, gradients off.

    Memory is the peak beyond program, model and input; latency is a median over `repeats`; the ratios are to
    conventional. `advance(1)` is called after each measurement, once for every row.
    """
    check_arguments(network, batch=batch, draws=draws, repeats=repeats, device=device)
    check_memory(network, batch=batch, draws=draws, device=device)
    answers = []
    for contender in CONTENDERS:
        answers.append(ask(Request(network, contender.method, contender.variant, batch, draws, repeats, device)))
        advance(1)
    base = answers[0]
    return [
        {"method": contender.method, "variant": contender.variant, **costs(answer, base)}
        for contender, answer in zip(CONTENDERS, answers, strict=True)
    ]


def check_arguments(network: Network, *, batch: int, draws: int, repeats: int, device: str) -> None:
    """Refuse what cannot be measured."""
    if batch < 1:
        raise InvalidInput(f"the batch is {batch}", hint="--batch must be at least 1")
    if draws < 2:
        raise InvalidInput(f"there are {draws} draws", hint="MC-dropout averages at least 2")
    if repeats < 1:
        raise InvalidInput(f"there are {repeats} repeats", hint="a median needs at least 1")
    if not 0 < network.dropout < 1:
        raise InvalidInput(f"dropout is {network.dropout}", hint="MC-dropout needs one between 0 and 1")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise VbsError("there is no CUDA device", hint="use --device cpu")


def ask(request: Request) -> Answer:
    """Have one contender measured by a worker."""
    done = subprocess.run(
        # -P keeps the working directory off the path: a torch.py that lies there is not ours.
        [sys.executable, "-P", "-m", WORKER],
        input=request.to_json(),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    if done.returncode != 0:
        what = f"measuring {request.method} ({request.variant}) failed"
        raise VbsError(f"{what}: {reason(done.returncode, done.stderr)}", hint="a smaller --batch may help")
    try:
        return Answer.from_json(done.stdout)
    except (ValueError, TypeError) as error:
        raise VbsError(f"measuring {request.method} ({request.variant}) gave no result: {error}") from error


def environment() -> dict[str, str]:
    """The user's variables; a worker must find this package, installed or not."""
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(SOURCE), inherited] if inherited else [str(SOURCE)])
    return {**os.environ, "PYTHONPATH": path}


def reason(returncode: int, stderr: str) -> str:
    """Why a worker failed, in one line."""
    if returncode < 0:
        return f"killed by signal {-returncode}"
    lines = stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {returncode}"


def costs(answer: Answer, base: Answer) -> dict[str, float]:
    """The measured columns of a row."""
    return {
        "memory_bytes": answer.memory_bytes,
        "memory_ratio": answer.memory_bytes / base.memory_bytes,
        "latency_ms": answer.latency_ms,
        "latency_ratio": answer.latency_ms / base.latency_ms,
        "flops": answer.flops,
        "flops_ratio": answer.flops / base.flops,
    }
