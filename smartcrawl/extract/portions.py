"""Pages on their way to the processes that read documents: several at once, for a page is short."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from smartcrawl.extract.pool import FormatPool
from smartcrawl.extract.wire import PageTask, Selected
from smartcrawl.model.documents import Document

MAX_PAGE: Final = 2 * 1024 * 1024  #: bytes of a page that is handed over
_MOST: Final = 16  #: pages of a portion
_MOST_BYTES: Final = 2 * MAX_PAGE  #: bytes of a portion; the last page may exceed it

_Waiting = tuple[PageTask, asyncio.Future[Document]]


class Portions:
    """Has pages read by a pool of its own, in portions of what waits when a process has time."""

    def __init__(self, pool: FormatPool, selected: Selected) -> None:
        self._pool = pool
        self._selected = selected
        self._at_once = 2 * pool.workers  # one is ready for each process when it is done
        self._waiting: deque[_Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, task: PageTask) -> Document:
        """Return what a page says, as ``html.parse`` does.

        Raises:
            FormatError: its process ended, whatever it did; other pages are not affected.
            RuntimeError: the pool is closed.
        """
        future: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._waiting.append((task, future))
        if len(self._tasks) < self._at_once:
            work = asyncio.ensure_future(self._work())
            self._tasks.add(work)
            work.add_done_callback(self._tasks.discard)
        return await future

    async def close(self) -> None:
        """Give up what is waiting and what is being read, and end the processes."""
        for task in self._tasks:
            task.cancel()
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        await self._pool.close()

    async def _work(self) -> None:
        while portion := self._portion():
            pages = [task for task, _ in portion]
            try:
                found = await self._pool.read_pages(pages, self._selected)
            except RuntimeError as error:
                _fail(portion, error)
                return
            except BaseException as error:  # nobody is left waiting
                _fail(portion, error)
                raise
            for (_, future), result in zip(portion, found, strict=True):
                if future.done():
                    continue  # nobody waits any more
                if isinstance(result, Document):
                    future.set_result(result)
                else:
                    future.set_exception(result)

    def _portion(self) -> list[_Waiting]:
        """Take the next pages: fewer where few are waiting, so that all processes have some."""
        most = max(1, min(_MOST, len(self._waiting) // self._at_once))
        portion: list[_Waiting] = []
        size = 0
        while self._waiting and len(portion) < most and size < _MOST_BYTES:
            task, future = self._waiting.popleft()
            if not future.done():
                portion.append((task, future))
                size += len(task.body)
        return portion


def _fail(portion: list[_Waiting], error: BaseException) -> None:
    for _, future in portion:
        if isinstance(error, asyncio.CancelledError):
            future.cancel()
        elif not future.done():
            future.set_exception(error)
