"""Processes that read documents and stay for later runs: a start takes a third of a second."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from smartcrawl.extract.pool import FormatPool, ParserProcess

#: Idle ones by their limits; each ends with this process.
_IDLE: dict[tuple[Any, ...], list[ParserProcess]] = defaultdict(list)
#: Of pools that have ended: a process ends with the thread that began it.
_THREADS: list[ThreadPoolExecutor] = []


class LabPool(FormatPool):
    """A pool whose idle processes the next pool with the same limits has."""

    @property
    def _kept(self) -> list[ParserProcess]:
        module = None if self._maker is None else self._maker.module
        return _IDLE[self._memory, self._cpu_seconds, self._arguments, module]

    def _process(self) -> ParserProcess:
        with self._lock:
            if not self._idle and self._kept:
                self._idle.append(self._kept.pop())
        return super()._process()

    def _end(self, idle: list[ParserProcess]) -> None:
        self._kept.extend(process for process in idle if process.alive)
        _THREADS.append(self._threads)
        for process in idle:
            if not process.alive:
                process.end()
