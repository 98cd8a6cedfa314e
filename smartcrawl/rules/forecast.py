"""Forecasts: of removals, and of the time at which a run will have visited all pages.

The rate of a run over the last minute, and the time at which it will have visited all pages.

Source: R2-26, whose rate of a run that takes hours is that of now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final, NamedTuple

from smartcrawl.rules.absence import Policy, absent_runs_before_removal, counts_as_lost
from smartcrawl.rules.http import REDIRECTS, outcome_of_http_status
from smartcrawl.rules.model import (
    REMOVES_PINNED,
    Extraction,
    Fault,
    Outcome,
    RemovalRule,
    Standing,
    Status,
    Word,
)

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


class Finding(StrEnum):
    """The last run's finding about a page, as far as its removal depends on it."""

    FINE = auto()  #: the page is sound
    GONE = auto()  #: its answer removes it after enough runs, such as 404
    TROUBLE = auto()  #: it answers an error that removes nothing
    MOVED = auto()  #: it redirects
    NOT_ACCEPTABLE = auto()  #: 406, noindex, or a type that is not read
    CANONICAL = auto()  #: it names another page as canonical
    EXCLUDED = auto()  #: robots.txt or scope leaves it out
    ABSENT = auto()  #: no link leads to it, or its listing lacks it


@dataclass(frozen=True, slots=True)
class Facts:
    """The record of a page, as far as its removal depends on it. Times are Unix seconds."""

    standing: Standing
    finding: Finding
    http_status: int | None = None  #: of its last visit
    lost_count: int = 0
    gone_count: int = 0
    gone_since: int | None = None
    age: int = 0  #: complete runs since it was reached and allowed
    absent_since: int | None = None  #: when the first of them was sealed
    pinned: bool = False
    is_listed: bool = False  #: a complete listing of its source says which pages exist
    is_answered: bool = True  #: its own answer may be a 404; that of a library's item is none


@dataclass(frozen=True, slots=True)
class ForecastWay:
    """One way to lose a page."""

    rule: RemovalRule
    runs: int  #: further runs that must find the same, at least 1
    finds: str  #: their finding, such as ``find 404``
    complete: bool  #: whether only complete runs count
    current: bool  #: whether the last run found this
    earliest: int | None = None  #: no removal before this time (Unix seconds)
    min_age: int = 0  #: seconds that must pass after the first of them

    def due(self, now: int) -> bool:
        """Whether the next run that finds the same removes the page."""
        waits = self.min_age if self.earliest is None else self.earliest - now
        return self.current and self.runs <= 1 and waits <= 0

    def __str__(self) -> str:
        kind = "complete run" if self.complete else "run"
        more = "more " if self.current else ""
        if self.runs == 1:
            return f"1 {more}{kind} {_singular(self.finds)}"
        row = "" if self.current else " in a row"
        return f"{self.runs} {more}{kind}s{row} {self.finds}"


_SINGULAR: Final = {"find": "finds", "get": "gets", "do": "does", "leave": "leaves"}


def _singular(text: str) -> str:
    """Return the words for several runs in the singular.

    >>> _singular("get 404"), _singular("do not list it")
    ('gets 404', 'does not list it')
    """
    verb, _, rest = text.partition(" ")
    return f"{_SINGULAR[verb]} {rest}"


_RESTS: Final = {
    Finding.MOVED: (RemovalRule.REDIRECT, "find that it redirects to an indexed page"),
    Finding.NOT_ACCEPTABLE: (RemovalRule.NOT_ACCEPTABLE, "find that it must not be indexed"),
    Finding.CANONICAL: (RemovalRule.CANONICAL, "find its canonical page indexed"),
}

#: Findings of an answer from the page, which clears the counts.
_ANSWERS: Final = (Finding.FINE, Finding.MOVED, Finding.NOT_ACCEPTABLE, Finding.CANONICAL)


def forecast_finding(
    status: Status,
    word: Word | None,
    http_status: int | None,
    policy: Policy,
    *,
    reached: bool,
    aside: bool = False,
) -> Finding:
    """Return the finding of the last visit of a page, or that it was not reached.

    ``aside``: whether its content is stored and it names another, indexed page as canonical.

    >>> forecast_finding(Status.ERROR, Word.LOST, 404, Policy(), reached=True).value
    'gone'
    >>> forecast_finding(Status.ERROR, Word.LOST, 403, Policy(), reached=True).value
    'trouble'
    """
    if status is Status.OUT_OF_SCOPE:
        return Finding.EXCLUDED
    if not reached:
        return Finding.ABSENT
    match word:
        case Word.LOST | Word.FAILED | Word.GONE:
            return Finding.GONE if policy.purges(http_status) else Finding.TROUBLE
        case Word.REDIRECTED if http_status in REDIRECTS:
            return Finding.MOVED
        case Word.EXCLUDED:
            return Finding.NOT_ACCEPTABLE
        case _:
            return Finding.CANONICAL if aside else Finding.FINE


def forecast_ways(
    facts: Facts, policy: Policy, *, remove_excluded: bool = False
) -> tuple[ForecastWay, ...]:
    """Return the ways to lose a page, those under way first; none where nothing is stored.

    ``remove_excluded``: OUT_OF_SCOPE_POLICY=remove. A pinned page is removed only for its answers,
    or because its listing lacks it, which comes first of a listed page.

    Source: R0-50, R3-71, R4-07, M-05; docs/decisions.md.
    """
    if facts.standing is Standing.BARE:
        return ()
    counts = policy.purge_statuses != frozenset() and facts.is_answered
    gone = [_gone(facts, policy)] if counts or facts.finding is Finding.GONE else []
    absent = _absent(facts, policy, at_once=remove_excluded)
    found = [absent, *gone] if facts.is_listed else [*gone, absent]
    rest = _RESTS.get(facts.finding)
    # Of a page with links only, noindex or a canonical page removes nothing more.
    if rest is not None and (facts.standing is Standing.HELD or facts.finding is Finding.MOVED):
        rule, finds = rest
        found.append(ForecastWay(rule, 1, finds, complete=False, current=True))
    kept = (way for way in found if not facts.pinned or way.rule in REMOVES_PINNED)
    return tuple(sorted(kept, key=lambda way: not way.current))


def _gone(facts: Facts, policy: Policy) -> ForecastWay:
    current = facts.finding is Finding.GONE
    answers = facts.finding in _ANSWERS
    count = 0 if answers else facts.gone_count
    since = None if answers else facts.gone_since
    # A pinned page is requested, listed or not.
    nevertheless = " although it is listed" if facts.is_listed and not facts.pinned else ""
    return ForecastWay(
        RemovalRule.GONE,
        max(1, policy.lost_threshold - count),
        f"get {facts.http_status if current else _listed(policy)}{nevertheless}",
        complete=False,
        current=current,
        earliest=_earliest(since, policy.lost_min_age),
        min_age=policy.lost_min_age,
    )


def _absent(facts: Facts, policy: Policy, *, at_once: bool) -> ForecastWay:
    excluded = facts.finding is Finding.EXCLUDED
    current = excluded or facts.finding is Finding.ABSENT
    if facts.is_listed and not excluded:
        return ForecastWay(RemovalRule.ABSENT, 1, "do not list it", complete=True, current=current)
    at_once = at_once and excluded
    needed = absent_runs_before_removal(facts.gone_count, policy)
    if facts.lost_count and not excluded and counts_as_lost(facts.http_status):
        needed = min(
            needed, absent_runs_before_removal(facts.lost_count, policy)
        )  # the look finds it again
    runs = 1 if at_once else max(1, needed - facts.age)
    age = 0 if at_once else policy.orphan_min_age
    return ForecastWay(
        RemovalRule.EXCLUDED if excluded else RemovalRule.ORPHAN,
        runs,
        "leave it out" if excluded else "find no link to it",
        complete=not at_once,
        current=current,
        earliest=_earliest(facts.absent_since, age),
        min_age=age,
    )


def _earliest(since: int | None, age: int) -> int | None:
    return since + age if age and since is not None else None


def _listed(policy: Policy) -> str:
    if policy.purge_statuses is None:
        return "an error that counts towards removal"
    return " or ".join(str(status) for status in sorted(policy.purge_statuses))


def forecast_outcome(status: Status, word: Word | None, http_status: int | None) -> Outcome | None:
    """Return the outcome of the last visit of a page, worked out from its record.

    None when it was not visited, or when a later event has replaced the word of that visit.

    >>> forecast_outcome(Status.INDEXED, Word.UNCHANGED, 304).value
    'not_modified'
    >>> forecast_outcome(Status.ERROR, Word.FAILED, 1103).value
    'unreachable'
    """
    match word:
        case Word.NEW | Word.MODIFIED:
            return Outcome.CHANGED
        case Word.MOVED:
            return Outcome.CHANGED if status is Status.INDEXED else Outcome.NOT_ACCEPTABLE
        case Word.UNCHANGED:
            return Outcome.NOT_MODIFIED if http_status == 304 else Outcome.SAME
        case Word.REDIRECTED:
            return Outcome.REDIRECT if http_status in REDIRECTS else Outcome.ALIAS
        case Word.EXCLUDED if status is Status.OUT_OF_SCOPE:
            return Outcome.EXCLUDED
        case Word.EXCLUDED:
            return Outcome.NOT_MODIFIED if http_status == 304 else Outcome.NOT_ACCEPTABLE
        case Word.FAILED | Word.LOST | Word.GONE if http_status is not None:
            return _error(http_status)
        case _:
            return None


#: Outcomes after which a stored page would be confirmed.
_CONFIRMS: Final = frozenset({Outcome.CHANGED, Outcome.SAME, Outcome.ALIAS, Outcome.EXCLUDED})


def outcome_as_last_time(
    standing: Standing, status: Status, word: Word | None, http_status: int | None
) -> Outcome | None:
    """Return the outcome of a visit of a page that answers as it did last time.

    A stored page is confirmed where nothing says that its last visit failed. None: the registry has
    no answer of the page, so only a visit can show what its server sends.

    >>> outcome_as_last_time(Standing.HELD, Status.INDEXED, Word.NEW, 200).value
    'not_modified'
    >>> outcome_as_last_time(Standing.HELD, Status.ERROR, Word.ORPHANED, 404).value
    'not_found'
    >>> outcome_as_last_time(Standing.BARE, Status.PENDING, None, None)
    """
    outcome = forecast_outcome(status, word, http_status)
    if http_status is not None and http_status not in (200, 304):
        outcome = Outcome.REDIRECT if http_status in REDIRECTS else _error(http_status)
    is_kept = outcome is Outcome.NOT_ACCEPTABLE and standing is not Standing.HELD
    is_asked_otherwise = http_status == Fault.OTHER_VERSION  # the next request has no validators
    if outcome is not None and outcome not in _CONFIRMS and not (is_kept or is_asked_otherwise):
        return outcome
    return None if standing is Standing.BARE else Outcome.NOT_MODIFIED


def _error(http_status: int) -> Outcome:
    if http_status == 200:
        return Outcome.SOFT_404
    if http_status < min(Fault):
        return outcome_of_http_status(http_status, conditional=False)
    return Fault(http_status).outcome if http_status in set(Fault) else Outcome.UNREACHABLE


def reason_without_validators(
    *,
    standing: Standing,
    validators: bool,
    extraction: Extraction,
    ordered: bool,
    believed: bool,
    unconfirmed: bool,
    is_listed: bool = False,
) -> str | None:
    """Return the reason why the next request for a page has no validators; None when it has some.

    ``unconfirmed``: its last 304 response named another version than the one that was asked about.
    ``is_listed``: its validators are those of a listing.

    Source: RP-05, R0-38; ADR 130.
    """
    if standing is Standing.BARE:
        return "no copy is stored"
    if ordered:
        return "reindexing was ordered"
    if extraction is Extraction.WHOLE:
        return "extracted with other settings"
    if not validators:
        if is_listed:
            return "no reliable validator in the listing"
        return "no reliable validator is stored"
    if not believed:
        return "the validators of its server are unreliable"
    if unconfirmed:
        return "its last 304 response named another version"
    return None
