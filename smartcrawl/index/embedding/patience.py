"""Waiting for a server that is away or busy: bounded, and once in an outage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartcrawl.index.outage import AwayError, Outage
from smartcrawl.model.exceptions import EmbedderAwayError

PAUSE: Final = 60.0  #: seconds after an outage's wait in which the server is asked nothing


class EmbedderPatience:
    """Waits in the outages of a server, and gives it a pause after one that takes too long.

    In the pause every call fails at once, and one try after it finds out whether the outage is
    over: an absent server does not hold up a crawl.
    """

    def __init__(
        self, host: str, most: int, clock: Callable[[], float], sleep: Callable[[float], object]
    ) -> None:
        """``most``: seconds, as of ``Outage``; ``clock`` measures them, ``sleep`` waits."""
        self._host, self._clock, self._sleep = host, clock, sleep
        self._outage = Outage(most, clock)
        self._paused: tuple[float, str] | None = None  #: end of the pause, and the last reason

    def check_pause(self) -> None:
        """Refuse a request while the server is given a rest.

        Raises:
            EmbedderAwayError: it is; the message says for how long.
        """
        if self._paused is not None and self._clock() < self._paused[0]:
            end, reason = self._paused
            raise EmbedderAwayError(self._host, reason, end - self._clock())

    def wait(self, failure: AwayError) -> None:
        """Wait before the next try.

        Raises:
            EmbedderAwayError: the outage would be waited for too long.
        """
        wait = self._outage.next_wait(failure)
        if wait is None:
            pause = PAUSE if failure.wait is None else max(PAUSE, float(failure.wait))
            self._paused = (self._clock() + pause, str(failure))
            raise EmbedderAwayError(self._host, str(failure), pause) from None
        self._sleep(wait)

    def end_outage(self) -> None:
        """Note that the server answered."""
        self._outage.end()
        self._paused = None
