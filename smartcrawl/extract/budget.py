"""Time budget for reading the documents of each host in a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from threading import Lock

FREE = 0.25  #: seconds of each document; most take less


@dataclass(slots=True)
class _Account:
    spent: float = 0.0  #: seconds, of documents that were read
    begun: list[float] = field(default_factory=list)  #: start of each document that is being read


class ParsingBudget:
    """The seconds of wall time that reading processes may work for each host, from any thread.

    A document is begun while the budget is positive, and may then exceed it: a document that
    reaches its own limits is remembered by its bytes, and costs no time in later runs. Waiting for
    a process, and its start, do not count, nor do the first ``FREE`` seconds of each document: a
    library of a thousand ordinary documents is read in one run. ``seconds`` 0: no limit.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._accounts: dict[str, _Account] = {}

    def left(self, host: str) -> float:
        """Return the seconds that remain for the next document of a host; below 0: overdrawn."""
        if not self.seconds:
            return inf
        with self._lock:
            account = self._accounts.get(host)
            if account is None:
                return self.seconds
            now = self._clock()
            spent = account.spent + sum(max(0, now - begun - FREE) for begun in account.begun)
            return self.seconds - spent

    @contextmanager
    def reading(self, host: str) -> Iterator[None]:
        """Count the time that a document of a host is being read."""
        begun = self._clock()
        with self._lock:
            account = self._accounts.setdefault(host, _Account())
            account.begun.append(begun)
        try:
            yield
        finally:
            with self._lock:
                account.begun.remove(begun)
                account.spent += max(0, self._clock() - begun - FREE)


@dataclass(frozen=True, slots=True)
class HostParsingBudget:
    """The budget of one host."""

    budget: ParsingBudget
    host: str

    @property
    def left(self) -> float:
        """The remaining seconds, see ``ParsingBudget.left``."""
        return self.budget.left(self.host)
