"""Pool of reading processes: a document that ends its process affects no other document.

Checks of the answers of reading processes.

A document may have taken over the process that reads it. So no field of an answer is trusted before
it was checked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from io import BufferedReader, RawIOBase
from itertools import chain
from math import inf
from operator import le
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import Any, Final, NamedTuple, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from smartcrawl.extract.confine import HAS_LIMITS
from smartcrawl.extract.formats import check_document_format
from smartcrawl.extract.formats.common import (
    MAX_TEXT,
    FormatError,
    FormatFault,
    document_over_budget,
    document_too_large,
)
from smartcrawl.extract.links import MAX_LINKS, MAX_OVERLONG, document_base_url
from smartcrawl.extract.sniff import CHARSETS
from smartcrawl.extract.sniff import sniffed_media_type as media_type_of
from smartcrawl.extract.wire import (
    LONGEST,
    MAX_ANSWER,
    MAX_BODY,
    MAX_HEADER,
    AnswerError,
    PageTask,
    PartMaker,
    ReadDocument,
    Selected,
    document_parts_from_wire,
    receive_extraction_frame,
    send_extraction_frames,
    wire_extraction_tasks,
)
from smartcrawl.model.documents import (
    BLOCK_KINDS,
    LIST,
    PICTURE,
    SPAN_KINDS,
    Block,
    CountedPicture,
    CountedSpans,
    Document,
    Link,
    Section,
    Span,
)
from smartcrawl.model.file_urls import join_file_url
from smartcrawl.model.urls import MAX_URL_LENGTH, request_url

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


_CHARSETS: Final = CHARSETS | {"", "utf-16", "utf-32"}
_WORD: Final = 32  #: characters of the type of a link

_DOCUMENT: Final = TypeAdapter(Document)
_FIELDS: Final = tuple(one.name for one in fields(Document))


def parse_document_answer(
    answer: bytes, media_type: str, longest: int = LONGEST, url: str = ""
) -> Document:
    """Return the document of an answer; its fields may have ``longest`` characters.

    ``url``: the address of the document. A file may link to other files of its place.

    Raises:
        FormatError: the answer is an error.
        AnswerError: no reader of ``media_type`` gives such an answer.
    """
    if answer[:1] == b"E":
        raise _error(answer[1:])
    try:
        document = _DOCUMENT.validate_json(memoryview(answer)[1:].tobytes(), strict=True)
    except ValidationError as error:
        raise AnswerError(str(error)[:LONGEST]) from error
    document = _without_faulty_parts(document, max(longest, LONGEST), answer, url)
    wrong = _wrong(document, media_type, max(longest, LONGEST), answer)
    if answer[:1] != b"D" or wrong:
        raise AnswerError(f"a document with {wrong}")
    return document


def _without_faulty_parts(document: Document, longest: int, answer: bytes, url: str) -> Document:
    """Return a document without the blocks, spans, links and pictures that no reader gives.

    Its text stays. ``Document.faulty`` is their number.
    """
    has_nul = b"\\u0000" in answer
    sections = tuple(
        _with_sound_spans(
            section._replace(blocks=tuple(_sound_blocks(section))) if section.blocks else section
        )
        for section in document.sections
    )
    links = tuple(
        link
        for link in document.links
        if _is_sound(link, url) and _is_sound_text(link.anchor, longest, has_nul=has_nul)
    )
    images = tuple(
        image
        for image in document.images
        if all(
            _is_sound_text(text, longest, has_nul=has_nul) for text in image if type(text) is str
        )
    )
    faulty = len(document.links) - len(links) + len(document.images) - len(images)
    faulty += sum(
        _parts(given) - _parts(kept)
        for given, kept in zip(document.sections, sections, strict=True)
    )
    counted = document.counted and _sound_counted(document.counted)
    if document.counted is not None:
        faulty += len(document.counted.kinds) - len(counted.kinds if counted else ())
    return replace(
        document, sections=sections, links=links, images=images, counted=counted, faulty=faulty
    )


def _parts(section: Section) -> int:
    return len(section.blocks) + len(section.spans) + len(section.head)


def _is_sound_text(text: str, longest: int, *, has_nul: bool) -> bool:
    return len(text) <= longest and not (has_nul and "\0" in text)


def _error(answer: bytes) -> FormatError:
    try:
        fields: Any = json.loads(answer)
        return FormatError(FormatFault(fields["kind"]), str(fields["message"])[:LONGEST])
    except (ValueError, TypeError, LookupError) as error:
        raise AnswerError("an error that cannot be read") from error


def _wrong(document: Document, media_type: str, longest: int, answer: bytes) -> str:
    """Return the fault of a document that no reader gives, or an empty string."""
    texts = [document.title, document.description, document.keywords, document.author]
    texts += document.overlong
    if any(len(text) > longest for text in texts):
        return "an overlong field"
    if sum(len(section.heading) + len(section.text) for section in document.sections) > MAX_TEXT:
        return "too much text"
    if b"\\u0000" in answer and "\0" in "".join((*texts, document.text)):
        return "a NUL"
    if any(not 0 <= section.level <= 6 for section in document.sections):
        return "a heading of no level"
    if len(document.links) > MAX_LINKS or len(document.overlong) > MAX_OVERLONG:
        return "too many links"
    for named in (document.canonical, document.refresh):
        if named is not None and request_url(named, routes=True) != named:
            return "a canonical address or refresh that is none"
    if document.charset not in _CHARSETS or any(
        len(code) not in (0, 2) for code in (document.language, document.declared)
    ):
        return "no charset or no language"
    return "" if document.content_type == media_type else "another type"


def _sound_blocks(section: Section) -> Iterator[Block]:
    """Yield the blocks that are in the text, by their start; code and tables do not overlap."""
    start = end = 0
    for block in section.blocks:
        inside = block.kind in BLOCK_KINDS and start <= block.start < block.end <= len(section.text)
        first = block.caption or block.start
        places = [block.start, first, *chain.from_iterable(block.rows), block.end]
        if not inside or not all(map(le, places, places[1:])) or block.head < 0:
            continue
        if block.kind != LIST:
            if block.start < end:
                continue
            end = block.end
        start = block.start
        yield block


def _with_sound_spans(section: Section) -> Section:
    """Return a section without the spans that no reader gives."""
    if not (section.spans or section.head):
        return section
    spans = _sound_spans(section.spans, len(section.text))
    return section._replace(spans=spans, head=_sound_spans(section.head, len(section.heading)))


def _sound_spans(spans: Iterable[Span], size: int) -> tuple[Span, ...]:
    """Return the spans that are in their text, by their start, and of lengths that we give."""
    kept: list[Span] = []
    start = 0
    for span in spans:
        longest = max(map(len, (span.target, span.link, span.text)))
        inside = start <= span.start <= span.end <= size and longest <= MAX_URL_LENGTH
        if inside and span.kind in SPAN_KINDS:
            kept.append(span)
            start = span.start
    return tuple(kept)


def _sound_counted(counted: CountedSpans) -> CountedSpans | None:
    """Return counted spans without those that no reader gives; None if none are left."""
    total, kinds, starts, ends, targets, pictures = counted
    if kinds.count(PICTURE) != len(pictures):
        return None
    shown = iter(pictures)
    kept: list[tuple[str, int, int, str]] = []
    kept_pictures: list[CountedPicture] = []
    last = 0
    for span in zip(kinds, starts, ends, targets, strict=False):
        kind, start, end, target = span
        texts = [target]
        if kind == PICTURE:
            picture = next(shown)
            texts += (picture.text, picture.link)
        inside = last <= start <= end <= total and kind in SPAN_KINDS
        if not inside or max(map(len, texts)) > MAX_URL_LENGTH:
            continue
        kept.append(span)
        if kind == PICTURE:
            kept_pictures.append(picture)
        last = start
    if not kept:
        return None
    kinds, starts, ends, targets = zip(*kept, strict=True)
    return CountedSpans(total, kinds, starts, ends, targets, tuple(kept_pictures))


def _is_sound(link: Link, url: str) -> bool:
    if len(link.type) > _WORD:
        return False
    return request_url(link.url, routes=True) == link.url or _is_file_beside(link.url, url)


def _is_file_beside(linked: str, url: str) -> bool:
    """Whether a link leads from a file, not a web page, to a file of the same place."""
    return bool(url) and join_file_url(document_base_url(url), linked) == linked


if sys.platform == "linux":
    import fcntl

logger = logging.getLogger(__name__)

PAGES: Final = 25  #: so many pages wear a process out as much as one other document
_PIPE: Final = 512 * 1024  #: bytes of answers in the pipe
#: The same of requests: most portions of pages are written with one call, for which the process
#: need not wait for Python's lock.
_PIPE_OF_REQUESTS: Final = 1024 * 1024
_START_SECONDS: Final = 60.0  #: limit for the start of a process
_END_SECONDS: Final = 10.0  #: limit for the end of a process that was killed
_COMPLAINT: Final = 4_096  #: bytes at the end of its standard error that count
_COMPLAINTS: Final = 65_536  #: bytes of it in the pipe; parsers complain of documents before, too
#: Signals by which a parser ends itself; another may come from the operator or the system.
_CRASHES: Final = frozenset(
    {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"}
)
_NO_MEMORY: Final = (b"memory allocation of", b"MemoryError")  #: words of Rust and of Python


class ProcessStartError(FormatError):
    """No process can be had; no document is the reason."""

    def __init__(self, why: object) -> None:
        what = f"the process that reads documents does not start: {why}"
        super().__init__(FormatFault.CRASHED, what, lasting=False)


class ParserProcess:
    """One process that reads documents, used by one thread at a time."""

    def __init__(self, command: Sequence[str], memory: int, cpu_seconds: int, *more: str) -> None:
        """Start ``command``, arguments of Python; ``begin`` waits until it is ready.

        Raises:
            OSError: the system starts no more processes.
        """
        self.has_begun = False
        self.worn = 0  #: pages, or PAGES for each other document
        self.missing: list[str] = []
        self._cpu_seconds = cpu_seconds
        self._deadline = 0.0
        self._overdue = self._killed = False
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
        self._popen = subprocess.Popen(  # noqa: S603  # our own module, no shell
            [sys.executable, *command, str(memory), str(cpu_seconds), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=os.path.abspath(os.sep),
            env={"PYTHONPATH": path, **kept},
            start_new_session=True,  # Ctrl-C is for the crawler
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._input = cast(RawIOBase, self._popen.stdin)
        output = cast(RawIOBase, self._popen.stdout)
        self._output = BufferedReader(output, _PIPE)  # several answers with one call
        if sys.platform == "linux":
            with suppress(OSError):  # more than the system grants
                fcntl.fcntl(self._output.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
                fcntl.fcntl(self._input.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_OF_REQUESTS)

    @property
    def alive(self) -> bool:
        """Whether it can take a request."""
        return self._popen.poll() is None and not (self._overdue or self._killed)

    def begin(self) -> None:
        """Wait until it has confined itself; ``missing`` lists the limits that the platform lacks.

        Raises:
            FormatError: it ended at once (CRASHED).
        """
        with closing(self._answers(_START_SECONDS, MAX_HEADER, 1)) as answers:
            self.missing = json.loads(next(answers))
        self.has_begun = True

    def ask(self, header: bytes, body: bytes, seconds: float, pages: int = 0) -> Generator[bytes]:
        """Yield its answer to one document, or to each of so many ``pages``; close the generator.

        Raises:
            FormatError: it ended, or took more than ``seconds`` of wall time for one answer. The
                process has ended then.
        """
        self.worn += pages or PAGES
        return self._answers(seconds, MAX_ANSWER, pages or 1, header, body)

    def _answers(self, seconds: float, limit: int, count: int, *frames: bytes) -> Generator[bytes]:
        done = Event()
        self._deadline = time.monotonic() + seconds
        Thread(target=self._watch, args=(done,), daemon=True).start()
        try:
            send_extraction_frames(self._input, *frames)
            for _ in range(count):
                yield receive_extraction_frame(self._output, limit)
                self._deadline = time.monotonic() + seconds
        except (OSError, EOFError, ValueError, AnswerError) as error:
            raise self._end(error, seconds) from error
        finally:
            done.set()

    def _watch(self, done: Event) -> None:
        """Kill it when its deadline passes before it is done."""
        while (left := self._deadline - time.monotonic()) > 0:
            if done.wait(left):
                return
        self._overdue = True
        self._popen.kill()

    def kill(self) -> None:
        """End it now, from any thread."""
        self._killed = True
        self._popen.kill()

    def _end(self, error: Exception, seconds: float) -> FormatError:
        """End it, and return the reason why it has not answered."""
        if isinstance(error, AnswerError):
            self.kill()
        code, complaint = self._reap()
        if self._overdue:  # where processor time is limited, the machine was too busy
            what = f"reading took more than {seconds:g} seconds"
            return FormatError(FormatFault.TIME_OUT, what, lasting=not HAS_LIMITS)
        if HAS_LIMITS and code == -signal.SIGXCPU:
            what = f"reading took more than {self._cpu_seconds} seconds of processor time"
            return FormatError(FormatFault.TIME_OUT, what)
        if any(words in complaint for words in _NO_MEMORY):
            what = "the document needs more memory than one document may have"
            return FormatError(FormatFault.MEMORY, what)
        if not self.has_begun:
            last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            return ProcessStartError(last or _cause(code))
        logger.debug("a reading process ended: %s", complaint.decode(errors="replace"))
        if isinstance(error, AnswerError):
            return FormatError(FormatFault.CRASHED, f"its reader answered with {error}")
        cause = _cause(code)
        what = f"its reader crashed: {cause}"
        return FormatError(FormatFault.CRASHED, what, lasting=cause in _CRASHES)

    def end(self) -> None:
        """Kill it and wait for its end."""
        if not self._output.closed:
            self.kill()
            self._reap()

    def _reap(self) -> tuple[int, bytes]:
        """Wait for its end; return its exit code and its standard error."""
        try:
            code = self._popen.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._popen.wait()
        complaint = b""
        if self._popen.stderr is not None:
            complaint = (self._popen.stderr.read(_COMPLAINTS) or b"")[-_COMPLAINT:]
            self._popen.stderr.close()
        self._input.close()
        self._output.close()
        return code, complaint


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


_T = TypeVar("_T")

MIB: Final = 1024 * 1024
MAX_DOCUMENTS: Final = 200  #: read by one process; the leaks of its libraries end with it
_MAX_TYPE: Final = 1_000  #: characters of a Content-Type header
_MOST_WAITING: Final = 16 * MIB  #: bytes of answers that wait to be parsed
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
    maker: PartMaker | None = None  #: of what comes with it

    def parsed(self, answer: bytes) -> Document:
        """Return the document of an answer, as ``parse_document_answer``."""
        described, parts = document_parts_from_wire(answer)
        document = parse_document_answer(described, self.media_type, self.longest, self.url)
        if parts is None:
            return document
        if self.maker is None:
            raise AnswerError("parts that nothing asked for")
        read = {name: getattr(document, name) for name in _FIELDS}
        return ReadDocument(**read, parts=self.maker.parse(parts, document, self.url))


def _received(
    process: ParserProcess, answers: Iterator[bytes], expected: Sequence[_Expected]
) -> Iterator[bytes | Document | FormatError]:
    """Yield the answers of a process, until it can give no more.

    Documents are parsed later, while the process reads on; but errors at once, as one may end it,
    and documents too, where very much waits to be parsed.
    """
    waiting = 0
    for document in expected:
        try:
            answer = next(answers)
            waiting += len(answer)
            is_late = answer[:1] != b"E" and waiting <= _MOST_WAITING
            yield answer if is_late else document.parsed(answer)
        except AnswerError as error:
            yield _ended_for(process, error)
            return
        except FormatError as error:
            if error.kind is FormatFault.MEMORY:
                process.kill()
            yield error
            if not process.alive:
                return


def _parsed(
    process: ParserProcess,
    received: Iterable[bytes | Document | FormatError],
    expected: Sequence[_Expected],
) -> Iterator[Document | FormatError]:
    """Yield the documents of answers. A wrong one ends its process, and none after it counts."""
    for answer, document in zip(received, expected, strict=False):
        try:
            yield document.parsed(answer) if isinstance(answer, bytes) else answer
        except AnswerError as error:
            yield _ended_for(process, error)
            return


def _ended_for(process: ParserProcess, error: AnswerError) -> FormatError:
    process.kill()
    return FormatError(FormatFault.CRASHED, f"its reader answered with {error}")


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
        maker: PartMaker | None = None,
    ) -> None:
        """``maker``: of what else is made of pages; its processes read nothing else."""
        self.workers = workers
        self._maker = maker
        self._order = None if maker is None else maker.order
        self._memory = memory
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._arguments = (_PAGES_ONLY,) if pages_only or maker is not None else ()
        # A process reads the next pages while a second thread parses its answers to the last ones.
        threads = 2 * workers if self._arguments else workers
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="formats")
        self._turns = BoundedSemaphore(workers)
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

    async def start(self) -> None:
        """Start every process now, and wait until all of them are ready.

        Raises:
            FormatError: one does not start.
            RuntimeError: the pool is closed.
        """
        await asyncio.gather(*(self._run(self._start) for _ in range(self.workers)))

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
                _Expected(media_type, len(task.body), task.url, self._maker)
                for task in rest
                for media_type in (media_type_of(task.content_type, task.body),)
            ]
            frames = wire_extraction_tasks(rest, selected, self._order)
            try:
                found += self._ask(job, *frames, expected, len(rest))
            except FormatError as error:
                found += [error] * len(rest)
        return found

    def _start(self, job: _Job) -> None:
        """Start a process that waits for its first document, in a thread."""
        with self._turns:
            process, keep = self._process(), False
            try:
                keep = job.take(process)
                self._begin(process)
            finally:
                self._put_back(process, keep=job.leave() and keep)

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
        with self._turns:
            process, keep = self._process(), False
            try:
                if not job.take(process):
                    what = "the document was given up before it was read"
                    raise FormatError(FormatFault.CRASHED, what, lasting=False)
                self._begin(process)
                counted = share.budget.reading(share.host) if share is not None else nullcontext()
                asked_for = process.ask(header, body, self._wall_seconds, pages)
                with counted, closing(asked_for) as answers:
                    found = list(_received(process, answers, expected))
                keep = len(found) == len(expected) and process.alive
            finally:
                self._put_back(process, keep=job.leave() and keep)
        documents = list(_parsed(process, found, expected))
        if len(documents) < len(expected) or not process.alive:
            self._drop(process)
        return documents

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
            command = _CHILD if self._maker is None else (*_CHILD[:-1], self._maker.module)
            return ParserProcess(command, self._memory, self._cpu_seconds, *self._arguments)
        except OSError as error:
            raise ProcessStartError(error) from error

    def _begin(self, process: ParserProcess) -> None:
        if process.has_begun:
            return
        process.begin()
        if process.missing and not self._warned:
            self._warned = True
            logger.warning(
                "documents are read without limits of %s, which this platform does not offer:"
                " read those of strangers elsewhere",
                ", ".join(process.missing),
            )

    def _drop(self, process: ParserProcess) -> None:
        """End a process that an answer has shown to be no reader, unless another job has it."""
        with self._lock:
            if process not in self._idle:
                return
            self._idle.remove(process)
        process.end()

    def _put_back(self, process: ParserProcess, *, keep: bool) -> None:
        with self._lock:
            keep = keep and not self._closed and process.worn < MAX_DOCUMENTS * PAGES
            if keep:
                self._idle.append(process)
        if not keep:
            process.end()


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
        self._last: asyncio.Event | None = None  #: set when the last portion has its results

    async def read(self, task: PageTask) -> Document:
        """Return the document of a page, like ``html.parse_html``.

        One process gives pages in the order in which they came, so that they get the same numbers
        as without it.

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
            before, done = self._last, asyncio.Event()
            self._last = done
            pages = [task for task, _ in portion]
            try:
                found = await self._pool.read_pages(pages, self._selected)
                if before is not None and self._pool.workers == 1:
                    await before.wait()
            except Exception as error:  # noqa: BLE001  # every waiting page gets a result
                _fail(portion, error)
            except BaseException as error:  # likewise
                _fail(portion, error)
                raise
            else:
                _give(portion, found)
            finally:
                done.set()

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


def _give(portion: list[_Waiting], found: Sequence[Document | FormatError]) -> None:
    for (_, future), result in zip(portion, found, strict=True):
        if future.done():
            continue  # its page was cancelled
        if isinstance(result, Document):
            future.set_result(result)
        else:
            future.set_exception(result)


def _fail(portion: list[_Waiting], error: BaseException) -> None:
    for _, future in portion:
        if isinstance(error, asyncio.CancelledError):
            future.cancel()
        elif not future.done():
            future.set_exception(error)
