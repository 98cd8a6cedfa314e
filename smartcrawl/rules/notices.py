"""Notices about sources: which target gets which, how often it is tried, how long (ADR 174)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from smartcrawl.rules.visibility import Visibility


class Event(StrEnum):
    """What a notice is about. The words are stored and sent; never rename."""

    RUN_INCOMPLETE = "run.incomplete"
    REMOVAL_WAITING = "removal.waiting"
    CHANGES = "changes"  #: a digest of what a run changed
    SOURCE_STALE = "source.stale"
    SOURCE_RECOVERED = "source.recovered"
    TEST = "test"  #: sent by hand; no target asks for it


#: Those that a target may ask for.
EVENTS: Final = tuple(event for event in Event if event is not Event.TEST)

PATIENCE: Final = 86_400  #: seconds after which a notice that failed is given up
CLAIM: Final = 60  #: seconds for which a process has a target for itself
KEPT: Final = 7 * 86_400  #: seconds that a notice stays in the list after its end
MOST_PAGES: Final = 100  #: addresses of a digest
_FIRST: Final = 30  #: seconds until the second attempt
_LONGEST: Final = 7_200  #: seconds between two attempts
_SKEW: Final = 60  #: seconds by which the clocks of two processes may differ


@dataclass(frozen=True, slots=True)
class Wish:
    """What one target asks for."""

    events: frozenset[Event] = frozenset(EVENTS)
    sources: frozenset[str] = frozenset()  #: empty: every public one
    min_changes: int = 1  #: pages of a digest, at least
    #: Whether a digest has an address; None: it has every one.
    has_page: Callable[[str], bool] | None = None
    min_share: float = 0.0  #: of the text of a modified page that changed, at least

    def wants(self, event: Event, source: str, visibility: Visibility) -> bool:
        """Whether the target gets an event; of a private source it does where it names that."""
        if event not in self.events:
            return False
        if self.sources:
            return source in self.sources
        return visibility is Visibility.PUBLIC

    def takes(self, change: Mapping[str, Any]) -> bool:
        """Whether a digest has a change of a page; an amount that is not known is enough.

        >>> Wish(min_share=0.2).takes({"kind": "modified", "url": "u", "share": 0.1})
        False
        >>> Wish(min_share=0.2).takes({"kind": "new", "url": "u", "share": None})
        True
        """
        share = change.get("share")
        if share is not None and share < self.min_share:
            return False
        return self.has_page is None or self.has_page(change["url"])


def retry_delay(failures: int) -> int:
    """Return the seconds from a failed attempt to the next; ``failures``: in a row, at least 1.

    >>> [retry_delay(failures) for failures in (1, 2, 3, 8, 9, 99)]
    [30, 60, 120, 3840, 7200, 7200]
    """
    return min(_FIRST << min(failures - 1, 20), _LONGEST)


def is_given_up(at: int, now: int) -> bool:
    """Whether a notice of ``at`` is not tried again after a failure of now (Unix seconds).

    Each is tried once at least: while an earlier one waits, the later ones grow old beside it.
    """
    return now - at >= PATIENCE


def may_claim(*, next_at: int, claimed_until: int | None, now: int) -> bool:
    """Whether a process may send to a target now; times in Unix seconds.

    Times further ahead than any that is set are those of a clock that leapt, and do not count. The
    process that set them may have read its clock later, or on another machine: a minute more is
    none of a leap.

    >>> may_claim(next_at=0, claimed_until=130, now=100)
    False
    >>> may_claim(next_at=101, claimed_until=None, now=100)
    False
    >>> may_claim(next_at=9_000_000, claimed_until=9_000_000, now=100)
    True
    """
    is_claimed = claimed_until is not None and now < claimed_until <= now + CLAIM + _SKEW
    waits = now < next_at <= now + _LONGEST + _SKEW
    return not (is_claimed or waits)


@dataclass(slots=True)
class Digest:
    """Changes of a run that a target gets: numbers by kind, and the first addresses."""

    counts: dict[str, int] = field(default_factory=dict)
    pages: list[Mapping[str, Any]] = field(default_factory=list)
    more: int = 0  #: changes whose addresses are left out

    @property
    def total(self) -> int:
        """The number of changes."""
        return sum(self.counts.values())

    def add(self, change: Mapping[str, Any]) -> None:
        """Count a change, and keep its address while there is room."""
        kind = str(change["kind"])
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.pages) < MOST_PAGES:
            self.pages.append(change)
        else:
            self.more += 1


def change_digests(
    changes: Iterable[Mapping[str, Any]], wishes: Sequence[Wish]
) -> list[Digest | None]:
    """Return the digest of a run's changes for each wish, in one pass; None: it gets none.

    ``changes`` have ``kind`` and ``url``, and ``url`` is None of what many pages share, which is
    counted with no page. A few are named, and all are counted. They are read for a wish alone.
    """
    if not wishes:
        return []
    digests = [Digest() for _ in wishes]
    for change in changes:
        if change["url"] is not None:
            for wish, digest in zip(wishes, digests, strict=True):
                if wish.takes(change):
                    digest.add(change)
    return [
        digest if digest.total >= max(1, wish.min_changes) else None
        for wish, digest in zip(wishes, digests, strict=True)
    ]
