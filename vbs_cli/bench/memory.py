"""Peak memory of a function, beyond what the process holds already."""

from __future__ import annotations

import ctypes
import gc
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # proc(5): resets the high-water mark of the resident set

FEWEST, REPEATS, PATIENCE = 3, 6, 5.0  # measurements, and seconds for them

MEMORY_EVENT = "[memory]"  # the profiler's name of an allocation or its end
PAGE = 4096  # the kernel counts whole pages, so nothing smaller can be seen

# mallopt(3) of glibc: parameters, and values in bytes. AT_ONCE gives every tensor a mapping of its own, which
# goes back to the system when it is freed; ADAPTED is where glibc's own rule ends with large tensors.
# Without AT_ONCE the same pass was seen to take 5 to 8 MB, or 88 to 144 MB, as the heap happened to be fragmented.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
AT_ONCE = 64 * 2**10
ADAPTED = 32 * 2**20


@dataclass(frozen=True)
class Peak:
    """Bytes that a function takes at its peak: the median of several runs, and their deviation."""

    median: int
    deviation: float


def peak_memory(run: Callable[[], object], *, device: str) -> Peak:
    """Measure the memory that `run` needs beyond what the process holds already."""
    gc.collect()
    if torch.device(device).type == "cuda":
        return peak_of(repeated(lambda: cuda_rise(run, device)))
    if not CLEAR_REFS.exists():
        return peak_of([lifetime_rise(run)])
    give_back_at_once()
    try:
        return peak_of(repeated(lambda: resident_rise(run)))
    finally:
        give_back_as_usual()


def repeated(measure: Callable[[], int]) -> list[int]:
    """Measure REPEATS times, or fewer if that takes long; the first, which may include set-up, does not count."""
    found: list[int] = []
    started = time.monotonic()
    while len(found) < FEWEST or (len(found) < REPEATS and time.monotonic() - started < PATIENCE):
        found.append(measure())
    return found[1:]


def peak_of(rises: Sequence[int]) -> Peak:
    seen = [max(PAGE, rise) for rise in rises]
    return Peak(int(statistics.median(seen)), statistics.stdev(seen) if len(seen) > 1 else 0.0)


@dataclass(frozen=True)
class Trace:
    """Allocations of one run by torch's own allocator, in bytes."""

    peak: int  # beyond what was allocated before
    total: int  # of all allocations, freed meanwhile or not, as the paper's authors summed them up


def traced_memory(run: Callable[[], object]) -> Trace:
    """Trace one run by torch's profiler. Memory that libraries such as oneDNN take for themselves is not included."""
    with profile(activities=[ProfilerActivity.CPU, *gpu_activity()], profile_memory=True) as profiler:
        run()
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == MEMORY_EVENT]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return Trace(peak=max(accumulate(changes), default=0), total=sum(change for change in changes if change > 0))


def gpu_activity() -> list[ProfilerActivity]:
    return [ProfilerActivity.CUDA] if torch.cuda.is_available() else []


def cuda_rise(run: Callable[[], object], device: str) -> int:
    """Peak bytes of the tensors of one run on the GPU."""
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    return torch.cuda.max_memory_allocated(device) - before


def resident_rise(run: Callable[[], object]) -> int:
    """Bytes by which one run raises the peak of the resident set, on Linux."""
    trim_heap()
    CLEAR_REFS.write_text(RESET_PEAK)
    before = status_bytes("VmRSS")
    run()
    return status_bytes("VmHWM") - before


def status_bytes(name: str) -> int:
    """Bytes in a line of /proc/self/status, which counts in kB."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", STATUS.read_text(), flags=re.MULTILINE)
    assert found is not None, f"{STATUS} has no {name}"
    return int(found[1]) * 1024


def lifetime_rise(run: Callable[[], object]) -> int:
    """Bytes by which one run raises the peak of the process's lifetime; a second run would not raise it again."""
    before = lifetime_peak()
    run()
    return lifetime_peak() - before


def lifetime_peak() -> int:
    """Bytes of the largest resident set since the process began."""
    try:
        import resource
    except ImportError:  # Windows has none; the caller then reports the least that can be seen
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # getrusage(2): bytes on macOS, kB elsewhere


def give_back_at_once() -> None:
    """Return freed tensors to the system at once; otherwise earlier ones would hide what a run needs."""
    glibc("mallopt", MMAP_THRESHOLD, AT_ONCE)


def give_back_as_usual() -> None:
    """Keep freed tensors for the next ones, as in a program that is not being measured."""
    glibc("mallopt", MMAP_THRESHOLD, ADAPTED)
    glibc("mallopt", TRIM_THRESHOLD, 2 * ADAPTED)


def trim_heap() -> None:
    glibc("malloc_trim", 0)


def glibc(function: str, *arguments: int) -> None:
    """Call a function of glibc; do nothing with another C library."""
    try:
        call = getattr(ctypes.CDLL(None), function)
    except (AttributeError, OSError, TypeError):
        return
    call(*arguments)
