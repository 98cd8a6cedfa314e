"""The time of a page's next visit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

MAX_DOUBLINGS: Final = 20  #: of the error backoff; 600 s doubled so often are 20 years
PHASES: Final = 1 << 16
SCATTER: Final = 40_503  #: odd, near 2**16 / golden ratio: neighbours are far apart
DAY: Final = 86_400  #: seconds


@dataclass(frozen=True, slots=True)
class Schedule:
    """Growth of the interval between two visits. Times are in seconds."""

    base: int = 86_400
    longest: int = 1_209_600
    steps: tuple[int, ...] = (1, 3, 7, 14)  #: times ``base``
    patience: int = 3  #: unchanged visits in a row before the next step (N of R0-48)
    error_base: int = 600  #: doubles with each error in a row
    jitter: int = 100  #: thousandths of an interval by which visits are spread

    def interval(self, unchanged: int) -> int:
        """Return the seconds to the next visit after so many unchanged ones in a row.

        >>> [Schedule().interval(n) // 86_400 for n in (0, 2, 3, 6, 9, 99)]
        [1, 1, 3, 7, 14, 14]

        Source: R0-48, R0-49, G-01.
        """
        step = self.steps[min(unchanged // self.patience, len(self.steps) - 1)]
        return min(step * self.base, self.longest)

    def backoff(self, errors: int, retry_after: int | None = None) -> int:
        """Return the seconds to the next visit after so many errors in a row.

        The wait is never shorter than the Retry-After of the server.

        >>> [Schedule().backoff(n) for n in (1, 2, 3, 99)], Schedule().backoff(1, 5_000)
        ([600, 1200, 2400, 1209600], 5000)

        Source: R0-63, M-32, U-20.
        """
        doubled = self.error_base << min(max(errors, 1) - 1, MAX_DOUBLINGS)
        return max(min(doubled, self.longest), retry_after or 0)

    def spread(self, interval: int, number: int) -> int:
        """Return the seconds to the next visit of a page after a visit without an error.

        Visits come earlier, by ``jitter`` of the interval at most and half of that at least. So
        pages that were found together do not come due together, and a page that a daily run
        visited is due when the next one begins. ``number`` is the number of the page.

        >>> Schedule().spread(86_400, 0), Schedule().spread(86_400, 1)
        (82080, 79411)
        >>> Schedule(jitter=0).spread(86_400, 1)
        86400
        """
        phase = PHASES + number * SCATTER % PHASES
        return interval - interval * self.jitter * phase // (2000 * PHASES)

    def spread_error(self, wait: int, number: int) -> int:
        """Return the seconds to the next visit after an error: later, by ``jitter`` at most.

        >>> Schedule().spread_error(600, 0), Schedule().spread_error(600, 1)
        (600, 637)
        """
        return wait + wait * self.jitter * (number * SCATTER % PHASES) // (1000 * PHASES)


def is_due(next_visit: int | None, last_visit: int | None, now: int) -> bool:
    """Whether a page's next visit is not in the future; a page without any visit is due.

    A page whose last visit is more than a day in the future is due, too: the clock was wrong then,
    and so is the time of the next visit.

    >>> is_due(None, None, 5), is_due(5, 0, 5), is_due(6, 0, 5)
    (True, True, False)
    >>> is_due(200_000, 86_406, 5)
    True

    Source: R0-71, M-11.
    """
    return (
        next_visit is None
        or next_visit <= now
        or (last_visit is not None and last_visit > now + DAY)
    )


_LASTMOD: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?)?)?"
)
_EPOCH: Final = date(1970, 1, 1).toordinal()


def modified_by_lastmod(lastmod: str, now: int) -> int | None:
    """Return the last second (Unix) at which a page was modified, by the lastmod of its sitemap.

    A date without a time means its whole day, a month or year all of its days, up to ``now``.
    None for a date that begins more than a day in the future, and for a text that is no date in
    W3C's format.

    >>> days = ("1970-01-01", "1970-01-01T01:00:10+01:00", "1970")
    >>> [modified_by_lastmod(day, 10**9) for day in days]
    [86400, 10, 31536000]
    >>> modified_by_lastmod("2031-01-01", 99), modified_by_lastmod("soon", 99)
    (None, None)

    Source: sitemaps.org protocol; R0-49.
    """
    match = _LASTMOD.fullmatch(lastmod.strip())
    if match is None:
        return None
    year, month, day, clock = match.groups()
    try:
        if clock is not None:
            moment = datetime.fromisoformat(lastmod.strip())
            begin = end = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
        else:
            first = date(int(year), int(month or 1), int(day or 1))
            if day is not None:
                after = first + timedelta(days=1)
            elif month is not None:
                after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
            else:
                after = date(first.year + 1, 1, 1)
            begin, end = ((d.toordinal() - _EPOCH) * DAY for d in (first, after))
    except (ValueError, OverflowError):
        return None
    return None if begin > now + DAY else min(end, now)
