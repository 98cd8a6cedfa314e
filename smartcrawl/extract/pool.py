"""Documents read in processes of their own: whatever one of them does, only it is lost."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import RawIOBase
from threading import Lock, Timer
from typing import Final, cast

from smartcrawl.extract.confine import HAS_LIMITS
from smartcrawl.extract.formats import check
from smartcrawl.extract.formats.common import FormatError, FormatFault, too_large
from smartcrawl.extract.wire import (
    MAX_ANSWER,
    MAX_BODY,
    MAX_HEADER,
    AnswerError,
    receive,
    send,
    understood,
)
from smartcrawl.items import Document

logger = logging.getLogger(__name__)

MIB: Final = 1024 * 1024
MAX_DOCUMENTS: Final = 200  #: read by one process; what its libraries leak ends with it
_MAX_TYPE: Final = 1_000  #: characters of a Content-Type header
_CHILD: Final = ("-P", "-m", "smartcrawl.extract.child")
_START_SECONDS: Final = 60.0  #: until a process must have loaded everything
_END_SECONDS: Final = 10.0  #: until a process that was killed must have ended
_COMPLAINT: Final = 4_096  #: bytes of its standard error that are looked at
_NO_MEMORY: Final = (b"memory allocation of", b"MemoryError")  #: words of Rust and of Python


class _Process:
    """One process that reads documents, spoken to by one thread at a time."""

    def __init__(self, memory: int, cpu_seconds: int) -> None:
        """Start it; ``begin`` waits until it can be asked.

        Raises:
            OSError: the system starts no more processes.
        """
        self.documents = 0
        self.missing: list[str] = []
        self._cpu_seconds = cpu_seconds
        self._overdue = False
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
        self._popen = subprocess.Popen(  # noqa: S603  # our own module, no shell
            [sys.executable, *_CHILD, str(memory), str(cpu_seconds)],
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
        self._output = cast(RawIOBase, self._popen.stdout)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._popen.poll() is None and not self._overdue

    def begin(self) -> None:
        """Wait until it has confined itself; see ``missing`` for what it could not give up.

        Raises:
            FormatError: CRASHED: it ended at once.
        """
        self.missing = json.loads(self._within(_START_SECONDS, MAX_HEADER))

    def ask(self, header: bytes, body: bytes, seconds: float) -> bytes:
        """Return its answer.

        Raises:
            FormatError: it ended, or took more than ``seconds`` of wall time; it is dead then.
        """
        self.documents += 1
        return self._within(seconds, MAX_ANSWER, header, body)

    def _within(self, seconds: float, limit: int, *frames: bytes) -> bytes:
        timer = Timer(seconds, self._time_out)
        timer.daemon = True
        timer.start()
        try:
            send(self._input, *frames)
            return receive(self._output, limit)
        except (OSError, EOFError, ValueError, AnswerError) as error:
            raise self._end(error, seconds) from error
        finally:
            timer.cancel()

    def _time_out(self) -> None:
        self._overdue = True
        self._popen.kill()

    def kill(self) -> None:
        """End it now, from any thread."""
        self._popen.kill()

    def _end(self, error: Exception, seconds: float) -> FormatError:
        """Return why it has not answered, and see that it is gone."""
        if isinstance(error, AnswerError):
            self.kill()
        code, complaint = self._reap()
        if self._overdue:
            what = f"reading took more than {seconds:g} seconds"
            return FormatError(FormatFault.TIME_OUT, what)
        if HAS_LIMITS and code == -signal.SIGXCPU:
            what = f"reading took more than {self._cpu_seconds} seconds of processor time"
            return FormatError(FormatFault.TIME_OUT, what)
        if any(words in complaint for words in _NO_MEMORY):
            what = "the document needs more memory than one document may have"
            return FormatError(FormatFault.MEMORY, what)
        if not self.documents:
            last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            what = f"the process that reads documents does not start: {last or _cause(code)}"
            return FormatError(FormatFault.CRASHED, what)
        logger.debug("a reading process ended: %s", complaint.decode(errors="replace"))
        if isinstance(error, AnswerError):
            return FormatError(FormatFault.CRASHED, f"its reader answered with {error}")
        return FormatError(FormatFault.CRASHED, f"its reader crashed: {_cause(code)}")

    def end(self) -> None:
        """End it and wait for that."""
        if not self._output.closed:
            self.kill()
            self._reap()

    def _reap(self) -> tuple[int, bytes]:
        """Wait for its end; return its code and what it complained about."""
        try:
            code = self._popen.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._popen.wait()
        complaint = b""
        if self._popen.stderr is not None:
            complaint = self._popen.stderr.read(_COMPLAINT) or b""
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


class _Job:
    """One document on its way, which may be given up from another thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: _Process | None = None
        self._given_up = False

    def take(self, process: _Process) -> bool:
        """Note who reads it; return whether it is still wanted."""
        with self._lock:
            self._process = process
            return not self._given_up

    def leave(self) -> bool:
        """Forget who read it; return whether it was wanted to the end."""
        with self._lock:
            self._process = None
            return not self._given_up

    def give_up(self) -> None:
        """End the process that reads it, now or as soon as there is one."""
        with self._lock:
            self._given_up = True
            if self._process is not None:
                self._process.kill()


class FormatPool:
    """Reads documents in at most ``workers`` processes, which start when they are needed.

    ``memory`` is the address space of each in bytes, about 100 MiB of which are its own;
    ``cpu_seconds`` and ``wall_seconds`` are what one document may take. The processes are written
    to and read from in threads: asyncio's own subprocesses need a child watcher, which Twisted's
    reactor does not run.
    """

    def __init__(
        self,
        workers: int = 2,
        memory: int = 512 * MIB,
        cpu_seconds: int = 30,
        wall_seconds: float = 60,
    ) -> None:
        self._memory = memory
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="formats")
        self._lock = Lock()
        self._idle: list[_Process] = []
        self._jobs: set[_Job] = set()
        self._closed = False
        self._warned = False

    async def read(self, body: bytes, *, media_type: str, content_type: str, url: str) -> Document:
        """Return what a document says, as ``formats.read_document`` does.

        Given up, it ends the process that reads.

        Raises:
            FormatError: the document cannot be read; others are not affected.
            RuntimeError: the pool is closed.
            ValueError: as with ``read_document``.

        Source: R0-60.
        """
        check(media_type, url)
        if self._closed:
            raise RuntimeError("the pool of readers is closed")
        if len(body) > MAX_BODY:
            raise too_large(f"the document has more than {MAX_BODY:,} bytes")
        told = {"media_type": media_type, "content_type": content_type[:_MAX_TYPE], "url": url}
        header = json.dumps(told).encode()
        job = _Job()
        self._jobs.add(job)
        work = partial(self._read, job, header, body, media_type)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._jobs.discard(job)
            job.give_up()  # no more than a note when it is done

    async def close(self) -> None:
        """End all processes; what is being read fails. Call it once nothing is to be read."""
        self._closed = True
        for job in list(self._jobs):
            job.give_up()
        with self._lock:
            idle, self._idle = self._idle, []
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, partial(self._end, idle))

    def _end(self, idle: list[_Process]) -> None:
        for process in idle:
            process.end()
        self._threads.shutdown(cancel_futures=True)

    def _read(self, job: _Job, header: bytes, body: bytes, media_type: str) -> Document:
        """Read one document, in a thread."""
        process = self._process()
        keep = False
        try:
            if not job.take(process):
                raise FormatError(FormatFault.CRASHED, "nobody waits for the document any more")
            if not process.documents:
                self._begin(process)
            answer = process.ask(header, body, self._wall_seconds)
            document = understood(answer, media_type)
            keep = True
        except AnswerError as error:
            what = f"its reader answered with {error}"
            raise FormatError(FormatFault.CRASHED, what) from error
        except FormatError as error:
            keep = process.alive and error.kind is not FormatFault.MEMORY
            raise
        finally:
            self._put_back(process, keep=job.leave() and keep)
        return document

    def _process(self) -> _Process:
        """Return a process that nobody else has, a new one if none is idle."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                process = self._idle.pop()
            if process.alive:
                return process
            process.end()  # it was killed while it had nothing to do
        try:
            return _Process(self._memory, self._cpu_seconds)
        except OSError as error:
            what = f"the process that reads documents does not start: {error}"
            raise FormatError(FormatFault.CRASHED, what) from error

    def _begin(self, process: _Process) -> None:
        process.begin()
        if process.missing and not self._warned:
            self._warned = True
            logger.warning(
                "documents are read without limits of %s, which this platform does not offer:"
                " read those of strangers elsewhere",
                ", ".join(process.missing),
            )

    def _put_back(self, process: _Process, *, keep: bool) -> None:
        with self._lock:
            keep = keep and not self._closed and process.documents < MAX_DOCUMENTS
            if keep:
                self._idle.append(process)
        if not keep:
            process.end()
