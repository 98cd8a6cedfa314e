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
SILENT: Final = 2  #: time-outs in a row, without an answer between them, of a host that slows down
OVERLOADED: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Pace:
    """How a host answers under load. Latencies are seconds, times are monotonic seconds.

    First the host gets one request at a time, and shows its latency by itself. Then it gets as
    many as are permitted. Where they take longer than that, its latency by itself is measured once
    more: the pages may be slower, and not the host. Where they take longer again, the host gets one
    at a time for a while, and each further time for twice as long. One that was not held for as
    long as its last hold took has one further time less.

    Source: ADR 179.
    """

    since: float = 0.0  #: answers to earlier requests do not count
    latencies: tuple[float, ...] = ()  #: of the answers that count, since the last decision
    alone: float | None = None  #: its latency by itself; None: it is being measured
    doubted: bool = False  #: the last requests at the same time took longer than one by itself
    holds: int = 0  #: how often it was held to one request at a time, less what is forgotten
    held: float = 0.0  #: when its last hold ends
    silent: int = 0  #: time-outs since the last answer

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
        if self.silent and latency > 0:
            return replace(self, silent=0).after(status, latency, now)
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

    def after_time_out(self, seconds: float, now: float) -> Pace:
        """Return the pace after a request that had no answer within some ``seconds``.

        One page may take for ever, and others of its host be answered meanwhile.

        >>> pace = Pace(alone=0.3).after_time_out(180, now=200)
        >>> pace.is_single, pace.after_time_out(180, now=201).is_single
        (False, True)
        """
        if now - seconds < self.since:
            return self
        pace = replace(self, silent=self.silent + 1)
        return pace if pace.silent < SILENT else pace._held(now)

    def _held(self, now: float) -> Pace:
        """Return the pace of a host that slowed down; one that is held already stays so."""
        if now < self.since:
            return self
        holds, rest = self.holds, now - self.held
        while holds and rest >= _hold(holds - 1):
            rest -= _hold(holds - 1)
            holds -= 1
        end = now + _hold(holds)
        return Pace(since=end, doubted=True, holds=holds + 1, held=end)

    def single_until(self, latency: float, now: float) -> float:
        """Return until when the host gets one request at a time, if it answers as of late.

        Where it gets several, that is now.
        """
        if self.alone is not None:
            return now
        return max(self.since, now) + 2 * latency * (ALONE - len(self.latencies))


def _hold(times: int) -> float:
    """Return the seconds of the hold of a host that was held some times before."""
    return float(HOLD * 2 ** min(times, _MOST_DOUBLINGS))
