"""Portions of pages for reading processes: several pages at once, because they are short."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from smartcrawl.extract.pool import FormatPool
from smartcrawl.extract.wire import PageTask, Selected
from smartcrawl.model.documents import Document

MAX_PAGE: Final = 2 * 1024 * 1024  #: bytes of a page that a process reads
_MOST: Final = 16  #: pages of a portion
_MOST_BYTES: Final = 2 * MAX_PAGE  #: bytes of a portion; the last page may exceed it

_Waiting = tuple[PageTask, asyncio.Future[Document]]


class ParsingPortions:
    """Reads pages in a pool, each time a portion of the waiting ones."""

    def __init__(self, pool: FormatPool, selected: Selected) -> None:
        self._pool = pool
        self._selected = selected
        self._at_once = 2 * pool.workers  # each process finds its next portion ready
        self._waiting: deque[_Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, task: PageTask) -> Document:
        """Return the document of a page, like ``html.parse_html``.

        Raises:
            FormatError: its process ended, for any reason; other pages are not affected.
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
        """Cancel the pages that wait or are being read, and end the processes."""
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
            except BaseException as error:  # every waiting page gets a result
                _fail(portion, error)
                raise
            for (_, future), result in zip(portion, found, strict=True):
                if future.done():
                    continue  # its page was cancelled
                if isinstance(result, Document):
                    future.set_result(result)
                else:
                    future.set_exception(result)

    def _portion(self) -> list[_Waiting]:
        """Take the next pages: fewer where few are waiting, so that every process gets some."""
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
