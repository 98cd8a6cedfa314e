"""Samples of the progress of a run: when one is taken, which stay, and the end that they show.

Source: ADR 171.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

SAMPLE_SECONDS: Final = 10  #: time between two samples of a young run
MOST_SAMPLES: Final = 360  #: of one run
END_WINDOW: Final = 600  #: seconds that the end is estimated from
_LEAST_SPAN: Final = 20  #: seconds; less show no trend


class Sample(NamedTuple):
    """The counts of a run since it began, as of a commit."""

    at: int  #: Unix seconds
    visits: int  #: pages done
    queued: int  #: pages that wait
    requests: int
    not_modified: int  #: answers 304
    failed: int  #: pages
    size: int  #: bytes downloaded


class RunEnd(NamedTuple):
    """When a run may end (Unix seconds)."""

    earliest: int  #: if no further page is found
    likely: int | None  #: if pages are found as they were; None: as fast as they are done


def is_sample_due(last: int | None, step: int, now: int) -> bool:
    """Whether to take a sample; ``last``: when the one before was taken, ``step`` seconds apart.

    While a clock that was put back is behind the last sample, none is taken.
    """
    return last is None or now - last >= step


def thinned_samples(times: Sequence[int]) -> list[int]:
    """Return the times of the samples that go where a run has too many: every second one.

    The first and the last one stay. The samples after them are taken at twice the distance.

    >>> thinned_samples([0, 10, 20, 30, 40])
    [10, 30]
    """
    return list(times[1:-1:2])


def estimated_run_end(samples: Sequence[Sample], now: int) -> RunEnd | None:
    """Return when a run may end, by its samples of the last ``END_WINDOW``, oldest first.

    None: they do not show it, since too few pages were done or the samples are too young.
    """
    recent = [sample for sample in samples if now - sample.at <= END_WINDOW]
    if not recent or now - recent[0].at < _LEAST_SPAN:
        return None
    first, last, seconds = recent[0], recent[-1], now - recent[0].at
    done, fewer = last.visits - first.visits, first.queued - last.queued
    if done <= 0:
        return None
    earliest = now + round(last.queued * seconds / done)
    likely = max(earliest, now + round(last.queued * seconds / fewer)) if fewer > 0 else None
    return RunEnd(earliest, likely if last.queued else earliest)
