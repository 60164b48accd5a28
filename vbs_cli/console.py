"""Output for the user: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.progress import Task as RichTask
from rich.table import Table
from rich.text import Text

from vbs_cli.errors import VbsError
from vbs_cli.executors import Messages, is_child
from vbs_cli.progress import Progress, Task

PLAIN_WIDTH = 120  # characters of a table without a terminal
PLAIN_EVERY = 10.0  # seconds between two progress lines without a terminal, at first
PLAIN_SHARE = 0.05  # of the elapsed time: later lines wait that long
More = str | Sequence[Mapping[str, Any]]  # further entries of a JSON result: a text, or rows
# Signs and their replacements, used for a whole group if the output's encoding lacks one of its signs.
SIGNS = (("±", ("+-",)), ("→", ("->",)), ("Δ", ("diff",)), ("▁▂▃▄▅▆▇█", tuple(".:-=+*#@")))


class Console:
    """Output of a command: tables or JSON on stdout, messages and progress bars on stderr."""

    def __init__(self, *, json: bool = False, quiet: bool = False, verbose: bool = False) -> None:
        self.json = json
        never_fail(sys.stdout)
        self.out = RichConsole(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
        self.err = RichConsole(stderr=True, highlight=False, soft_wrap=True)
        self.messages = Messages(sys.stdout) if is_child() else None
        speaking = self.messages or Reporter(self.err, verbose=verbose)
        self.progress: Progress = Progress() if quiet else speaking

    def show(
        self,
        command: str,
        rows: Sequence[Mapping[str, Any]],
        *renderables: Any,
        more: Mapping[str, More] | None = None,
    ) -> None:
        """Print the result of a command: the rows (and `more`, by name) with --json, else the renderables."""
        if self.json:
            named: dict[str, More] = {"rows": rows, **(more or {})}
            values = {name: v if isinstance(v, str) else [plain(row) for row in v] for name, v in named.items()}
            result = {"schema": 1, "command": command, **values}
            sys.stdout.write(json.dumps(result, allow_nan=False) + "\n")
            return
        for renderable in renderables:
            line = isinstance(renderable, str)
            self.out.print(in_encoding(renderable) if line else renderable, soft_wrap=line)  # text is not wrapped

    def error(self, error: VbsError) -> None:
        """Print an error in one line: what happened and what to do."""
        if self.messages is not None:
            self.messages.error(error)
        self.err.print(f"[bold red]error:[/] {escape(' '.join(str(error).split()))}")


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Row with values that JSON has: NaN, which it lacks, becomes null."""
    values = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
    return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in values.items()}


def in_encoding(text: str, encoding: str | None = None) -> str:
    """Text with signs that the encoding (of stdout, unless given) has."""
    encoding = encoding or getattr(sys.stdout, "encoding", None) or "utf-8"
    for signs, others in SIGNS:
        if not encodable(signs, encoding):
            text = text.translate({ord(sign): other for sign, other in zip(signs, others, strict=True)})
    return text


def encodable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def never_fail(stream: Any) -> None:
    """Let a strict stream write an escape for a sign that its encoding lacks, e.g. in a user's name."""
    if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A plain table; columns after the first are right-aligned where they hold numbers."""
    body = [[str(cell) for cell in row] for row in rows]
    built = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for position, column in enumerate(map(in_encoding, columns)):
        numeric = body and all(row[position][:1].isdigit() or row[position][:1] in ("-", "+") for row in body)
        built.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in body:
        built.add_row(*(escape(in_encoding(cell)) for cell in row))
    return built


class Reporter(Progress):
    """Progress shown by bars on a terminal, elsewhere by a line every ten seconds or less often."""

    def __init__(self, console: RichConsole, *, verbose: bool = False) -> None:
        self.console = console
        self.verbose = verbose
        self.live = console.is_terminal and not console.is_dumb_terminal
        self.bars: RichProgress | None = None
        self.overall: Meter | None = None

    def say(self, text: str) -> None:
        self.console.print(escape(text))

    def detail(self, text: str) -> None:
        if self.verbose:
            self.say(text)

    @contextmanager
    def whole(self, label: str, total: float) -> Iterator[None]:
        with self._bars():
            self.overall = Meter(self, label, total)
            try:
                yield
            finally:
                self.overall.close()
                self.overall = None

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        with self._bars():
            meter = Meter(self, label, total, parent=self.overall)
            try:
                yield meter
                meter.finish()
            finally:
                meter.close()

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        with self._bars():
            yield

    @contextmanager
    def _bars(self) -> Iterator[None]:
        """Open the live display unless an outer block has opened it."""
        if not self.live or self.bars is not None:
            yield
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            Remaining(),
            TextColumn("{task.fields[note]}"),
        )
        with RichProgress(*columns, console=self.console, transient=True) as self.bars:
            try:
                yield
            finally:
                self.bars = None


class Meter(Task):
    """Progress of one task, shown by a bar or by lines."""

    def __init__(self, reporter: Reporter, label: str, total: float, parent: Meter | None = None) -> None:
        self.reporter = reporter
        self.label = label
        self.total = total
        self.parent = parent
        self.done = 0.0
        self.text = ""
        self.started = self.spoken = time.monotonic()
        bars = reporter.bars
        self.bar: TaskID | None = None if bars is None else bars.add_task(escape(label), total=total, note="")

    def advance(self, amount: float) -> None:
        self.done += amount
        if self.parent is not None:
            self.parent.advance(amount)
        if self.reporter.bars is not None and self.bar is not None:
            self.reporter.bars.update(self.bar, advance=amount)
        elif self.parent is not None or self.reporter.overall is None:
            self._speak()

    def note(self, text: str) -> None:
        self.text = text
        if self.reporter.bars is not None and self.bar is not None:
            self.reporter.bars.update(self.bar, note=escape(text))

    def finish(self) -> None:
        """Print a line that stays."""
        note = f"  {self.text}" if self.text else ""
        self.reporter.say(f"{self.label}: done in {clock(time.monotonic() - self.started)}{note}")

    def close(self) -> None:
        if self.reporter.bars is not None and self.bar is not None:
            self.reporter.bars.remove_task(self.bar)

    def left(self) -> str:
        return left(time.monotonic() - self.started, self.done, self.total)

    def _speak(self) -> None:
        """Print a plain line if the last one is long enough ago."""
        now = time.monotonic()
        if self.reporter.live or now - self.spoken < max(PLAIN_EVERY, PLAIN_SHARE * (now - self.started)):
            return
        self.spoken = now
        whole = f"; {self.parent.label}: {self.parent.left()}" if self.parent is not None else ""
        note = f"  {self.text}" if self.text else ""
        self.reporter.say(f"{self.label}: {self.done / self.total:4.0%}, {self.left()}{whole}{note}")


class Remaining(ProgressColumn):
    """Column with percentage and time left, from the mean speed so far."""

    def render(self, task: RichTask) -> Text:
        share = task.completed / task.total if task.total else 1.0
        return Text(f"{share:4.0%}  {left(task.elapsed or 0.0, task.completed, task.total or 0.0)}")


def left(elapsed: float, done: float, total: float) -> str:
    """Time left as on a clock; unknown until something is done."""
    return f"{clock(elapsed * max(total - done, 0) / done)} left" if done > 0 else "-:-- left"


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
