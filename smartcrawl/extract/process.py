"""The crawler's side of one reading process: its requests, its answers and its end."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from io import BufferedReader, RawIOBase
from threading import Event, Thread
from typing import Final, cast

from smartcrawl.extract.confine import HAS_LIMITS
from smartcrawl.extract.formats.common import FormatError, FormatFault
from smartcrawl.extract.wire import (
    MAX_ANSWER,
    MAX_HEADER,
    AnswerError,
    receive_extraction_frame,
    send_extraction_frames,
)

if sys.platform == "linux":
    import fcntl

logger = logging.getLogger(__name__)

PAGES: Final = 25  #: so many pages wear a process out as much as one other document
_PIPE: Final = 512 * 1024  #: bytes of answers in the pipe
_START_SECONDS: Final = 60.0  #: limit for the start of a process
_END_SECONDS: Final = 10.0  #: limit for the end of a process that was killed
_COMPLAINT: Final = 4_096  #: bytes of its standard error that are read
#: Signals by which a parser ends itself; another may come from the operator or the system.
_CRASHES: Final = frozenset(
    {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"}
)
_NO_MEMORY: Final = (b"memory allocation of", b"MemoryError")  #: words of Rust and of Python


class ParserProcess:
    """One process that reads documents, used by one thread at a time."""

    def __init__(self, command: Sequence[str], memory: int, cpu_seconds: int, *more: str) -> None:
        """Start ``command``, arguments of Python; ``begin`` waits until it is ready.

        Raises:
            OSError: the system starts no more processes.
        """
        self.documents = 0
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

    def ask(self, header: bytes, body: bytes, seconds: float, pages: int = 0) -> Generator[bytes]:
        """Yield its answer to one document, or to each of so many ``pages``; close the generator.

        Raises:
            FormatError: it ended, or took more than ``seconds`` of wall time for one answer. The
                process has ended then.
        """
        self.documents += pages or 1
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
        if not self.documents:
            last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            what = f"the process that reads documents does not start: {last or _cause(code)}"
            return FormatError(FormatFault.CRASHED, what, lasting=False)
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
