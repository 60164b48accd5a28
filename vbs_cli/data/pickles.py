"""Pickles of plain data and arrays, read without unpickling: what they would call is noted, never called."""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vbs_cli.errors import VbsError

MARK = object()
# Names in the pickles of arrays, which data may therefore contain.
HARMLESS = frozenset(
    {
        "numpy.core.multiarray _reconstruct",
        "numpy._core.multiarray _reconstruct",
        "numpy.core.numeric _frombuffer",
        "numpy._core.numeric _frombuffer",
        "numpy ndarray",
        "numpy dtype",
    }
)
# Opcodes that put their argument, or a constant, on the stack.
ARGUMENTS = frozenset(
    {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
    | {"STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
    | {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
)
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: MARK,
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Name:
    """Name that a pickle would import."""

    text: str


@dataclass
class Call:
    """Call that a pickle would make, and the state that it would set on the result."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None


def read(data: bytes, *, name: str) -> Any:
    """Content of a pickle, with a `Call` wherever it has an array. Strings of Python 2 are read as Latin-1."""
    try:
        return Machine().run(data)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise VbsError(f"{name} is not a pickle of plain data: {error}", hint="get it from its publisher") from None


class Machine:
    """Stack machine of an unpickler that knows data only."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return self.stack.pop()
            self.step(opcode.name, argument)
        raise ValueError("it has no end")

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in ARGUMENTS:
            self.stack.append(argument)
        elif opcode in CONSTANTS:
            self.stack.append(CONSTANTS[opcode]())
        elif opcode in TUPLES:
            count = TUPLES[opcode]
            self.stack[-count:] = [tuple(self.stack[-count:])]
        elif opcode in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[int(argument)] = self.stack[-1]
        elif opcode in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[int(argument)])
        elif opcode not in ("PROTO", "FRAME"):
            special = getattr(self, f"do_{opcode.lower()}", None)
            if special is None:
                raise ValueError(f"it has the instruction {opcode}")
            special(argument)

    def after_mark(self) -> list[Any]:
        place = max(position for position, value in enumerate(self.stack) if value is MARK)
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def do_memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def do_list(self, _: Any) -> None:
        self.stack.append(self.after_mark())

    def do_tuple(self, _: Any) -> None:
        self.stack.append(tuple(self.after_mark()))

    def do_dict(self, _: Any) -> None:
        values = self.after_mark()
        self.stack.append(dict(zip(values[::2], values[1::2], strict=True)))

    def do_append(self, _: Any) -> None:
        value = self.stack.pop()
        self.stack[-1].append(value)

    def do_appends(self, _: Any) -> None:
        values = self.after_mark()
        self.stack[-1].extend(values)

    def do_setitem(self, _: Any) -> None:
        key, value = self.stack.pop(-2), self.stack.pop()
        self.stack[-1][key] = value

    def do_setitems(self, _: Any) -> None:
        values = self.after_mark()
        self.stack[-1].update(zip(values[::2], values[1::2], strict=True))

    def do_global(self, argument: str) -> None:
        if argument not in HARMLESS:
            raise ValueError(f"it would import {argument.replace(' ', '.')}")
        self.stack.append(Name(argument))

    def do_stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.do_global(f"{module} {name}")

    def do_reduce(self, _: Any) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, Name) or not isinstance(arguments, tuple):
            raise ValueError("it would call something that is no array")
        self.stack.append(Call(name.text, arguments))

    def do_build(self, _: Any) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], Call):
            raise ValueError("it would set the state of something that is no array")
        self.stack[-1].state = state


def raw_array(value: Any) -> tuple[bytes, bool]:
    """Bytes of a pickled array, and whether they are in column-major order."""
    if not isinstance(value, Call):
        raise ValueError("it has no array where one should be")
    if value.name.endswith("_frombuffer"):  # in pickles of protocol 5
        raw, _, _, order = value.arguments
        column_major = order == "F"
    else:
        _, _, _, column_major, raw = value.state
    return raw.encode("latin-1") if isinstance(raw, str) else bytes(raw), bool(column_major)
