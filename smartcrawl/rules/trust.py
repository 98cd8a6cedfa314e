"""Trust in a host's validators: whether to believe its "not modified" (M-10; issue 6.8)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

from smartcrawl.rules.schedule import DAY, PHASES, SCATTER

MIN_LIES: Final = 2  #: pages with false or rotating validators that make evidence
_ONE_IN: Final = 20  #: least share of them; fewer may be pages that always change
_TENTH: Final = 10
#: Fields of Trust that are not added up over workers.
_ONCE: Final = ("honoured", "run")

# Bits of ``PageState.etag_marks``. The numbers are stored; never renumber.
UNCONFIRMED: Final = 1  #: its last 304 named another version: the next request has no condition
TURNED: Final = 2  #: its last body had the bytes of the one before, and another ETag


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer with a body, compared with the stored page."""

    conditional: bool  #: whether the request carried validators
    same_etag: bool  #: both have one, and they are equal
    other_etag: bool  #: both have one, and they differ
    same_date: bool  #: both have a Last-Modified, and they are equal
    same_bytes: bool
    same_content: bool
    dated: bool  #: it has a Last-Modified
    turned: bool  #: the previous body, too, had the same bytes and another ETag (TURNED)
    respelled: bool = False  #: the request had a coded ETag in both spellings


@dataclass(frozen=True, slots=True)
class Trust:
    """Evidence from the answers of one host. Counts are pages.

    ``repeated``, ``rotated`` and ``matched`` are counts of one run, which begins with small ones
    where the ETags rotate.
    """

    etags: int = 0  #: requested without validators, and the ETag was the stored one
    frozen: int = 0  #: such pages with other content, which a 304 would have hidden
    dates: int = 0  #: requested without validators: an equal Last-Modified, no equal ETag
    false_dates: int = 0  #: such pages with other content
    repeated: int = 0  #: answers with an ETag and a date that had the stored bytes
    rotated: int = 0  #: repeated pages whose previous answer had another ETag, too
    ignored: int = 0  #: requested with validators, and answered 200 with the same ETag
    honoured: int = 0  #: 1 once there was a 304
    contradictory: int = 0  #: 304s that named another version than the one that was asked about
    run: int = 0  #: run.no of the last run with evidence about the host
    matched: int = 0  #: If-None-Match of dated pages with the mark TURNED that were answered 304
    unheard: int = 0  #: coded ETags sent in both spellings in vain, since one was answered 304

    def after(self, seen: Seen) -> Trust:
        """Return the evidence after one more answer with a body.

        Another ETag says nothing more about a host whose ETags rotate, unless it is the second in
        a row.

        >>> Trust().after(Seen(False, True, *[False] * 6)).frozen
        1
        """
        by_date = seen.same_date and not seen.same_etag
        other = seen.other_etag and (seen.turned or not self.rotates)
        repeats = seen.same_bytes and seen.dated and (seen.same_etag or other)
        return replace(
            self,
            etags=self.etags + seen.same_etag,
            frozen=self.frozen + (seen.same_etag and not seen.same_content),
            dates=self.dates + by_date,
            false_dates=self.false_dates + (by_date and not seen.same_content),
            repeated=self.repeated + repeats,
            rotated=self.rotated + (repeats and seen.other_etag and seen.turned),
            ignored=self.ignored + (seen.conditional and seen.same_etag and seen.same_bytes),
            unheard=self.unheard + (seen.respelled and seen.same_etag and seen.same_bytes),
        )

    def at(self, run: int) -> Trust:
        """Return the evidence at the begin of a run: evidence of rotation counts for one run.

        Where the ETags rotate, it is kept in small numbers of the same proportion, so that a few
        pages can refute it.

        >>> later = Trust(repeated=45, rotated=30, matched=20, run=1).at(2)
        >>> later.repeated, later.rotated, later.matched
        (3, 2, 1)
        >>> Trust(repeated=5, rotated=2, run=1).at(2).repeated
        0
        """
        if run <= self.run:
            return self

        def kept(count: int) -> int:
            return MIN_LIES * count // self.rotated if self.rotates else 0

        return replace(
            self,
            run=run,
            repeated=kept(self.repeated),
            rotated=kept(self.rotated),
            matched=kept(self.matched),
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

    def seen_304(self, *, turned: bool = False, respelled: bool = False) -> Trust:
        """Return the evidence after a 304, which shows that the host evaluates conditions.

        ``turned``: it answered an If-None-Match of a page with a Last-Modified and the mark TURNED.
        ``respelled``: the If-None-Match had a coded ETag in both spellings.
        """
        news = turned or (respelled and self.unheard)
        if self.honoured and not news:
            return self
        matched, unheard = self.matched + turned, 0 if respelled else self.unheard
        return replace(self, honoured=1, matched=matched, unheard=unheard)

    def contradicted(self) -> Trust:
        """Return the evidence after a 304 that named another than the requested version."""
        return replace(self, contradictory=self.contradictory + 1)

    @property
    def contradicts(self) -> bool:
        """Whether to distrust its 304s, whichever condition they answer."""
        return _many(self.contradictory, self._verified)

    @property
    def _verified(self) -> int:
        """Pages whose validators a download or a contradictory 304 judged."""
        return self.etags + self.dates + self.contradictory

    @property
    def respells(self) -> bool:
        """Whether it answered 200 to an own tag, so that coded tags are sent in both spellings."""
        return self.ignored > 0

    @property
    def rotates(self) -> bool:
        """Whether its ETags change with every answer, so that an If-None-Match brings no 304.

        It ends when half of the rotating pages that were asked are answered 304.
        """
        return _most(self.rotated, self.repeated) and self.matched < self.rotated

    @property
    def misses_coded_etags(self) -> bool:
        """Whether coded ETags bring no 304 in either spelling."""
        return self.unheard >= MIN_LIES

    def believes_etag(self, *, dated: bool, coded: bool = False) -> bool:
        """Whether If-None-Match is worth sending.

        ``dated``: the page has a Last-Modified, ``coded``: its ETag has the suffix of a coding.
        An ETag that brings no 304 costs nothing where there is no date to send in its place.
        """
        if _many(self.frozen, self.etags) or self.contradicts:
            return False
        in_vain = self.rotates or (coded and self.misses_coded_etags)
        return not (in_vain and dated and self.believes_dates)

    @property
    def believes_dates(self) -> bool:
        """Whether If-Modified-Since is worth sending."""
        return not (_many(self.false_dates, self.dates) or self.contradicts)

    @property
    def ignores_conditions(self) -> bool:
        """Whether the host ignores conditions, so that a HEAD may save the body."""
        return self.ignored >= MIN_LIES and not self.honoured

    def distrust_reasons(self) -> list[str]:
        """Return a message for each validator of the host that is not believed.

        >>> Trust(etags=40, frozen=2).distrust_reasons()
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
        if self.misses_coded_etags:
            found.append(
                f"its coded ETags bring no 304: {self.unheard} unchanged pages were asked for them"
                " in both spellings"
            )
        if _many(self.false_dates, self.dates):
            found.append(
                f"its dates are false: {self.false_dates} of {self.dates} pages had changed under"
                " the same one"
            )
        if self.contradicts:
            found.append(
                f"its 304s contradict themselves: {self.contradictory} of {self._verified} named"
                " another version than the one that was asked about"
            )
        if self.ignores_conditions:
            found.append("it answers 200 where nothing changed")
        return found


def _many(lies: int, asked: int) -> bool:
    return lies >= MIN_LIES and lies * _ONE_IN >= asked


def _most(lies: int, asked: int) -> bool:
    return lies >= MIN_LIES and lies * 2 >= asked


def trust_marks_after(before: int, *, contradicted: bool, taken: bool, turned: bool) -> int:
    """Return the marks of a page after a visit.

    ``contradicted``: a 304 named another version than the one that was asked about. ``taken``: the
    answer was accepted; any other answer leaves the marks as they are. ``turned``: it had the
    stored bytes and another ETag.

    >>> both = TURNED | UNCONFIRMED
    >>> trust_marks_after(TURNED, contradicted=True, taken=False, turned=False) == both
    True
    >>> trust_marks_after(UNCONFIRMED, contradicted=False, taken=True, turned=True) == TURNED
    True
    """
    if contradicted:
        return before | UNCONFIRMED
    if not taken:
        return before
    return TURNED if turned else 0


def is_sampled(number: int, visits: int, ratio: float) -> bool:
    """Whether to request a page without validators this time, to verify them.

    One in ``1 / ratio`` visits of a page is such a sample, and about the same share of the pages of
    a run. The samples of pages with neighbouring numbers are far apart, so that those of a small
    site are spread over its runs: it takes two of them to show that validators are false.
    ``visits``: the number of earlier visits of the page; ``ratio`` 0: never.

    >>> [visits for visits in range(1, 101) if is_sampled(7, visits, 0.05)]
    [14, 34, 54, 74, 94]
    >>> [number for number in range(1, 61) if is_sampled(number, 8, 0.05)]
    [1, 35, 56]
    """
    if ratio <= 0:
        return False
    period = max(1, round(1 / ratio))
    phase = number * SCATTER % PHASES * period // PHASES
    return (phase + visits) % period == 0


def is_unverified(verified_at: int | None, now: int, days: int, number: int) -> bool:
    """Whether a page was not downloaded whole for so long that no 304 counts any more.

    The time is up to a tenth shorter, by the page's number, so that pages that were crawled on one
    day are not all downloaded on one day again. ``days`` 0: never. A download more than a day in
    the future proves nothing: the clock was wrong then.

    >>> is_unverified(0, 90 * 86_400, 90, 0), is_unverified(0, 80 * 86_400, 90, 0)
    (True, False)
    """
    if not days or verified_at is None:
        return False
    early = days * DAY * (number * SCATTER % PHASES) // (_TENTH * PHASES)
    return now - verified_at >= days * DAY - early or verified_at > now + DAY
