"""Whether a run saw everything (docs/decisions.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from smartcrawl.rules.model import Fault, Outcome

NOT_DUE = "not_due"
NO_PAGES = "no_pages"
_LED_TO = re.compile(r"seed_failed: \S+ \(redirected to (https?://\S+)\)")
DEPTH_LEFT = "depth_limit"  #: a run left out by order what is deeper
BY_ORDER = ", by order"  #: end of the reason of a limit that was given to one run
SEED_FAILED = "seed_failed"
OUTSIDE = "(out of scope)"  #: end of the reason of a seed that is not asked
LOGIN_FAILED = "the login failed)"  #: end of the reason of a seed that was not read for that
MAX_UNREACHABLE_SHARE = 0.1  #: of a run's visits


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of a finished run about its completeness."""

    seeds_failed: tuple[str, ...]  #: seeds that did not end in 200 or 304 in scope, with the reason
    cut_by: tuple[str, ...]  #: limits and signals that ended it early, such as "max_pages"
    visits: int
    unreachable: int  #: visits without an answer about the page (``counts_as_unanswered``)
    pending: int  #: pages that were reached and due, but not visited
    sitemaps_failed: tuple[str, ...] = ()  #: sitemaps without links now and before, with reason
    skipped: int = 0  #: pages that were reached and not due
    not_due: int = 0  #: skipped pages that no run requested since the last complete run began
    silent: int = 0  #: skipped pages whose last visit brought no answer about them
    #: addresses registered by hand of which no answer came, with the reason
    pins_failed: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()  #: pages that met a login form, where that makes it incomplete
    is_empty: bool = False  #: a listing was whole and is believed, and has no items


#: Faults of pages whose host answered: with a page that is not read here, or a login form.
_ANSWERED: Final = frozenset(
    {Fault.TOO_MANY_REDIRECTS, Fault.LOGIN, Fault.EXTRACTION_BUDGET, Fault.NO_BROWSER}
)


def counts_as_unanswered(outcome: Outcome, http_status: int | None) -> bool:
    """Whether a visit brought no answer about its page, and so counts as unreachable.

    Network, header and processing errors, 5xx and 429 after retries; redirects and every
    other 4xx are answers.

    >>> counts_as_unanswered(Outcome.TRANSIENT, 503), counts_as_unanswered(Outcome.TRANSIENT, 408)
    (True, False)
    >>> (
    ...     counts_as_unanswered(Outcome.BAD_HEADER, 1002),
    ...     counts_as_unanswered(Outcome.BAD_HEADER, 1004),
    ... )
    (True, False)
    """
    if http_status in _ANSWERED or (
        http_status is not None and Fault.NOT_A_SITEMAP <= http_status <= Fault.OUT_OF_MEMORY
    ):
        return False
    if outcome is Outcome.TRANSIENT:
        return http_status == 429 or (http_status is not None and http_status >= 500)
    return outcome in (Outcome.UNREACHABLE, Outcome.BAD_HEADER, Outcome.UNPROCESSABLE)


def is_unanswered_status(status: int | None) -> bool:
    """Whether the stored status of a visit counts as unreachable (``counts_as_unanswered``).

    >>> [is_unanswered_status(status) for status in (None, 404, 429, 503, 1002, 1004)]
    [False, False, True, True, True, False]
    """
    if status is None:
        return False
    outcome = Fault(status).outcome if status >= 1000 else Outcome.TRANSIENT
    return counts_as_unanswered(outcome, status)


def only_not_due(reasons: Iterable[str]) -> bool:
    """Whether a run is incomplete for nothing else than pages that were not due.

    >>> only_not_due(["not_due: 3"]), only_not_due(["not_due: 3", "max_pages"]), only_not_due([])
    (True, False, False)
    """
    found = list(reasons)
    return bool(found) and all(reason.startswith(f"{NOT_DUE}:") for reason in found)


def page_limit_reason(ordered: int) -> str:
    """Return the reason that a limit left pages unasked; ``ordered``: that of the run, or 0.

    >>> page_limit_reason(0), page_limit_reason(1200)
    ('max_pages', 'max_pages: 1,200, by order')
    """
    return f"max_pages: {ordered:,}{BY_ORDER}" if ordered else "max_pages"


def depth_reason_kind(ordered: int) -> str:
    """Return the beginning of the reason that a run left out what lies deeper, by order."""
    return f"{DEPTH_LEFT}: {ordered}{BY_ORDER}"


def ordered_depth(reasons: Iterable[str]) -> int | None:
    """Return the depth that a run was ordered to reach, where it left out what lies deeper.

    >>> ordered_depth(["pending: 7", f"{depth_reason_kind(2)}: 1 address, http://a.example/"])
    2
    """
    for reason in reasons:
        kind, _, rest = reason.partition(": ")
        if kind == DEPTH_LEFT:
            return int(rest.partition(",")[0])
    return None


def seed_led_to(reason: str) -> str | None:
    """Return the address that a failed seed redirected to, if that is why it failed.

    >>> seed_led_to("seed_failed: http://a.example/ (redirected to https://b.example/)")
    'https://b.example/'
    >>> seed_led_to("seed_failed: http://a.example/ (HTTP status 503)")
    """
    found = _LED_TO.fullmatch(reason)
    return found[1] if found else None


def only_by_order(reasons: Iterable[str]) -> bool:
    """Whether a run is incomplete only because it was ordered to see a part.

    >>> only_by_order(["max_pages: 5, by order", "pending: 7"]), only_by_order(["pending: 7"])
    (True, False)
    >>> only_by_order([f"{depth_reason_kind(2)}: 1 address, http://a.example/"])
    True
    """
    found = list(reasons)
    ordered = [one for one in found if one.startswith(f"{DEPTH_LEFT}:") or one.endswith(BY_ORDER)]
    has_page_limit = any(one.endswith(BY_ORDER) for one in ordered)
    rest = [one for one in found if one not in ordered]
    return bool(ordered) and all(has_page_limit and one.startswith("pending:") for one in rest)


def reasons_against_seal(evidence: Evidence) -> tuple[str, ...]:
    """Return the reasons why a run is incomplete; none when it is complete.

    Only a complete run may age the pages that it did not reach. A due crawl is complete when every
    page that it reached was requested since the last complete run began, because each of those runs
    went through all links again. A few of these requests may stay without an answer, as in a full
    crawl.

    >>> reasons_against_seal(Evidence((), (), visits=100, unreachable=10, pending=0))
    ()
    >>> reasons_against_seal(Evidence(("http://a.example/",), ("max_pages",), 1, 1, 7))
    ('max_pages', 'seed_failed: http://a.example/', 'unreachable: 1 of 1 visits', 'pending: 7')
    >>> reasons_against_seal(
    ...     Evidence((), (), visits=0, unreachable=0, pending=0, skipped=9, silent=1)
    ... )
    ('not_due: 1',)
    >>> reasons_against_seal(Evidence(("http://a.example/",), ("login: refused",), 1, 0, 0))
    ('login: refused', 'seed_failed: http://a.example/ (the login failed)')

    Source: RD-07 as sharpened by ADR 135; INV-4.
    """
    found = [*evidence.cut_by]
    has_login = not any(reason.startswith("login: ") for reason in evidence.cut_by)
    found += [_reason_of_seed(seed, has_login=has_login) for seed in evidence.seeds_failed]
    found += [f"pin_failed: {url}" for url in evidence.pins_failed]
    found += [f"sitemap_failed: {url}" for url in evidence.sitemaps_failed]
    if evidence.walls:
        more = f" and {len(evidence.walls) - 1:,} more" if len(evidence.walls) > 1 else ""
        found.append(f"wall: {evidence.walls[0]}{more}")
    most = (evidence.visits + evidence.skipped) * MAX_UNREACHABLE_SHARE
    if evidence.unreachable > most:
        found.append(f"unreachable: {evidence.unreachable} of {evidence.visits} visits")
    if evidence.pending:
        found.append(f"pending: {evidence.pending}")
    in_vain = evidence.silent if evidence.unreachable + evidence.silent > most else 0
    if not_due := evidence.not_due + in_vain:
        found.append(f"{NOT_DUE}: {not_due}")
    if not (evidence.visits or evidence.skipped or evidence.is_empty):
        found.append(NO_PAGES)
    return tuple(found)


def _reason_of_seed(seed: str, *, has_login: bool) -> str:
    """Return the reason that a seed failed; a login that failed is why where nothing else is."""
    reason = f"{SEED_FAILED}: {seed}"
    if has_login:
        return reason
    if seed_led_to(reason) is not None:  # its target was not read
        return f"{reason[:-1]}: {LOGIN_FAILED}"
    return reason if " (" in seed else f"{reason} ({LOGIN_FAILED}"
