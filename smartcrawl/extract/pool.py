"""Pool of reading processes: a document that ends its process affects no other document."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from threading import Lock
from typing import Final, NamedTuple, TypeVar

from smartcrawl.extract.answers import parse_document_answer
from smartcrawl.extract.budget import HostParsingBudget
from smartcrawl.extract.formats import check_document_format
from smartcrawl.extract.formats.common import (
    FormatError,
    FormatFault,
    document_over_budget,
    document_too_large,
)
from smartcrawl.extract.process import PAGES, ParserProcess
from smartcrawl.extract.sniff import sniffed_media_type as media_type_of
from smartcrawl.extract.wire import (
    MAX_BODY,
    AnswerError,
    PageTask,
    Selected,
    wire_extraction_tasks,
)
from smartcrawl.model.documents import Document

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

MIB: Final = 1024 * 1024
MAX_DOCUMENTS: Final = 200  #: read by one process; the leaks of its libraries end with it
_MAX_TYPE: Final = 1_000  #: characters of a Content-Type header
_CHILD: Final = ("-P", "-m", "smartcrawl.extract.child")
_PAGES_ONLY: Final = "pages"  #: its last argument, for a start in two thirds of the time


class _Job:
    """One document that is being read; another thread may cancel it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: ParserProcess | None = None
        self._given_up = False

    def take(self, process: ParserProcess) -> bool:
        """Note the process that reads it; return whether it is still wanted."""
        with self._lock:
            self._process = process
            return not self._given_up

    def leave(self) -> bool:
        """Forget the process; return whether it was wanted to the end."""
        with self._lock:
            self._process = None
            return not self._given_up

    def give_up(self) -> None:
        """Cancel it: end its process, now or as soon as there is one."""
        with self._lock:
            self._given_up = True
            if self._process is not None:
                self._process.kill()


class _Expected(NamedTuple):
    """The expected answer of a reading process."""

    media_type: str
    longest: int  #: characters of its longest field; 0: as many as any document may have
    url: str


def _taken(
    process: ParserProcess, answers: Iterator[bytes], expected: Sequence[_Expected]
) -> Iterator[Document | FormatError]:
    """Yield the answers of a process, until it can give no more."""
    for document in expected:
        try:
            yield parse_document_answer(next(answers), *document)
        except AnswerError as error:
            process.kill()
            yield FormatError(FormatFault.CRASHED, f"its reader answered with {error}")
            return
        except FormatError as error:
            if error.kind is FormatFault.MEMORY:
                process.kill()
            yield error
            if not process.alive:
                return


class FormatPool:
    """Reads documents in at most ``workers`` processes, which start when they are needed.

    ``memory`` is the address space of each in bytes, of which it needs about 100 MiB itself;
    ``cpu_seconds`` and ``wall_seconds`` are limits of one document. ``pages_only`` starts processes
    that read nothing but pages, which start faster. Threads write to them and read from them:
    asyncio's own subprocesses need a child watcher, which Twisted's reactor does not run.
    """

    def __init__(
        self,
        workers: int = 2,
        memory: int = 512 * MIB,
        cpu_seconds: int = 30,
        wall_seconds: float = 60,
        *,
        pages_only: bool = False,
    ) -> None:
        self.workers = workers
        self._memory = memory
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._arguments = (_PAGES_ONLY,) if pages_only else ()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="formats")
        self._lock = Lock()
        self._idle: list[ParserProcess] = []
        self._jobs: set[_Job] = set()
        self._closed = False
        self._warned = False

    async def read(
        self,
        body: bytes,
        *,
        media_type: str,
        content_type: str,
        url: str,
        share: HostParsingBudget | None = None,
    ) -> Document:
        """Return the document of a body, like ``formats.read_document``.

        Cancelled, it ends the process that reads. ``share``: the budget of its host.

        Raises:
            FormatError: the document cannot be read; others are not affected.
            RuntimeError: the pool is closed.
            ValueError: as with ``read_document``.

        Source: R0-60.
        """
        check_document_format(media_type, url)
        if len(body) > MAX_BODY:
            raise document_too_large(f"the document has more than {MAX_BODY:,} bytes")
        fields = {"media_type": media_type, "content_type": content_type[:_MAX_TYPE], "url": url}
        header, expected = json.dumps(fields).encode(), _Expected(media_type, 0, url)
        return await self._run(partial(self._read, header, body, expected, share))

    async def read_pages(
        self, tasks: Sequence[PageTask], selected: Selected
    ) -> list[Document | FormatError]:
        """Return for each page its document, or the error of that page alone.

        All pages are sent at once, so they should be few and small.

        Raises:
            RuntimeError: the pool is closed.
        """
        short = [task._replace(content_type=task.content_type[:_MAX_TYPE]) for task in tasks]
        return await self._run(partial(self._read_pages, short, selected))

    async def _run(self, work: Callable[[_Job], _T]) -> _T:
        """Run ``work`` in a thread."""
        if self._closed:
            raise RuntimeError("the pool of readers is closed")
        job = _Job()
        self._jobs.add(job)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, job)
        finally:
            self._jobs.discard(job)
            job.give_up()  # without effect when it is done

    def give_up(self) -> None:
        """Have the documents that are being read fail. No more may be read afterwards."""
        self._closed = True
        for job in list(self._jobs):
            job.give_up()

    async def close(self) -> None:
        """End all processes; documents that are being read fail. No more may be read afterwards."""
        self.give_up()
        with self._lock:
            idle, self._idle = self._idle, []
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, partial(self._end, idle))

    def _end(self, idle: list[ParserProcess]) -> None:
        for process in idle:
            process.end()
        self._threads.shutdown(cancel_futures=True)

    def _read(
        self,
        header: bytes,
        body: bytes,
        expected: _Expected,
        share: HostParsingBudget | None,
        job: _Job,
    ) -> Document:
        """Read one document, in a thread."""
        if share is not None and share.left <= 0:
            raise document_over_budget()
        [found] = self._ask(job, header, body, [expected], 0, share=share)
        if isinstance(found, FormatError):
            raise found
        return found

    def _read_pages(
        self, tasks: Sequence[PageTask], selected: Selected, job: _Job
    ) -> list[Document | FormatError]:
        """Read pages, in a thread; if one ends its process, another process reads the rest."""
        found: list[Document | FormatError] = []
        while rest := tasks[len(found) :]:
            expected = [
                _Expected(media_type_of(task.content_type, task.body), len(task.body), task.url)
                for task in rest
            ]
            try:
                found += self._ask(job, *wire_extraction_tasks(rest, selected), expected, len(rest))
            except FormatError as error:
                found += [error] * len(rest)
        return found

    def _ask(
        self,
        job: _Job,
        header: bytes,
        body: bytes,
        expected: Sequence[_Expected],
        pages: int,
        *,
        share: HostParsingBudget | None = None,
    ) -> list[Document | FormatError]:
        """Return the answers of a process; the last may be the error that ended it.

        Raises:
            FormatError: it does not start, or its job was cancelled.
        """
        process = self._process()
        keep = False
        try:
            if not job.take(process):
                what = "the document was given up before it was read"
                raise FormatError(FormatFault.CRASHED, what, lasting=False)
            if not process.documents:
                self._begin(process)
            counted = share.budget.reading(share.host) if share is not None else nullcontext()
            asked_for = process.ask(header, body, self._wall_seconds, pages)
            with counted, closing(asked_for) as answers:
                found = list(_taken(process, answers, expected))
            keep = len(found) == len(expected) and process.alive
            return found
        finally:
            self._put_back(process, keep=job.leave() and keep)

    def _process(self) -> ParserProcess:
        """Return an idle process for this job alone, or a new one if none is idle."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                process = self._idle.pop()
            if process.alive:
                return process
            process.end()  # it was killed while it was idle
        try:
            return ParserProcess(_CHILD, self._memory, self._cpu_seconds, *self._arguments)
        except OSError as error:
            what = f"the process that reads documents does not start: {error}"
            raise FormatError(FormatFault.CRASHED, what, lasting=False) from error

    def _begin(self, process: ParserProcess) -> None:
        process.begin()
        if process.missing and not self._warned:
            self._warned = True
            logger.warning(
                "documents are read without limits of %s, which this platform does not offer:"
                " read those of strangers elsewhere",
                ", ".join(process.missing),
            )

    def _put_back(self, process: ParserProcess, *, keep: bool) -> None:
        with self._lock:
            keep = keep and not self._closed and process.worn < MAX_DOCUMENTS * PAGES
            if keep:
                self._idle.append(process)
        if not keep:
            process.end()
