"""What a host's validators are worth: whether "not modified" can be believed (M-10; issue 6.8)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

MIN_LIES: Final = 2  #: pages that must have been found out, or that must rotate
_ONE_IN: Final = 20  #: of those that could have been: fewer may be pages that are never the same
_DAY: Final = 86_400  #: seconds
_PHASES: Final = 1 << 16
_SCATTER: Final = 40_503  #: see rules.schedule
_TENTH: Final = 10
#: Fields of Trust that several workers do not add up.
_ONCE: Final = ("honoured", "run", "matched", "matched_before")

# Bits of Page.etag_marks. The numbers are stored; never renumber.
UNCONFIRMED: Final = 1  #: its last 304 named another version: the next request has no condition
TURNED: Final = 2  #: its last body had the bytes of the one before, and another ETag


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer with a body, beside what is held of the page."""

    conditional: bool  #: whether the request carried validators
    same_etag: bool  #: both have one, and they are equal
    other_etag: bool  #: both have one, and they differ
    same_date: bool  #: both have a Last-Modified, and they are equal
    same_bytes: bool
    same_content: bool
    dated: bool  #: it has a Last-Modified
    turned: bool  #: the body before had the same bytes and another ETag, too (TURNED)


@dataclass(frozen=True, slots=True)
class Trust:
    """What the answers of one host have shown so far. Counts are pages.

    ``repeated`` and ``rotated`` are counts of one run, or of all runs since the ETags rotate.
    """

    etags: int = 0  #: asked without validators, and the ETag was the one that is held
    frozen: int = 0  #: of these, with other content: a 304 would have hidden it
    dates: int = 0  #: likewise for Last-Modified, where no equal ETag said the same
    false_dates: int = 0
    repeated: int = 0  #: answers with an ETag and a date, whose bytes were the stored ones
    rotated: int = 0  #: repeated pages that had another ETag in the answer before, too
    ignored: int = 0  #: asked with validators, and answered 200 with the same ETag
    honoured: int = 0  #: 1 once there was a 304
    contradictory: int = 0  #: 304s that named another version than the one that was asked about
    run: int = 0  #: run.no of the last run that learnt something of the host
    matched: int = 0  #: 1 once an If-None-Match was answered 304 in that run
    matched_before: int = 0  #: likewise in the run before

    def after(self, seen: Seen) -> Trust:
        """Return it after one more answer with a body.

        >>> Trust().after(Seen(False, True, *[False] * 6)).frozen
        1
        """
        by_date = seen.same_date and not seen.same_etag
        repeats = seen.same_bytes and seen.dated and (seen.same_etag or seen.other_etag)
        return replace(
            self,
            etags=self.etags + seen.same_etag,
            frozen=self.frozen + (seen.same_etag and not seen.same_content),
            dates=self.dates + by_date,
            false_dates=self.false_dates + (by_date and not seen.same_content),
            repeated=self.repeated + repeats,
            rotated=self.rotated + (repeats and seen.other_etag and seen.turned),
            ignored=self.ignored + (seen.conditional and seen.same_etag and seen.same_bytes),
        )

    def at(self, run: int) -> Trust:
        """Return it as a run finds it: evidence of rotation is that of one run.

        Only a host whose ETags rotate, which no If-None-Match of its last run refuted, keeps it.

        >>> Trust(repeated=4, rotated=2, run=1).at(2).repeated
        4
        >>> Trust(repeated=5, rotated=2, run=1).at(2).repeated
        0
        """
        if run <= self.run:
            return self
        keeps = _most(self.rotated, self.repeated) and not self.matched
        return replace(
            self,
            run=run,
            matched=0,
            matched_before=self.matched,
            repeated=self.repeated if keeps else 0,
            rotated=self.rotated if keeps else 0,
        )

    def joined(self, after: Trust, before: Trust | None) -> Trust:
        """Merge the observations that another worker of a run made since ``before``.

        >>> Trust(etags=9, frozen=1).joined(Trust(etags=5, frozen=1), Trust(etags=3)).frozen
        2
        """
        known, stored = before or Trust(), self.at(after.run)

        def count(name: str) -> int:
            own, new, old = (int(getattr(trust, name)) for trust in (stored, after, known))
            return max(own, new) if name in _ONCE else max(0, own + new - old)

        return Trust(**{field.name: count(field.name) for field in fields(self)})

    def seen_304(self, *, by_etag: bool) -> Trust:
        """Return it after a 304; ``by_etag``: the request had an If-None-Match.

        Once is enough to know that conditions are looked at, and once a run that ETags hold.
        """
        if self.honoured and (self.matched or not by_etag):
            return self
        return replace(self, honoured=1, matched=max(self.matched, int(by_etag)))

    def contradicted(self) -> Trust:
        """Return it after a 304 that named another version than the one that was asked about."""
        return replace(self, contradictory=self.contradictory + 1)

    @property
    def contradicts(self) -> bool:
        """Whether its 304s are not believed, whichever condition they answer."""
        return _many(self.contradictory, self.etags + self.contradictory)

    @property
    def rotates(self) -> bool:
        """Whether ETags change with every answer, so that an If-None-Match brings no 304."""
        matched = self.matched or self.matched_before
        return _most(self.rotated, self.repeated) and not matched

    def believes_etag(self, *, dated: bool) -> bool:
        """Whether If-None-Match is worth sending; ``dated``: the page has a Last-Modified.

        Where no date can stand in for it, an ETag that rotates costs nothing.
        """
        if _many(self.frozen, self.etags) or self.contradicts:
            return False
        return not (self.rotates and dated and self.believes_dates)

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
        if self.rotates:
            found.append(
                f"its ETags rotate: {self.rotated} of {self.repeated} unchanged pages came with"
                " another one twice in a row"
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


def marks_after(before: int, *, contradicted: bool, taken: bool, turned: bool) -> int:
    """Return the marks of a page after a visit.

    ``contradicted``: a 304 named another version than the one that was asked about. ``taken``: the
    answer was believed; any other answer leaves the marks as they are. ``turned``: its bytes were
    the stored ones, and its ETag another one.

    >>> marks_after(TURNED, contradicted=True, taken=False, turned=False) == TURNED | UNCONFIRMED
    True
    >>> marks_after(UNCONFIRMED, contradicted=False, taken=True, turned=True) == TURNED
    True
    """
    if contradicted:
        return before | UNCONFIRMED
    if not taken:
        return before
    return TURNED if turned else 0


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
