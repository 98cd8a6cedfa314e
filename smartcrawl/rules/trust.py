"""Trust in a host's validators: whether to believe its "not modified" (M-10; issue 6.8)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

from smartcrawl.rules.schedule import DAY, PHASES, SCATTER

MIN_LIES: Final = 2  #: pages with false or rotating validators that make evidence
_ONE_IN: Final = 20  #: least share of them; fewer may be pages that always change
#: 304s in a row to ETags of rotating pages that end a rotation. Two machines that answer at random
#: give each with a chance of one half.
ENOUGH_304S: Final = 12
_TENTH: Final = 10
#: Fields of Trust that are not added up over workers.
_ONCE: Final = ("honoured", "run", "plain_heard")

# Bits of ``PageState.etag_marks``. The numbers are stored; never renumber.
UNCONFIRMED: Final = 1  #: its last 304 named another version: the next request has no condition
TURNED: Final = 2  #: its last body had the bytes of the one before, and another ETag
LED_BACK: Final = 4  #: it came after other addresses of its visit, one of which set its cookie


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
    plain: bool = False  #: the request had an ETag that is not coded


@dataclass(frozen=True, slots=True)
class Trust:
    """Evidence from the answers of one host. Counts are pages.

    ``repeated``, ``rotated`` and ``matched`` are counts of one run. Those of a host whose ETags
    rotate stay until that ends.
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
    #: If-None-Match of dated pages with the mark TURNED that were answered 304; where the ETags
    #: rotate, those since one was answered with another ETag.
    matched: int = 0
    unheard: int = 0  #: coded ETags sent in both spellings in vain, since one was answered 304
    rotating: int = 0  #: 1 while its ETags rotate
    plain_unheard: int = 0  #: other ETags of dated pages, sent in vain
    plain_heard: int = 0  #: 1 once such an ETag was answered 304

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
        in_vain = seen.same_etag and seen.same_bytes
        rotated = repeats and seen.other_etag and seen.turned
        trust = replace(
            self,
            etags=self.etags + seen.same_etag,
            frozen=self.frozen + (seen.same_etag and not seen.same_content),
            dates=self.dates + by_date,
            false_dates=self.false_dates + (by_date and not seen.same_content),
            repeated=self.repeated + repeats,
            rotated=self.rotated + rotated,
            ignored=self.ignored + (seen.conditional and in_vain),
            unheard=self.unheard + (seen.respelled and in_vain),
            plain_unheard=self.plain_unheard + (seen.plain and seen.dated and in_vain),
            matched=0 if rotated and self.rotates else self.matched,
        )
        return replace(trust, rotating=1, matched=0) if trust.begins_to_rotate else trust

    def at(self, run: int) -> Trust:
        """Return the evidence at the begin of a run: evidence of rotation counts for one run.

        Where the ETags rotate, it stays, so that the 304s of rare samples count together.

        >>> later = Trust(repeated=45, rotated=30, matched=9, rotating=1, run=1).at(2)
        >>> later.rotated, later.matched
        (30, 9)
        >>> Trust(repeated=9, rotated=2, run=1).at(2).repeated
        0
        """
        if run <= self.run:
            return self
        if self.rotates:
            return replace(self, run=run)
        return replace(self, run=run, repeated=0, rotated=0, matched=0)

    def joined(self, after: Trust, before: Trust | None) -> Trust:
        """Merge the observations that another worker of a run made since ``before``.

        >>> Trust(etags=9, frozen=1).joined(Trust(etags=5, frozen=1), Trust(etags=3)).frozen
        2
        """
        known, stored = before or Trust(), self.at(after.run)

        def count(name: str) -> int:
            own, new, old = (int(getattr(trust, name)) for trust in (stored, after, known))
            if name == "rotating":  # the last change counts
                return own if new == old else new
            return max(own, new) if name in _ONCE else max(0, own + new - old)

        return Trust(**{field.name: count(field.name) for field in fields(self)})

    def seen_304(
        self, *, turned: bool = False, respelled: bool = False, plain: bool = False
    ) -> Trust:
        """Return the evidence after a 304, which shows that the host evaluates conditions.

        ``turned``: it answered an If-None-Match of a page with a Last-Modified and the mark TURNED.
        ``respelled``: the If-None-Match had a coded ETag in both spellings. ``plain``: it had an
        ETag that is not coded.
        """
        news = turned or (respelled and self.unheard) or (plain and not self.plain_heard)
        if self.honoured and not news:
            return self
        trust = replace(
            self,
            honoured=1,
            matched=self.matched + turned,
            unheard=0 if respelled else self.unheard,
            plain_heard=int(plain or self.plain_heard > 0),
        )
        if trust.rotates and trust.matched >= ENOUGH_304S:
            return replace(trust, rotating=0, repeated=0, rotated=0, matched=0)
        return trust

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
        """Whether its ETags change with every answer, so that an If-None-Match may bring no 304.

        It ends with ENOUGH_304S to ETags of rotating pages, without another ETag between them.
        """
        return self.rotating > 0

    @property
    def begins_to_rotate(self) -> bool:
        """Whether the evidence of this run shows that the ETags rotate.

        Two machines that answer at random are the hard case: of the pages whose bytes came again,
        half rotate, and as many others are answered 304. So a third is enough of both.
        """
        is_many = self.rotated >= MIN_LIES and self.rotated * 3 >= self.repeated
        return not self.rotating and is_many and self.rotated * 2 >= self.matched

    @property
    def misses_coded_etags(self) -> bool:
        """Whether coded ETags bring no 304 in either spelling."""
        return self.unheard >= MIN_LIES

    @property
    def misses_plain_etags(self) -> bool:
        """Whether ETags that are not coded bring no 304, and none ever did."""
        return self.plain_unheard >= MIN_LIES and not self.plain_heard

    def believes_etag(self, *, dated: bool, coded: bool = False) -> bool:
        """Whether If-None-Match is worth sending.

        ``dated``: the page has a Last-Modified, ``coded``: its ETag has the suffix of a coding.
        An ETag that brings no 304 costs nothing where there is no date to send in its place.
        """
        if _many(self.frozen, self.etags) or self.contradicts:
            return False
        unknown = self.misses_coded_etags if coded else self.misses_plain_etags
        in_vain = self.rotates or unknown
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
        ['its ETags are frozen: 2 of 40 pages changed but kept theirs']
        """
        found = []
        if _many(self.frozen, self.etags):
            found.append(
                f"its ETags are frozen: {self.frozen} of {self.etags} pages changed but kept theirs"
            )
        if self.rotates:
            found.append(
                f"its ETags rotate: {self.rotated} of {self.repeated} unchanged pages got "
                "a new one twice in a row"
            )
        if self.misses_coded_etags:
            found.append(
                f"its ETags of compressed pages bring no 304: {self.unheard} unchanged "
                "pages were requested with both spellings"
            )
        if self.misses_plain_etags and self.honoured:
            found.append(
                f"its ETags bring no 304: {self.plain_unheard} unchanged pages were "
                "requested with them"
            )
        if _many(self.false_dates, self.dates):
            found.append(
                f"its dates are wrong: {self.false_dates} of {self.dates} pages changed "
                "but kept theirs"
            )
        if self.contradicts:
            found.append(
                f"its 304 responses contradict themselves: {self.contradictory} of "
                f"{self._verified} named another version than the one requested"
            )
        if self.ignores_conditions:
            found.append("it returns 200 although nothing changed")
        return found


def _many(lies: int, asked: int) -> bool:
    return lies >= MIN_LIES and lies * _ONE_IN >= asked


def trust_marks_after(
    before: int, *, contradicted: bool, taken: bool, turned: bool, led_back: bool = False
) -> int:
    """Return the marks of a page after a visit.

    ``contradicted``: a 304 named another version than the one that was asked about. ``taken``: the
    answer was accepted; any other answer leaves the marks as they are. ``turned``: it had the
    stored bytes and another ETag. ``led_back``: it came after a way over other addresses.

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
    return (TURNED if turned else 0) | (LED_BACK if led_back else 0)


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
