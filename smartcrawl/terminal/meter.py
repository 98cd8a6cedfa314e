"""Progress of the long work of a command: a bar on a terminal, a plain line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from smartcrawl.reports.text import report_noun, report_time_span
from smartcrawl.terminal.bar import REFRESH, SECONDS, Bar, ProgressFacts, print_progress_line

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
