"""The time by which idempotency keys age, whatever the clock does (ADR 120)."""

from __future__ import annotations

from typing import Final

KEPT: Final = 86_400  #: seconds for which a key is kept (R2-17)


class KeyTime:
    """The time by which keys age. A clock that leaps ahead ages them by six hours at most.

    Where more than a day seems to lie between two requests with a key, the clock may have leapt.
    Keys live longer then, which costs nothing.
    """

    def __init__(self) -> None:
        self._seen: int | None = None  # the clock at the last request
        self._ahead = 0  # seconds by which it is ahead of this time

    def at(self, now: int, newest: int | None) -> int:
        """Return this time at ``now``, both in Unix seconds; ``newest``: that of the newest key.

        >>> time, day = KeyTime(), 86_400
        >>> time.at(0, None), time.at(day, 0), time.at(400 * day, day), time.at(400 * day + 9, day)
        (0, 86400, 108000, 108009)
        >>> time.at(day + 60, 108_009)  # the clock is right again
        86460
        """
        if newest is not None:
            self._seen = max(self._seen or 0, newest + self._ahead)
        if self._seen is not None:
            gap = now - self._seen
            if gap > KEPT:
                self._ahead += gap - KEPT // 4
            elif gap < 0:
                self._ahead = max(0, self._ahead + gap)
        self._seen = now
        return now - self._ahead
