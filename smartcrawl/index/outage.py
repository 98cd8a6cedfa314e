"""The waits for a server that is away or busy: their lengths, and their end in each outage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_FIRST_WAIT: Final = 1.0  #: seconds after the first failure; doubled after each further one
_LONGEST_WAIT: Final = 30.0  #: seconds between two tries, unless the server asks for more


class AwayError(Exception):
    """The server gave no usable answer, and may give one later."""

    def __init__(self, reason: str, *, wait: int | None = None, was_refused: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait  #: seconds that the server asks to wait; None: it does not say
        self.was_refused = was_refused  #: whether it is known that the request was not carried out


class Outage:
    """The tries of one outage, which begins with a failure and ends with an answer.

    At most ``most`` seconds are waited in all. A Retry-After beyond them ends the outage's waiting
    at once.
    """

    def __init__(self, most: float, clock: Callable[[], float]) -> None:
        """``clock`` measures seconds."""
        self._most, self._clock = most, clock
        self._began: float | None = None  #: time of the first failure
        self.tries = 0  #: waits so far

    def next_wait(self, failure: AwayError) -> float | None:
        """Return the seconds before the next try; None: they would be too many in all."""
        now = self._clock()
        self._began = now if self._began is None else self._began
        wait: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2**self.tries)
        if failure.wait is not None:
            wait = max(float(failure.wait), _FIRST_WAIT)
        if now + wait - self._began > self._most:
            return None
        self.tries += 1
        return wait

    def end(self) -> None:
        """Note that the server answered."""
        self._began, self.tries = None, 0
