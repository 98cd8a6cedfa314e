"""Progress of long work: a bar as the last line of a terminal, a plain line elsewhere.

Log lines appear above the bar. One process has the bar of a terminal. Others that share the
terminal, and every process in a pipe, report in plain lines.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from logging import LogRecord
from threading import RLock
from types import TracebackType
from typing import IO, ClassVar, Final, NamedTuple, Self

from smartcrawl.model.redaction import escaped_text
from smartcrawl.reports.text import report_noun, report_time_span
from smartcrawl.terminal.output import terminal_width

SECONDS: Final = 10  #: between two plain lines
REFRESH: Final = 0.5  #: seconds between two states of the bar
_SHORTEST: Final = 8  #: columns of the bar itself
_NAME: Final = 12  #: columns of a name that was cut
_CLEAR: Final = "\r\x1b[2K"


class ProgressFacts(NamedTuple):
    """The state of a long piece of work."""

    name: str  #: of the source or command
    done: int
    total: int | None  #: as far as it is known; None: not at all
    parts: tuple[str, ...]  #: rate, share of 304, time left: the last ones go without room


class Bar:
    """A line of the terminal that is drawn again and again, and erased at the end."""

    _shown: ClassVar[Bar | None] = None  #: the one that is on the terminal now
    _lock: ClassVar = RLock()  #: one writer at a time: log lines come from threads, too

    def __init__(self, file: IO[str]) -> None:
        from rich.console import Console  # noqa: PLC0415  # a pipe has no bar

        self._file = file
        self._console = Console(file=file)
        self._claim = _claim(file)

    @classmethod
    def on(cls, file: IO[str]) -> Bar | None:
        """Return a bar, or None where there is no terminal that can show one."""
        if not file.isatty() or os.environ.get("TERM") in (None, "", "dumb", "unknown"):
            return None
        bar = cls(file)
        return None if bar._claim is None else bar

    def draw(self, facts: ProgressFacts, long: str = "") -> None:
        """Draw the bar, with the text ``long`` before it where there is room for both."""
        with self._lock, suppress(OSError, ValueError):  # rich flushes the file, too
            width = (terminal_width(self._file) or 80) - 1  # a full line would wrap
            self._write(_CLEAR + self._line(facts, long, width))
            Bar._shown = self

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone, or the file closed
            self._file.write(text)
            self._file.flush()

    def _line(self, facts: ProgressFacts, long: str, width: int) -> str:
        from rich.cells import cell_len, set_cell_size  # noqa: PLC0415  # as above

        if long and cell_len(long) + 2 + _SHORTEST <= width:
            return f"{long}  {self._bar(facts, min(40, width - cell_len(long) - 2))}"
        done = f"{facts.done:,}" + ("" if facts.total is None else f" of {facts.total:,}")
        name, parts = escaped_text(facts.name), list(facts.parts)
        while True:
            text = ", ".join([done, *parts])
            room = width - cell_len(text) - 2 - _SHORTEST
            if room >= min(cell_len(name), _NAME) or not parts:
                break
            parts.pop()
        if cell_len(name) > room:
            name = set_cell_size(name, max(0, room))
        left = width - cell_len(name) - cell_len(text) - 2
        return f"{name} {self._bar(facts, min(40, left))} {text}" if left > 0 else text[:width]

    def _bar(self, facts: ProgressFacts, width: int) -> str:
        if not facts.total:
            return ""
        from rich.progress_bar import ProgressBar  # noqa: PLC0415  # as above

        with self._console.capture() as drawn:
            done = min(facts.done, facts.total)
            self._console.print(ProgressBar(facts.total, done, width=width), end="")
        return drawn.get()

    def close(self) -> None:
        """Erase the bar, and leave the terminal to another process."""
        self.erase()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    @classmethod
    def erase(cls) -> None:
        """Erase the bar that is on the terminal, if there is one, until it is drawn again."""
        with cls._lock:
            if cls._shown is not None:
                cls._shown._write(_CLEAR)
                cls._shown = None


class Bars:
    """A line for each of several pieces of work, at the end of a terminal; elsewhere none.

    Lines that are printed appear above.
    """

    def __init__(self, file: IO[str], *, enabled: bool = True) -> None:
        self._file = file
        self._bar = Bar.on(file) if enabled else None
        self._facts: dict[int, ProgressFacts] = {}
        self._drawn = 0  #: lines that are on the terminal
        self._next = 0.0

    def draw(self, place: int, facts: ProgressFacts) -> None:
        """Show the state of the work at a place, unless all was drawn just before."""
        self._facts[place] = facts
        now = time.monotonic()
        if self._bar is not None and now >= self._next:
            self._next = now + REFRESH
            self._show()

    def remove(self, place: int) -> None:
        """Remove the line of a place, whose work is over."""
        if self._facts.pop(place, None) is not None:
            self._show()

    def print(self, name: str, line: str) -> None:
        """Print a line above; ``name``: ``out`` for standard output, else the file of the bars."""
        self._erase()
        with suppress(OSError, ValueError):
            print(line, end="", file=sys.stdout if name == "out" else self._file, flush=True)
        self._show()

    def close(self) -> None:
        """Erase all lines."""
        self._erase()
        self._facts.clear()
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _erase(self) -> None:
        if self._bar is not None and self._drawn:
            self._bar._write(_CLEAR + "\x1b[1A\x1b[2K" * (self._drawn - 1))
            self._drawn = 0

    def _show(self) -> None:
        if self._bar is None:
            return
        self._erase()
        width = (terminal_width(self._file) or 80) - 1
        lines = [self._bar._line(self._facts[place], "", width) for place in sorted(self._facts)]
        self._bar._write("\n".join(lines))
        self._drawn = len(lines)


def _claim(file: IO[str]) -> int | None:
    """Lock the terminal, so that no two processes draw on it; None: another process has it."""
    try:
        handle = os.open(os.ttyname(file.fileno()), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def print_progress_line(line: str) -> None:
    """Print one line of progress on standard error, over the bar of another process if any."""
    with suppress(OSError, ValueError):  # as for the bar
        before = _CLEAR if sys.stderr.isatty() else ""
        print(f"{before}{escaped_text(line)}", file=sys.stderr, flush=True)


class AboveBar(logging.StreamHandler[IO[str]]):
    """A log handler on standard error whose lines do not mix with the bar."""

    def emit(self, record: LogRecord) -> None:
        """Erase the bar, which is drawn again soon, and write the line."""
        with Bar._lock:
            Bar.erase()
            super().emit(record)


_QUICK: Final = 2  #: seconds of work before which no bar appears


class Meter:
    """Counts pages, or other ``units``, and shows how many are done."""

    def __init__(
        self,
        name: str,
        *,
        total: int | None = None,
        units: str = "pages",
        enabled: bool = True,
        every: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``name``: of the command. ``every``: seconds between two plain lines."""
        self._name = name
        self._units = units
        self._total = total
        self._enabled = enabled
        self._clock = clock
        self._began = clock()
        self._bar = Bar.on(sys.stderr) if enabled else None
        self._every = every if self._bar is None else REFRESH
        self._next = self._began + (every if self._bar is None else _QUICK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def report(self, doing: str, number: int) -> None:
        """Show how many pages are done, unless that was shown just before.

        ``doing``: the participle, such as "compared".
        """
        if not self._enabled:
            return
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._every
        if self._bar is None:
            counted = f"{number:,} {self._units}"
            if self._units == "pages":
                counted = report_noun(number, "page")
            print_progress_line(f"{self._name}: {counted} {doing}")
            return
        rate = number / (now - self._began)
        parts = [f"{doing}, {rate:,.1f} {self._units}/s"]
        if self._total and rate:
            parts.append(f"{report_time_span(int(max(0, self._total - number) / rate))} left")
        self._bar.draw(ProgressFacts(self._name, number, self._total, tuple(parts)))
