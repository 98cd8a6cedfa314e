"""Answers that are costly to compute, kept for some seconds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from anyio import to_thread

_T = TypeVar("_T")


class KeptAnswers(Generic[_T]):
    """Answers by key, each computed in a thread, once for all who wait for it.

    ``seconds``: the age up to which an answer counts; ``most``: how many are kept.
    """

    def __init__(self, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, _T]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[_T]] = {}

    async def get(self, key: Hashable, work: Callable[[], _T]) -> _T:
        """Return the answer of ``key``; ``work`` computes it, unless a recent one is kept."""
        found = self._kept.get(key)
        if found is not None and 0 <= self._clock() - found[0] < self._seconds:
            return found[1]
        task = self._pending.get(key)
        if task is None:
            task = asyncio.ensure_future(self._computed(key, work))
            self._pending[key] = task
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        return await asyncio.shield(task)  # a client that goes away ends no other one's answer

    async def _computed(self, key: Hashable, work: Callable[[], _T]) -> _T:
        at = self._clock()
        answer = await to_thread.run_sync(work)
        self._kept[key] = at, answer
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return answer
