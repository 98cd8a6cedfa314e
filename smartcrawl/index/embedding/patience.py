"""Waiting for a server that is away or busy: bounded, and once in an outage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartcrawl.index.embedding.embeddings_api import AwayError
from smartcrawl.model.exceptions import EmbedderError

_FIRST_WAIT: Final = 1.0  #: seconds after the first failure; doubled after each further one
_LONGEST_WAIT: Final = 30.0  #: seconds between two tries, unless the server asks for more
PAUSE: Final = 60.0  #: seconds after an outage's wait in which the server is asked nothing


class EmbedderPatience:
    """The waits of one outage, which begins with a failure and ends with an answer.

    At most ``most`` seconds are waited in all. Then every call fails at once, and one try after
    each pause finds out whether the outage is over: an absent server does not hold up a crawl.
    """

    def __init__(
        self, host: str, most: int, clock: Callable[[], float], sleep: Callable[[float], object]
    ) -> None:
        self._host, self._most = host, most
        self._clock, self._sleep = clock, sleep
        self._began: float | None = None  #: time of the outage's first failure
        self._tries = 0
        self._paused: tuple[float, str] | None = None  #: end of the pause, and the last reason

    def check_pause(self) -> None:
        """Refuse a request while the server is given a rest.

        Raises:
            EmbedderError: it is; the message says for how long.
        """
        if self._paused is not None and self._clock() < self._paused[0]:
            raise self._away(self._paused[1], self._paused[0] - self._clock())

    def wait(self, failure: AwayError) -> None:
        """Wait before the next try.

        Raises:
            EmbedderError: the outage would be waited for too long.
        """
        now = self._clock()
        self._began = now if self._began is None else self._began
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**self._tries)
        if failure.wait is not None:
            wait = max(float(failure.wait), _FIRST_WAIT)
        if now + wait - self._began > self._most:
            pause = max(PAUSE, wait if failure.wait is not None else 0)
            self._paused = (now + pause, str(failure))
            raise self._away(str(failure), pause) from None
        self._tries += 1
        self._sleep(wait)

    def end_outage(self) -> None:
        """Note that the server answered."""
        self._began, self._tries, self._paused = None, 0, None

    def _away(self, reason: str, seconds: float) -> EmbedderError:
        return EmbedderError(
            f"{self._host} makes no vectors now ({reason}): it is asked again after"
            f" {max(1, round(seconds))} s, and texts that get no vector in this run get it in a"
            " later one",
            lasting=False,
        )
