"""Waiting for a vector store that is away or busy: bounded in each outage."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from smartcrawl.index.vectorstore.api import AwayError
from smartcrawl.model.exceptions import PushError

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_FIRST_WAIT: Final = 1.0  #: seconds after the first failure; doubled after each further one
_LONGEST_WAIT: Final = 30.0  #: seconds between two tries, unless the server asks for more


class StorePatience:
    """The waits of one outage, which begins with a failure and ends with an answer.

    At most ``most`` seconds are waited in all; a Retry-After beyond them ends the push at once.
    """

    def __init__(
        self, host: str, most: float, clock: Callable[[], float], sleep: Callable[[float], object]
    ) -> None:
        """``clock`` measures seconds; ``sleep`` waits for as many."""
        self._host, self._most = host, most
        self._clock, self._sleep = clock, sleep
        self._began: float | None = None  #: time of the outage's first failure
        self._tries = 0

    def asked(self, request: Callable[[], _T]) -> _T:
        """Return the answer to a request that may be repeated, after waiting where need be.

        Raises:
            PushError: the server is away for too long.
        """
        while True:
            try:
                answer = request()
            except AwayError as failure:
                self.wait(failure)
            except Exception:
                self.end_outage()  # an error is an answer, too
                raise
            else:
                self.end_outage()
                return answer

    def wait(self, failure: AwayError) -> None:
        """Wait before the next try.

        Raises:
            PushError: the outage would be waited for too long.
        """
        now = self._clock()
        self._began = now if self._began is None else self._began
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**self._tries)
        if failure.wait is not None:
            wait = max(float(failure.wait), _FIRST_WAIT)
        if now + wait - self._began > self._most:
            raise PushError(
                f"{self._host} takes no files now ({failure}): the next push goes on from here"
            ) from None
        if not self._tries:
            logger.warning("waiting for %s: %s", self._host, failure)
        self._tries += 1
        self._sleep(wait)

    def end_outage(self) -> None:
        """Note that the server answered."""
        self._began, self._tries = None, 0
