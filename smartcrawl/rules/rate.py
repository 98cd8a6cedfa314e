"""The rate of a run over the last minute, and the time at which it will have visited all pages.

Source: R2-26, whose rate of a run that takes hours is that of now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

WINDOW: Final = 60  #: seconds that a rate is the mean of
STEP: Final = 5  #: seconds; marks that are closer to each other become one


class Mark(NamedTuple):
    """The counts of a run as of a commit."""

    at: int  #: Unix seconds
    visits: int
    size: int  #: bytes downloaded


class Rate(NamedTuple):
    """Visits and bytes a second."""

    visits: float
    size: float


def rate_marks_after(marks: Sequence[Mark], mark: Mark) -> list[Mark]:
    """Return the marks that a run keeps after one more commit, oldest first.

    The newest mark always has the newest counts. It replaces the one before it that is no more
    than ``STEP`` after its own predecessor. The oldest one is where the window begins, so that
    there are never more than 2 for each step of the window. A clock that was put back by more than
    the window begins anew; workers whose clocks differ by less agree on the later time.
    """
    if not marks or mark.at < marks[-1].at - WINDOW:
        return [mark]
    mark = mark._replace(at=max(mark.at, marks[-1].at))
    kept = list(marks)
    if len(kept) > 1 and mark.at - kept[-2].at <= STEP:
        kept.pop()
    kept.append(mark)
    return kept[_begin(kept, mark.at) :]


def rate_of_marks(marks: Sequence[Mark], now: int) -> Rate:
    """Return the mean rate of the last ``WINDOW`` seconds; of a younger run, since it began."""
    if not marks:
        return Rate(0, 0)
    first, last = marks[_begin(marks, now)], marks[-1]
    seconds = max(1, now - first.at)
    if seconds > WINDOW + STEP:  # nothing was committed at the beginning of the window
        seconds = WINDOW
    return Rate((last.visits - first.visits) / seconds, (last.size - first.size) / seconds)


def completion_at_rate(queued: int, rate: Rate, now: int) -> int | None:
    """Return when all queued pages will be visited at this rate (Unix seconds); None: never."""
    return now + round(queued / rate.visits) if rate.visits > 0 else None


def _begin(marks: Sequence[Mark], now: int) -> int:
    """Return the place of the last mark before the window, or 0."""
    return max((place for place, mark in enumerate(marks) if mark.at <= now - WINDOW), default=0)
