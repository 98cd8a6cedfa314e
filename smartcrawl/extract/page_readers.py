"""Pages that other processes read, while the crawling process asks and decides (ADR 177)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

from smartcrawl.extract.formats import FormatError, FormatFault
from smartcrawl.extract.page_tasks import read_page_task
from smartcrawl.extract.pool import FormatPool, ParsingPortions, ProcessStartError
from smartcrawl.extract.wire import PageTask, Selected
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import GivenUpError

logger = logging.getLogger(__name__)

#: The crawling process has no memory, thread or descriptor left for a process; no page is at fault.
_NO_MEANS: Final = (RuntimeError, MemoryError, OSError)
_TRIES: Final = 2  #: of a page whose process dies
_LOOK: Final = 0.25  #: seconds between two looks whether the crawl is stopping
_PATIENCE: Final = 0.5  #: seconds in which pages that are being read may end after a stop


class PageReaders:
    """Reads pages in processes, once there are enough of them; all others in this process.

    While the processes start, this one goes on. Where they cannot be had, it reads every page, and
    the log says so once.
    """

    def __init__(
        self,
        pool: Callable[[], FormatPool],
        selected: Selected,
        *,
        first: int | None,
        is_stopping: Callable[[], bool],
    ) -> None:
        """``pool`` makes processes for pages, none of which has started.

        ``first``: how many downloaded pages this process reads itself before it starts them;
        None: all.
        """
        self._new_pool = pool
        self._selected = selected
        self._first = first
        self._is_stopping = is_stopping
        self._pool: FormatPool | None = None
        self._portions: ParsingPortions | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_starting = self._is_ready = self._given_up = False
        self._failed = False  #: whether no process could be had

    async def read(self, task: PageTask) -> Document:
        """Return the document of a page, read by a process; here where none can be had.

        A page whose process dies is read once more.

        Raises:
            FormatError: its process ended again, or took too much time or memory.
            GivenUpError: it was given up, because the crawl is stopping.
        """
        error: FormatError | None = None
        for _ in range(_TRIES):
            if self._failed:
                break
            try:
                return await self._begun().read(task)
            except FormatError as failure:
                self._check_given_up(failure)
                if failure.kind is not FormatFault.CRASHED:
                    raise
                logger.debug("no answer of the process that reads %s: %s", task.url, failure)
                error = failure
            except _NO_MEANS as failure:
                self._check_given_up(failure)
                self._fall_back(failure)
        if isinstance(error, ProcessStartError):
            self._fall_back(error)
        elif error is not None:
            raise error
        return read_page_task(task, self._selected)

    async def read_downloaded(self, task: PageTask) -> Document:
        """Return the document of a page that was downloaded, like ``read``.

        The first pages of a crawl are read here, and those that come while the processes start
        then.
        """
        if self._first == 0 and (self._is_ready or not self._is_starting):
            return await self.read(task)
        if self._first:
            self._first -= 1
            if self._first == 0:
                self._is_starting = True
                self._begun()
                self._keep(self._start())
        return read_page_task(task, self._selected)

    def give_up(self) -> None:
        """Give up the pages that are being read: each raises GivenUpError."""
        self._given_up = True
        if self._pool is not None:
            self._pool.give_up()

    async def close(self) -> None:
        """End the processes that were started."""
        for task in self._tasks:
            task.cancel()
        if self._portions is not None:
            await self._portions.close()

    def _begun(self) -> ParsingPortions:
        if self._portions is None:
            self._pool = self._new_pool()
            self._portions = ParsingPortions(self._pool, self._selected)
            self._keep(self._watch())
        return self._portions

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.ensure_future(work))

    async def _start(self) -> None:
        """Start the processes; those that end at once are started again by the next page."""
        assert self._pool is not None
        with suppress(FormatError, *_NO_MEANS):
            await self._pool.start()
        self._is_ready = True

    async def _watch(self) -> None:
        """Give up what is being read some time after a stop: its pages stay pending."""
        while not self._is_stopping():
            await asyncio.sleep(_LOOK)
        await asyncio.sleep(_PATIENCE)
        self.give_up()

    def _fall_back(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            logger.warning(
                "pages are read in the crawling process, because %s; READ_PROCESSES=0 starts no"
                " process, and does not log this",
                error,
            )

    def _check_given_up(self, error: Exception) -> None:
        if self._given_up:
            raise GivenUpError("the run ended while the page was read") from error
