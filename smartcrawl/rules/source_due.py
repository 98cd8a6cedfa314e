"""When a source is due: decided by the state after its last run, without opening a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NOW: Final = 0  #: the time of a source that is due whatever the clock says


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What the registry has of a source between two runs. Times are Unix seconds."""

    left_nothing: bool  #: its last run ended by itself, and left nothing overdue
    is_as_then: bool  #: its keys and the settings are those of that run
    has_orders: bool  #: addresses, orders or vectors wait for its next run
    #: Of the pages that the last run reached, the earliest; ``NOW`` where one was not visited yet,
    #: None without pages. Of a listed source only those after ``listed_at``.
    next_visit: int | None
    listed_at: int | None  #: when its last listing began; None: it is not listed


def source_due_at(facts: SourceFacts, interval: int) -> int | None:
    """Return when a source is due (Unix seconds); ``NOW``: at once; None: no page of it ever is.

    A listed source is due when its last listing is older than ``interval`` (seconds), any other
    when one of its pages is.

    >>> source_due_at(SourceFacts(True, True, False, 500, None), 100)
    500
    >>> source_due_at(SourceFacts(True, True, False, 500, 50), 100)
    150
    >>> source_due_at(SourceFacts(False, True, False, 500, None), 100)
    0
    """
    if not facts.left_nothing or not facts.is_as_then or facts.has_orders:
        return NOW
    if facts.listed_at is None:
        return facts.next_visit
    listing = facts.listed_at + interval
    return listing if facts.next_visit is None else min(facts.next_visit, listing)
