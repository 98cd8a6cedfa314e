"""Ageing of lost, gone and unreached pages, until their removal is due (docs/decisions.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from smartcrawl.rules.model import Fault, Outcome, RemovalRule

#: Statuses of a temporary problem of the server. They never count, whatever the settings.
LEAP: Final = 180 * 86_400  #: seconds after the run before, beyond which a clock may have leapt
PASSING: Final = frozenset({408, 425, 429, *range(500, 600)})

#: Rules for pages that a complete run did not see. Their evidence is the absence of an answer.
UNSEEN: Final = frozenset(
    {RemovalRule.EXCLUDED, RemovalRule.ORPHAN, RemovalRule.ABSENT, RemovalRule.MOVED}
)

#: Temporary redirects: the page may be back in the next run (RFC 9110 15.4).
TEMPORARY: Final = frozenset({302, 303, 307})
#: Permanent redirects (RFC 9110 15.4).
PERMANENT: Final = frozenset({301, 308})
_REDIRECTS: Final = TEMPORARY | PERMANENT


class Ageing(NamedTuple):
    """Effect of one answer on the counts of a page."""

    lost: bool  #: lostCount + 1, if content is stored
    gone: bool  #: goneCount + 1
    clears: bool  #: reset both counts and their ages


_COUNTS, _LOST, _NOTHING = (
    Ageing(lost=True, gone=True, clears=False),
    Ageing(lost=True, gone=False, clears=False),
    Ageing(lost=False, gone=False, clears=False),
)
_CLEARS = Ageing(lost=False, gone=False, clears=True)

AGEING: Final[Mapping[Outcome, Ageing]] = {
    Outcome.NOT_MODIFIED: _CLEARS,
    Outcome.SAME: _CLEARS,
    Outcome.CHANGED: _CLEARS,
    Outcome.NOT_ACCEPTABLE: _CLEARS,
    Outcome.ALIAS: _CLEARS,
    Outcome.REDIRECT: _CLEARS,
    Outcome.NOT_FOUND: _COUNTS,
    Outcome.SOFT_404: _COUNTS,
    Outcome.HTTP_ERROR: _LOST,
    Outcome.BAD_HEADER: _LOST,
    Outcome.TRANSIENT: _NOTHING,
    Outcome.UNREACHABLE: _NOTHING,
    Outcome.UNPROCESSABLE: _NOTHING,
    Outcome.EXCLUDED: _NOTHING,
}


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's settings for removal. Ages are in seconds."""

    lost_threshold: int = 3  #: runs in a row that found the page gone
    lost_min_age: int = 0
    purge_statuses: frozenset[int] | None = frozenset({404, 410})  #: None: any status that counts
    orphan_threshold: int = 3  #: complete runs in a row without the page
    orphan_min_age: int = 0
    sum_of_thresholds: bool = False  #: LOST_ORPHAN_RULE=threshold (G-14)

    def purges(self, http_status: int | None) -> bool:
        """Whether an (extended) status is a reason to remove a lost page.

        A page that answers a permanent redirect is lost only if it has left its source. This counts
        like a 404, whatever the setting. Temporary redirects, PASSING statuses, and network and
        processing errors never count.
        """
        if http_status is None or http_status in PASSING or http_status >= 1100:
            return False
        if http_status in _REDIRECTS:
            return http_status in PERMANENT
        return self.purge_statuses is None or http_status in self.purge_statuses


class Counts(NamedTuple):
    """Runs in a row that found a page lost or gone, and the time of the first (Unix seconds)."""

    lost: int = 0
    gone: int = 0
    lost_since: int | None = None
    gone_since: int | None = None


def absence_counts_after(
    before: Counts,
    outcome: Outcome,
    http_status: int | None,
    policy: Policy,
    now: int,
    *,
    held: bool,
    first_run: bool = False,
) -> Counts:
    """Return the counts after one visit; call it at most once per page and run (RD-08).

    ``held``: whether content is stored; only stored content can be lost. ``first_run``: whether
    this run discovered the page; a soft 404 does not count then.

    >>> absence_counts_after(Counts(1, 1, 10, 10), Outcome.NOT_FOUND, 404, Policy(), 20, held=True)
    Counts(lost=2, gone=2, lost_since=10, gone_since=10)
    >>> absence_counts_after(Counts(2, 1, 10, 10), Outcome.SAME, 200, Policy(), 20, held=True)
    Counts(lost=0, gone=0, lost_since=None, gone_since=None)

    Source: M-05, M-08, R4-43, R4-44, U-08 to U-13 as overridden by ADR 135.
    """
    ageing = AGEING[outcome]
    if ageing.clears:
        return Counts()
    if outcome is Outcome.SOFT_404 and first_run:
        return before
    lost, gone, lost_since, gone_since = before
    if ageing.lost and held:
        lost, lost_since = lost + 1, now if lost_since is None else lost_since
    if _counts_as_gone(ageing, http_status, policy):
        gone, gone_since = gone + 1, now if gone_since is None else gone_since
    return Counts(lost, gone, lost_since, gone_since)


def absence_counts_before(
    after: Counts, outcome: Outcome, http_status: int | None, policy: Policy, *, held: bool
) -> Counts:
    """Return the counts before a visit that brought no page, for one that takes its place.

    Where a due crawl was too early to count (``paced_absence_counts``) they are one less than they
    were, so that the page stays longer.

    >>> absence_counts_before(Counts(2, 1, 10, 20), Outcome.NOT_FOUND, 404, Policy(), held=True)
    Counts(lost=1, gone=0, lost_since=10, gone_since=None)
    >>> absence_counts_before(Counts(2, 1, 10, 20), Outcome.TRANSIENT, 500, Policy(), held=True)
    Counts(lost=2, gone=1, lost_since=10, gone_since=20)

    Source: M-05, RD-08.
    """
    ageing = AGEING[outcome]
    lost = max(0, after.lost - (ageing.lost and held))
    gone = max(0, after.gone - _counts_as_gone(ageing, http_status, policy))
    return Counts(
        lost, gone, after.lost_since if lost else None, after.gone_since if gone else None
    )


def _counts_as_gone(ageing: Ageing, http_status: int | None, policy: Policy) -> bool:
    return ageing.gone or (ageing.lost and policy.purges(http_status))


def paced_absence_counts(before: Counts, after: Counts, pace: int, now: int) -> Counts:
    """Return ``after``, limited so that a due crawl counts at most once in ``pace`` seconds.

    A failed page is due again within minutes. Without this limit, the counts of a due crawl would
    rise as far in half an hour as those of full crawls in three days.

    >>> paced_absence_counts(Counts(1, 1, 10, 10), Counts(2, 2, 10, 10), 100, 109)
    Counts(lost=1, gone=1, lost_since=10, gone_since=10)
    >>> paced_absence_counts(Counts(1, 1, 10, 10), Counts(2, 2, 10, 10), 100, 110)
    Counts(lost=2, gone=2, lost_since=10, gone_since=10)
    """
    return after._replace(
        lost=_paced(before.lost, after.lost, after.lost_since, pace, now),
        gone=_paced(before.gone, after.gone, after.gone_since, pace, now),
    )


def _paced(before: int, after: int, since: int | None, pace: int, now: int) -> int:
    if since is None:  # nothing counts
        return after
    return min(after, max(before, 1 + (now - since) // pace))


def steady_time(now: int, previous: int | None) -> int:
    """Return the time by which stored data may expire at the end of a run, in Unix seconds.

    ``previous`` is the end of the run before it. A clock that is more than 180 days ahead of that
    may have leapt: nothing expires by it until another run has seen it.

    >>> day = 86_400
    >>> steady_time(999 * day, None), steady_time(180 * day, 0), steady_time(180 * day + 1, 0)
    (86313600, 15552000, 0)
    """
    return now if previous is None or now - previous <= LEAP else previous


def absence_starts(ends: Sequence[int], now: int) -> list[int]:
    """Return the times since which pages are absent, by the first complete run without them.

    ``ends``: ends of the complete runs, in their order (Unix seconds); the run that ends ``now``
    follows them. A clock that was behind at the end of a run does not make its absences older than
    the run before it. One that was ahead does not keep them young: the next run counts in its
    place.

    >>> absence_starts([10, 20], 30), absence_starts([10, 2, 20], 30), absence_starts([10, 99], 30)
    ([10, 20, 30], [10, 10, 20, 30], [10, 30, 30])

    Source: INV-12; ADR 110.
    """
    starts = [now]
    for end in reversed(ends):
        starts.append(end if end <= now else starts[-1])
    starts.reverse()
    return list(accumulate(starts, max))


def is_absence_old(since: int, now: int, least: int) -> bool:
    """Whether the time since ``since`` is at least ``least`` seconds.

    The age is 0, never negative, if the clock was set back (INV-12).

    >>> is_absence_old(10, 20, 10), is_absence_old(10, 20, 11), is_absence_old(99_999, 20, 0)
    (True, False, True)
    """
    return max(0, now - since) >= least


def is_gone(
    counts: Counts, outcome: Outcome, http_status: int | None, policy: Policy, now: int
) -> bool:
    """Whether a page has been gone often and long enough to be removed after this answer.

    >>> is_gone(Counts(3, 3, 10, 10), Outcome.NOT_FOUND, 404, Policy(), now=20)
    True
    >>> is_gone(Counts(3, 3, 10, 10), Outcome.NOT_FOUND, 404, Policy(lost_min_age=60), now=20)
    False

    Source: R0-50, M-01, M-08, U-09; docs/decisions.md, "When it is old enough".
    """
    if not AGEING[outcome].lost:
        return False
    purged = outcome is Outcome.SOFT_404 or policy.purges(http_status)
    since = counts.gone_since if counts.gone_since is not None else now
    old = is_absence_old(since, now, policy.lost_min_age)
    return purged and counts.gone >= policy.lost_threshold and old


def absent_runs_before_removal(gone_count: int, policy: Policy) -> int:
    """Return the number of complete runs in a row that must miss a page before its removal.

    Runs that found the page gone and runs that found no link to it are added up; the count does
    not start again (R4-07). The result is at least 1.

    >>> [absent_runs_before_removal(lost, Policy()) for lost in (0, 2, 9)]
    [3, 1, 1]

    Source: M-05, G-14, U-18; docs/decisions.md.
    """
    needed = policy.orphan_threshold - gone_count
    if policy.sum_of_thresholds and gone_count:
        needed = policy.orphan_threshold + policy.lost_threshold - gone_count
    return max(1, needed)


def is_abandoned(gone_count: int, age: int, absent_since: int, policy: Policy, now: int) -> bool:
    """Whether a page has been unreached, or excluded from requests, for long enough.

    ``age``: number of complete runs since a run last reached it with permission to request it,
    including the run being sealed. ``absent_since``: when the first of them was sealed (Unix
    seconds).

    Source: R4-07, M-05, U-17, U-18; docs/decisions.md.
    """
    return age >= absent_runs_before_removal(gone_count, policy) and is_absence_old(
        absent_since, now, policy.orphan_min_age
    )


def rule_of_unseen(
    *, is_listed: bool, is_excluded: bool = False, is_reached: bool = False
) -> RemovalRule | None:
    """Return the rule for a stored page that a complete run did not see; None: the page stays.

    ``is_listed``: whether the listing of its source says what exists (folders, buckets,
    repositories). ``is_excluded``: whether today's scope or robots.txt leaves the page out.
    ``is_reached``: whether the run reached it without a request.

    >>> rule_of_unseen(is_listed=True).word, rule_of_unseen(is_listed=False).word
    ('absent', 'orphan')

    Source: R1-29, M-07; docs/decisions.md.
    """
    if is_excluded:
        return RemovalRule.EXCLUDED
    if not is_listed:
        return RemovalRule.ORPHAN
    return None if is_reached else RemovalRule.ABSENT


def needs_verification(
    counts: Counts, age: int, absent_since: int, policy: Policy, now: int
) -> bool:
    """Whether to look at an unreached page, with one more request, before its removal.

    The answer decides whether the page's lost runs count as well, or only its gone runs
    (``lets_page_go``). ``age`` and ``absent_since`` as in ``is_abandoned``.

    Source: R4-07, M-05, U-18; docs/decisions.md.
    """
    return any(
        is_abandoned(count, age, absent_since, policy, now)
        for count in (counts.gone, counts.lost or counts.gone)
    )


#: Answers to a look that allow the removal of an unreached page (ADR 131).
SPOKEN: Final = frozenset({200, 304, 404, 410, *_REDIRECTS})
#: Earlier answers of a page that a redirect confirms when a look finds one. A look follows no
#: redirect, so it cannot distinguish a loop from a valid redirect.
_LED_AWAY: Final = _REDIRECTS | {Fault.REDIRECT_LOOP, Fault.NO_LOCATION, Fault.TOO_MANY_REDIRECTS}
#: 2xx that bring the page as a 200 does: by way of a transforming proxy, with a delta that we did
#: not ask for, or unknown. Those without a page (202, 204, 205, 206, 207 ...) are none of them.
LIKE_200: Final = frozenset({203, 226, 299})
#: Statuses from 200 to 599 after which a page is not lost, in addition to PASSING.
SOUND: Final = frozenset({200, 304, 406, *LIKE_200, *_REDIRECTS})


_MANY_ADDRESSES: Final = 10  #: of a sitemap; fewer may all go at once
_EMPTY_RUNS: Final = 2  #: complete runs that found a sitemap empty before it is believed


def empties_sitemap(stored: int, found_so: int) -> bool:
    """Whether to believe a sitemap that names no address any more.

    ``stored``: its addresses before; ``found_so``: complete runs that found it empty before this
    one. Generators that fail write an empty sitemap for a while.

    >>> [empties_sitemap(9, 0), empties_sitemap(10, 0), empties_sitemap(10, 2)]
    [True, False, True]
    """
    return stored < _MANY_ADDRESSES or found_so >= _EMPTY_RUNS


def counts_as_lost(http_status: int | None) -> bool:
    """Whether a stored page counts as lost after an (extended) status (see AGEING).

    >>> [counts_as_lost(status) for status in (404, 403, 206, 1000)]
    [True, True, True, True]
    >>> [counts_as_lost(status) for status in (200, 302, 406, 503, 1103, None)]
    [False, False, False, False, False, False]
    """
    if http_status is None or http_status in PASSING or http_status in SOUND:
        return False
    return http_status < Fault.NETWORK


class Look(NamedTuple):
    """One more request for a page that a complete run did not reach, and the page's counts."""

    answer: int | None  #: (extended) status; None: not requested
    lost_count: int
    gone_count: int
    age: int  #: complete runs without the page (see is_abandoned)
    before: int | None = None  #: (extended) status of its last visit
    host_answered: bool = False  #: another page of its host answered 200 or 304 in this run


def lets_page_go(look: Look, policy: Policy) -> bool:
    """Whether the look at an unreached page allows its removal.

    An answer in SPOKEN does, after enough missing runs, even if it is a 200. An answer that counts
    as lost, or a redirect that confirms an earlier one, adds the page's lost runs to its missing
    runs, but only if the host answered for other pages. A page that was never lost must then be
    missing for the sum of both thresholds. Any other answer, such as a time-out or a 503, keeps
    the page for this run.

    >>> [lets_page_go(Look(status, 0, 0, 3), Policy()) for status in (200, 404, 503, 403, None)]
    [True, True, False, False, False]
    >>> [lets_page_go(Look(403, lost, 0, 1, None, True), Policy()) for lost in (1, 2)]
    [False, True]

    Source: R4-07, M-04, M-05; docs/decisions.md.
    """
    if look.answer in SPOKEN and look.age >= absent_runs_before_removal(look.gone_count, policy):
        return True
    still_away = look.answer in _REDIRECTS and look.before in _LED_AWAY
    if not look.host_answered or not (counts_as_lost(look.answer) or still_away):
        return False
    if look.lost_count:
        return look.age >= absent_runs_before_removal(look.lost_count, policy)
    return look.age >= policy.orphan_threshold + policy.lost_threshold


#: Answers of a page that is there, or away for a while: only the links to it are missing.
ANSWERING: Final = frozenset({200, 304}) | TEMPORARY
SMALL: Final = 3  #: pages with content; a larger source may not lose half of them in a sweep


class Loss(NamedTuple):
    """The removals of one sweep, and the size of the source."""

    removals: int
    pages: int  #: pages of the source before the run


def loss_exceeds_limits(loss: Loss, *, max_ratio: float, min_count: int) -> bool:
    """Whether a loss is above both limits, or takes all of two or more pages.

    >>> [loss_exceeds_limits(Loss(n, 200), max_ratio=0.1, min_count=10) for n in (20, 21)]
    [False, True]
    >>> [loss_exceeds_limits(Loss(n, n), max_ratio=0.1, min_count=10) for n in (1, 2)]
    [False, True]
    """
    if loss.removals > 1 and loss.removals >= loss.pages:
        return True
    return loss.removals > min_count and loss.removals > max_ratio * loss.pages


def withholds_sweep(
    content: Loss, records: Loss, *, max_ratio: float, min_count: int, answering: int = 0
) -> bool:
    """Whether to withhold a sweep, because it would remove too much at once.

    ``content`` counts the pages with content; ``records`` counts pages that only keep links, too.
    Each must stay within the limits of ``exceeds``, so that many links-only pages do not hide the
    loss of all content. If more than SMALL pages have content, half of these is too much as well.
    So is half of two or more pages with content if these are ``answering``: orphans that answered
    200, 304 or a temporary redirect. A ``max_ratio`` of 1 turns every check off.

    >>> limits = {"max_ratio": 0.1, "min_count": 10}
    >>> withholds_sweep(Loss(8, 8), Loss(8, 90), **limits)
    True
    >>> withholds_sweep(Loss(3, 8), Loss(3, 8), **limits)
    False
    >>> [withholds_sweep(Loss(2, 3), Loss(2, 3), **limits, answering=n) for n in (1, 2)]
    [False, True]

    Source: INV-5; ADR 13, 92.
    """
    if max_ratio >= 1:
        return False
    if content.pages > 1 and 2 * answering >= content.pages:
        return True
    if content.pages > SMALL and 2 * content.removals >= content.pages:
        return True
    return any(
        loss_exceeds_limits(loss, max_ratio=max_ratio, min_count=min_count)
        for loss in (content, records)
    )
