"""Errors, each with a hint at the cure: `raise MissingArtifact("no checkpoint for seed 3", hint="vbs train")`.

Code below the command line raises; only the command line prints and exits.
"""

from __future__ import annotations


class VbsError(Exception):
    """A failure that the user can understand and act on."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class MissingArtifact(VbsError):
    """An artifact is missing and has to be made first."""


class DamagedArtifact(VbsError):
    """A file is not what was written."""


class NotFinite(VbsError):
    """NaN or infinity where a finite number is needed."""


class Busy(VbsError):
    """Another process is at work on the same run."""


class InvalidInput(VbsError, ValueError):
    """A value or a shape that makes no sense here."""

    exit_code = 2


class UnknownName(InvalidInput):
    """A name that nothing is registered under."""


def translated(error: Exception) -> VbsError:
    """Convert any error to a VbsError, with the original as its cause."""
    if isinstance(error, VbsError):
        return error
    ours = VbsError(f"{type(error).__name__}: {error}", hint="this is a fault of vbs; --debug shows where")
    if is_out_of_memory(error):
        ours = VbsError("out of memory", hint="a smaller --batch may help")
    elif isinstance(error, OSError):
        ours = VbsError(str(error))
    ours.__cause__ = error
    return ours


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: Python's, or torch's on a GPU or a CPU."""
    named = "OutOfMemory" in type(error).__name__
    return named or isinstance(error, MemoryError) or "allocate memory" in str(error)
