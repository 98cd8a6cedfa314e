"""Patience with a server that is away: its length, its pauses, its log lines and its end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from copy import copy
from threading import Lock, Thread
from typing import Any, Final, TypeVar

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

LONGEST_PAUSE: Final = 30.0  #: seconds between two tries, unless the server asks for more
HURRY: Final = 5.0  #: seconds that a process waits after a signal
_SILENCE: Final = 30.0  #: seconds between two lines about a wait
_LONG: Final = 10.0  #: seconds of a wait after which ``when_long`` is called
_APART: Final = 90.0  #: seconds without a wait after which another one begins


class AwayError(Exception):
    """A server gave no usable answer, and may give one later."""

    def __init__(self, reason: str, *, wait: int | None = None, was_refused: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait  #: seconds that the server asks to wait; None: it does not say
        self.was_refused = was_refused  #: whether it is known that the request was not carried out


class Patience:
    """The waits for one server, by all that ask it.

    An outage begins with a failure and ends with an answer. It is waited for ``most`` seconds in
    all, and after ``hurry`` for some seconds at most. A Retry-After beyond that ends the wait.
    """

    def __init__(
        self,
        most: float,
        server: str,
        spent: Callable[[AwayError, float], Exception],
        *,
        first: float = 1.0,
        step: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """``spent`` makes the error at the end, of the last failure and the seconds of the outage.

        ``first``: seconds of the first pause, which doubles with each failure in a row. ``say`` is
        called after each ``step`` of a pause. ``clock`` measures seconds.
        """
        self.most, self._server, self._spent = most, server, spent
        self._first, self._step, self._clock, self._sleep = first, step, clock, sleep
        self.end = math.inf  #: time after which nothing waits any more
        self.say: Callable[[str], None] = self._log  #: gets a line; an error of it ends the wait
        self.when_long: Callable[[], None] = lambda: None  #: called now and then in a long wait
        self._since: float | None = None  #: first failure, while the server is away
        self._tries = 0
        self._waits = self._waited = self._logged = -math.inf  #: the wait's begin, end, last line

    def at_most(self, seconds: float) -> Patience:
        """Return a patience of its own with a lower limit."""
        own = copy(self)
        own.most = min(seconds, self.most)
        own.over()
        return own

    def ask(self, request: Callable[[], _T]) -> _T:
        """Return the answer to a request, which is repeated while it raises AwayError.

        Raises:
            Exception: the outage takes too long; or another error of the request.
        """
        while True:
            try:
                answer = request()
            except AwayError as failure:
                self.wait(failure)
            except Exception:
                self.over()  # an error is an answer, too
                raise
            else:
                self.over()
                return answer

    def wait(self, failure: AwayError) -> None:
        """Wait before the next try.

        Raises:
            Exception: the outage takes too long.
        """
        gone = self.begun()
        left = min(self.most - gone, self.end - self._clock())
        pause = min(self._first * 2 ** min(self._tries, 10), LONGEST_PAUSE)
        if failure.wait is not None:
            pause = max(float(failure.wait), self._first)
        if left <= 0 or (failure.wait is not None and pause > left):
            raise self._spent(failure, gone) from None
        self._tries += 1
        self.rest(min(pause, left), failure)

    def begun(self) -> float:
        """Note a failure; return the seconds since the first one."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        return now - self._since

    def rest(self, seconds: float, failure: AwayError | None = None) -> None:
        """Sleep, and wake up soon after ``hurry``."""
        until = self._clock() + seconds
        while (left := min(until, self.end) - self._clock()) > 0:
            if failure is not None:
                self._tell(failure, left)
            if self._sleep(min(left, self._step)):  # as Event.wait: something ends the pause
                return

    def _tell(self, failure: AwayError, left: float) -> None:
        gone, now = self.begun(), self._clock()
        self.say(
            f"waiting for {self._server} since {gone:.0f} s: {failure}; next try in {left:.0f} s,"
            f" the last one in {self.most - gone:.0f} s"
        )
        if now - self._waited >= _APART:
            self._waits = now
        self._waited = now
        if now - self._waits >= _LONG:
            self.when_long()

    def _log(self, line: str) -> None:
        if self._clock() - self._logged >= _SILENCE:
            self._logged = self._clock()
            logger.warning("%s", line)

    def over(self) -> None:
        """Note that the server answered."""
        self._since, self._tries = None, 0

    def hurry(self) -> None:
        """Wait for some seconds more at most; may be called in a signal handler."""
        self.end = self._clock() + HURRY

    @property
    def is_spent(self) -> bool:
        """Whether nothing waits for the server any more."""
        now, since = self._clock(), self._since
        return since is not None and (now > since + self.most or now > self.end)


class CallGivenUpError(Exception):
    """A call was given up before its answer came."""


class EndableCalls:
    """Makes each call in a thread of its own, so that another thread can end the wait for it.

    To close a connection does not wake the thread that reads from it. So that thread stays until
    its answer or its timeout comes, and keeps no process from its end; its caller goes on.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: set[Future[Any]] = set()
        self._is_over = False

    def made(self, call: Callable[[], _T], seconds: float | None = None) -> _T:
        """Return the result of a call, for which ``seconds`` are waited; None: as long as it takes.

        Raises:
            CallGivenUpError: ``give_up`` was called, before or meanwhile.
            TimeoutError: it takes longer.
        """
        ended: Future[_T] = Future()

        def work() -> None:
            with suppress(InvalidStateError):  # it was given up
                try:
                    ended.set_result(call())
                except BaseException as error:  # noqa: BLE001  # the caller gets it
                    ended.set_exception(error)

        with self._lock:
            if self._is_over:
                raise CallGivenUpError
            self._open.add(ended)
        Thread(target=work, name="embedding", daemon=True).start()
        try:
            return ended.result(seconds)
        finally:
            with self._lock:
                self._open.discard(ended)

    def give_up(self) -> None:
        """End all calls that wait, and every later one."""
        with self._lock:
            self._is_over = True
            for ended in self._open:
                with suppress(InvalidStateError):
                    ended.set_exception(CallGivenUpError())
