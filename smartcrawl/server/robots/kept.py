"""Downloads of robots.txt, kept in this server until they expire; nothing is stored (R2-40)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from smartcrawl.server.errors import api_unavailable
from smartcrawl.server.robots.download import RobotsAnswer

AT_ONCE: Final = 8  #: downloads at once
_MOST: Final = 1_000  #: answers that are kept
_MOST_BYTES: Final = 16 * 1024 * 1024  #: of their bodies together
_LEAST_SECONDS: Final = 60  #: for which a failure counts, and any answer without a lifetime


class KeptRobots(NamedTuple):
    """An answer, and the time of its request."""

    at: int  #: Unix seconds
    answer: RobotsAnswer


class RobotsCache:
    """The answers of hosts, each downloaded once for all who wait for it."""

    def __init__(
        self,
        download: Callable[[str], Awaitable[RobotsAnswer]],
        seconds: int,
        clock: Callable[[], float],
    ) -> None:
        """``seconds``: for which an answer counts; 0: as short as a failure."""
        self._download = download
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[str, KeptRobots] = OrderedDict()
        self._bytes = 0
        self._pending: dict[str, asyncio.Task[KeptRobots]] = {}

    async def get(self, host: str) -> KeptRobots:
        """Return the answer of a host.

        Raises:
            ApiError: too many other hosts are being asked.
        """
        found = self._kept.get(host)
        if found is not None and 0 <= self._clock() - found.at < self._lifetime(found.answer):
            return found
        task = self._pending.get(host)
        if task is None:
            if len(self._pending) >= AT_ONCE:
                raise api_unavailable(f"{AT_ONCE} robots.txt are being downloaded: try again later")
            task = asyncio.ensure_future(self._downloaded(host))
            self._pending[host] = task
            task.add_done_callback(lambda _: self._pending.pop(host, None))
        return await asyncio.shield(task)  # a client that goes away ends no other one's answer

    async def _downloaded(self, host: str) -> KeptRobots:
        kept = KeptRobots(int(self._clock()), await self._download(host))
        self._forget(host)
        self._kept[host] = kept
        self._bytes += len(kept.answer.body)
        while len(self._kept) > _MOST or self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._kept)))
        return kept

    def _forget(self, host: str) -> None:
        found = self._kept.pop(host, None)
        if found is not None:
            self._bytes -= len(found.answer.body)

    def _lifetime(self, answer: RobotsAnswer) -> float:
        seconds = self._seconds or _LEAST_SECONDS
        return min(seconds, _LEAST_SECONDS) if answer.failed else seconds
