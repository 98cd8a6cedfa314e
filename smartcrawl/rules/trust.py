"""What a host's validators are worth: whether "not modified" can be believed (M-10; issue 6.8)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

MIN_LIES: Final = 2  #: pages that must have been found out
_ONE_IN: Final = 20  #: of those that could have been: fewer may be pages that are never the same
_DAY: Final = 86_400  #: seconds
_PHASES: Final = 1 << 16
_SCATTER: Final = 40_503  #: see rules.schedule
_TENTH: Final = 10

# Bits of Page.etag_marks. The numbers are stored; never renumber.
UNCONFIRMED: Final = 1  #: its last 304 named another version: the next request has no condition


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer with a body, beside what is held of the page."""

    conditional: bool  #: whether the request carried validators
    same_etag: bool  #: both have one, and they are equal
    other_etag: bool  #: both have one, and they differ
    same_date: bool  #: both have a Last-Modified, and they are equal
    same_bytes: bool
    same_content: bool


@dataclass(frozen=True, slots=True)
class Trust:
    """What the answers of one host have shown so far. Counts are pages."""

    etags: int = 0  #: asked without validators, and the ETag was the one that is held
    frozen: int = 0  #: of these, with other content: a 304 would have hidden it
    dates: int = 0  #: likewise for Last-Modified, where there was no ETag
    false_dates: int = 0
    repeated: int = 0  #: answers whose bytes were those that are held
    rotated: int = 0  #: of these, with another ETag: no 304 will ever come by it
    ignored: int = 0  #: asked with validators, and answered 200 with the same ETag
    honoured: int = 0  #: 1 once there was a 304
    contradictory: int = 0  #: 304s that named another version than the one that was asked about

    def after(self, seen: Seen) -> Trust:
        """Return it after one more answer with a body.

        >>> Trust().after(Seen(False, True, False, False, False, False)).frozen
        1
        """
        by_date = seen.same_date and not (seen.same_etag or seen.other_etag)
        return replace(
            self,
            etags=self.etags + seen.same_etag,
            frozen=self.frozen + (seen.same_etag and not seen.same_content),
            dates=self.dates + by_date,
            false_dates=self.false_dates + (by_date and not seen.same_content),
            repeated=self.repeated + seen.same_bytes,
            rotated=self.rotated + (seen.same_bytes and seen.other_etag),
            ignored=self.ignored + (seen.conditional and seen.same_etag and seen.same_bytes),
        )

    def joined(self, after: Trust, before: Trust | None) -> Trust:
        """Return it with what somebody else learnt who began with ``before``.

        >>> Trust(etags=9, frozen=1).joined(Trust(etags=5, frozen=1), Trust(etags=3)).frozen
        2
        """
        known = before or Trust()

        def count(name: str) -> int:
            own, new, old = (int(getattr(trust, name)) for trust in (self, after, known))
            return max(0, own + new - old)

        joined = Trust(**{field.name: count(field.name) for field in fields(self)})
        return replace(joined, honoured=max(self.honoured, after.honoured))

    def seen_304(self) -> Trust:
        """Return it after a 304: once is enough to know that conditions are looked at."""
        return self if self.honoured else replace(self, honoured=1)

    def contradicted(self) -> Trust:
        """Return it after a 304 that named another version than the one that was asked about."""
        return replace(self, contradictory=self.contradictory + 1)

    @property
    def contradicts(self) -> bool:
        """Whether its 304s are not believed, whichever condition they answer."""
        return _many(self.contradictory, self.etags + self.contradictory)

    @property
    def believes_etags(self) -> bool:
        """Whether If-None-Match is worth sending: ETags are neither frozen nor rotate."""
        frozen, rotate = _many(self.frozen, self.etags), _most(self.rotated, self.repeated)
        return not (frozen or rotate or self.contradicts)

    @property
    def believes_dates(self) -> bool:
        """Whether If-Modified-Since is worth sending."""
        return not (_many(self.false_dates, self.dates) or self.contradicts)

    @property
    def ignores_conditions(self) -> bool:
        """Whether the host sends the body whatever is asked, so that a HEAD may save it."""
        return self.ignored >= MIN_LIES and not self.honoured

    def told(self) -> list[str]:
        """Return what is not believed, and why, for people.

        >>> Trust(etags=40, frozen=2).told()
        ['its ETags are frozen: 2 of 40 pages had changed under the same one']
        """
        found = []
        if _many(self.frozen, self.etags):
            found.append(
                f"its ETags are frozen: {self.frozen} of {self.etags} pages had changed under the"
                " same one"
            )
        if _most(self.rotated, self.repeated):
            found.append(
                f"its ETags rotate: {self.rotated} of {self.repeated} unchanged pages came with"
                " another one"
            )
        if _many(self.false_dates, self.dates):
            found.append(
                f"its dates are false: {self.false_dates} of {self.dates} pages had changed under"
                " the same one"
            )
        if self.contradicts:
            found.append(
                f"its 304s contradict themselves: {self.contradictory} of"
                f" {self.etags + self.contradictory} named another version than the one that was"
                " asked about"
            )
        if self.ignores_conditions:
            found.append("it answers 200 where nothing changed")
        return found


def _many(lies: int, asked: int) -> bool:
    return lies >= MIN_LIES and lies * _ONE_IN >= asked


def _most(lies: int, asked: int) -> bool:
    return lies >= MIN_LIES and lies * 2 >= asked


def marks_after(before: int, *, contradicted: bool, taken: bool) -> int:
    """Return the marks of a page after a visit.

    ``contradicted``: a 304 named another version than the one that was asked about. ``taken``: the
    answer was believed; any other answer leaves the marks as they are.

    >>> marks_after(0, contradicted=True, taken=False)
    1
    >>> marks_after(1, contradicted=False, taken=True)
    0
    """
    if contradicted:
        return before | UNCONFIRMED
    return 0 if taken else before


def is_sampled(number: int, visits: int, ratio: float) -> bool:
    """Whether a page is asked without validators this time, to see what they are worth.

    Of ``1 / ratio`` visits of a page one is, and of the pages of a run about that share are.
    ``visits``: how often the page was visited before; ``ratio`` 0: never.

    >>> [visits for visits in range(1, 101) if is_sampled(7, visits, 0.05)]
    [13, 33, 53, 73, 93]
    """
    return ratio > 0 and (number + visits) % max(1, round(1 / ratio)) == 0


def is_unverified(verified_at: int | None, now: int, days: int, number: int) -> bool:
    """Whether a page was not downloaded whole for so long that no 304 counts any more.

    Up to a tenth earlier, by the page's number, so that what was crawled in one day does not come
    in one day again. ``days`` 0: never.

    >>> is_unverified(0, 90 * 86_400, 90, 0), is_unverified(0, 80 * 86_400, 90, 0)
    (True, False)
    """
    if not days or verified_at is None:
        return False
    early = days * _DAY * (number * _SCATTER % _PHASES) // (_TENTH * _PHASES)
    return now - verified_at >= days * _DAY - early
