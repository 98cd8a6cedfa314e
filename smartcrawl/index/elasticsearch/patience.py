"""Limited waits for an Elasticsearch that is unreachable or overloaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from smartcrawl.index.elasticsearch import library
from smartcrawl.index.elasticsearch.faults import (
    index_fault_reason,
    index_refusal,
    is_passing_index_fault,
)
from smartcrawl.model.exceptions import SinkError

LONGEST_PAUSE: Final = 30.0  #: seconds
_STEP: Final = 1.0  #: seconds between two reports

Answer = TypeVar("Answer")


class ElasticsearchPatience:
    """A limit for waits while requests fail; any success resets it.

    ``seconds`` is ``SINK_WAIT_SECONDS``. ``on_wait`` is called with a line for people each second
    of a wait; an exception of it ends the wait. ``first_pause``, in seconds, doubles with each
    failure in a row.
    """

    def __init__(
        self,
        seconds: float,
        on_wait: Callable[[str], None] = lambda line: None,
        *,
        first_pause: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds = seconds
        self._on_wait = on_wait
        self._first_pause = first_pause
        self._clock = clock
        self._sleep = sleep
        self._since: float | None = None
        self._failures = 0

    def at_most(self, seconds: float) -> ElasticsearchPatience:
        """Return a copy with a lower limit."""
        return ElasticsearchPatience(
            min(seconds, self._seconds),
            self._on_wait,
            first_pause=self._first_pause,
            clock=self._clock,
            sleep=self._sleep,
        )

    def met(self) -> None:
        """Note a success."""
        self._since, self._failures = None, 0

    def wait(self, name: str, why: str) -> None:
        """Wait before the next try; ``name`` is the server, ``why`` the error.

        Raises:
            SinkError: the limit is reached. The run can be resumed.
        """
        now = self._clock()
        if self._since is None:
            self._since = now
        gone = now - self._since
        if gone >= self._seconds:
            raise SinkError(
                f"{name} took nothing for {gone:.0f} s (SINK_WAIT_SECONDS): {why}. Nothing is"
                " lost: start the run again when it answers, and it goes on where it stopped"
            )
        pause = min(self._first_pause * 2 ** min(self._failures, 10), LONGEST_PAUSE)
        self._failures += 1
        until = now + min(pause, self._seconds - gone)
        while (left := until - self._clock()) > 0:
            gone = self._clock() - self._since
            self._on_wait(
                f"waiting for {name} since {gone:.0f} s: {why}; next try in {left:.0f} s,"
                f" the run ends in {self._seconds - gone:.0f} s"
            )
            self._sleep(min(left, _STEP))

    def ask(self, name: str, request: Callable[[], Answer]) -> Answer:
        """Return the answer to a request, repeated while its errors may pass.

        With a limit of 0 it is sent once.

        Raises:
            SinkError: the request is refused, or the limit is reached.
        """
        while True:
            try:
                answer = request()
            except (library.ApiError, library.TransportError) as error:
                if not self._seconds or not is_passing_index_fault(error):
                    raise index_refusal(error, name) from error
                self.wait(name, index_fault_reason(error))
            else:
                self.met()
                return answer
