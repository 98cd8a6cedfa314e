"""How many requests at a time a host gets: all that are permitted, or one where it slows down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final

ALONE: Final = 4  #: answers to single requests that show the latency of a host by itself
TOGETHER: Final = 8  #: answers to requests at the same time that are compared with it
SLOWER: Final = 1.5  #: times that latency; a host that needs more slows down
SLACK: Final = 0.05  #: seconds by which latencies differ anyway, by the crawler's own work, too
HOLD: Final = 60.0  #: seconds for which a host that slowed down gets one request at a time
_MOST_DOUBLINGS: Final = 6  #: of that time, so that it is about an hour at most
OVERLOADED: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Pace:
    """How a host answers under load. Latencies are seconds, times are monotonic seconds.

    First the host gets one request at a time, and shows its latency by itself. Then it gets as
    many as are permitted. Where they take longer than that, its latency by itself is measured once
    more: the pages may be slower, and not the host. Where they take longer again, the host gets one
    at a time for a while, and each further time for twice as long.

    Source: ADR 179.
    """

    since: float = 0.0  #: answers to earlier requests do not count
    latencies: tuple[float, ...] = ()  #: of the answers that count, since the last decision
    alone: float | None = None  #: its latency by itself; None: it is being measured
    doubted: bool = False  #: the last requests at the same time took longer than one by itself
    holds: int = 0  #: how often it was held to one request at a time

    @property
    def is_single(self) -> bool:
        """Whether the host gets one request at a time."""
        return self.alone is None

    def after(self, status: int, latency: float, now: float) -> Pace:
        """Return the pace after an answer.

        Answers that no server gave, whose latency is 0, and those with an error show no latency.

        >>> pace = Pace()
        >>> for second in range(4):
        ...     pace = pace.after(200, 0.3, now=second + 0.5)
        >>> pace.is_single, pace.alone
        (False, 0.3)
        >>> pace.after(503, 0.3, now=5).is_single
        True
        """
        if status in OVERLOADED:
            return self._held(now)
        if status >= 400 or latency <= 0 or now - latency < self.since:
            return self
        latencies = (*self.latencies, latency)
        if len(latencies) < (ALONE if self.alone is None else TOGETHER):
            return replace(self, latencies=latencies)
        middle = median_low(latencies)
        if self.alone is None:
            return replace(self, since=now, latencies=(), alone=middle)
        if middle <= max(SLOWER * self.alone, self.alone + SLACK):
            return replace(self, latencies=(), doubted=False)
        if self.doubted:
            return self._held(now)
        return replace(self, since=now, latencies=(), alone=None, doubted=True)

    def _held(self, now: float) -> Pace:
        """Return the pace of a host that slowed down; one that is held already stays so."""
        if now < self.since:
            return self
        hold = HOLD * 2 ** min(self.holds, _MOST_DOUBLINGS)
        return Pace(since=now + hold, doubted=True, holds=self.holds + 1)

    def single_until(self, latency: float, now: float) -> float:
        """Return until when the host gets one request at a time, if it answers as of late.

        Where it gets several, that is now.
        """
        if self.alone is not None:
            return now
        return max(self.since, now) + 2 * latency * (ALONE - len(self.latencies))
