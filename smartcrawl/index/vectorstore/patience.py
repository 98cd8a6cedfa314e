"""Waiting for a vector store that is away or busy: bounded in each outage."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from smartcrawl.index.outage import AwayError, Outage
from smartcrawl.model.exceptions import PushError

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class StorePatience:
    """Waits in the outages of a store; one that takes too long ends the push."""

    def __init__(
        self, host: str, most: float, clock: Callable[[], float], sleep: Callable[[float], object]
    ) -> None:
        """``most``: seconds, as of ``Outage``; ``clock`` measures them, ``sleep`` waits."""
        self._host, self._sleep = host, sleep
        self._outage = Outage(most, clock)

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
        is_first = not self._outage.tries
        wait = self._outage.next_wait(failure)
        if wait is None:
            raise PushError(
                f"{self._host} takes no files now ({failure}): the next push goes on from here"
            ) from None
        if is_first:
            logger.warning("waiting for %s: %s", self._host, failure)
        self._sleep(wait)

    def end_outage(self) -> None:
        """Note that the server answered."""
        self._outage.end()
