"""The decision about one visit: its outcome, by the stored page (R4.8, the eight cases)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, assert_never

from smartcrawl.rules.model import (
    Action,
    Extraction,
    Fault,
    Mode,
    Outcome,
    RemovalRule,
    Standing,
    Status,
    Word,
)

HOLD, INDEX, LIST, NOTE, TOUCH = Action.HOLD, Action.INDEX, Action.LIST, Action.NOTE, Action.TOUCH
EXCLUDED, FAILED, LOST, MODIFIED = Word.EXCLUDED, Word.FAILED, Word.LOST, Word.MODIFIED
NEW, REDIRECTED, UNCHANGED = Word.NEW, Word.REDIRECTED, Word.UNCHANGED
SKIPPED = Word.SKIPPED


class Verdict(NamedTuple):
    """The action on a visit, and the word that reports it."""

    action: Action
    word: Word


class Row(NamedTuple):
    """The verdicts for one outcome, by the standing of the page."""

    bare: Verdict
    links: Verdict
    held: Verdict


def _row(bare: tuple[Action, Word], links: tuple[Action, Word], held: tuple[Action, Word]) -> Row:
    return Row(Verdict(*bare), Verdict(*links), Verdict(*held))


# fmt: off
DECISIONS: Final[Mapping[Outcome, Row]] = {
    #                           bare                links               held                 case
    Outcome.NOT_MODIFIED:  _row((NOTE, FAILED),     (TOUCH, EXCLUDED),  (TOUCH, UNCHANGED)),  # 2
    Outcome.SAME:          _row((INDEX, NEW),       (INDEX, NEW),       (TOUCH, UNCHANGED)),  # 2
    Outcome.CHANGED:       _row((INDEX, NEW),       (INDEX, NEW),       (INDEX, MODIFIED)),   # 1, 3
    Outcome.NOT_ACCEPTABLE:_row((LIST, EXCLUDED),   (LIST, EXCLUDED),   (HOLD, EXCLUDED)),    # 4
    Outcome.ALIAS:         _row((INDEX, NEW),       (LIST, REDIRECTED), (INDEX, MODIFIED)),   # 1, 3
    Outcome.REDIRECT:      _row((NOTE, REDIRECTED), (HOLD, REDIRECTED), (HOLD, REDIRECTED)),  # 4
    Outcome.NOT_FOUND:     _row((NOTE, FAILED),     (HOLD, FAILED),     (HOLD, LOST)),        # 5
    Outcome.SOFT_404:      _row((NOTE, FAILED),     (HOLD, FAILED),     (HOLD, LOST)),        # 5
    Outcome.HTTP_ERROR:    _row((NOTE, FAILED),     (HOLD, FAILED),     (HOLD, LOST)),        # 5
    Outcome.TRANSIENT:     _row((NOTE, FAILED),     (HOLD, FAILED),     (HOLD, FAILED)),      # 5
    Outcome.BAD_HEADER:    _row((NOTE, FAILED),     (HOLD, FAILED),     (HOLD, LOST)),        # 6
    Outcome.UNREACHABLE:   _row((NOTE, FAILED),     (HOLD, FAILED),     (HOLD, FAILED)),      # 7
    Outcome.UNPROCESSABLE: _row((NOTE, FAILED),     (HOLD, FAILED),     (HOLD, FAILED)),      # 8
    Outcome.EXCLUDED:      _row((NOTE, EXCLUDED),   (HOLD, EXCLUDED),   (HOLD, EXCLUDED)),    # U-15
}
# fmt: on


def decide(
    standing: Standing, outcome: Outcome, *, force: bool = False, alias: bool = False
) -> Verdict:
    """Return the verdict on one visit.

    ``force`` is the operator's order to reindex: it turns "same content" into a
    replacement and changes no other cell. The word stays *unchanged* then, because the content
    is. ``alias``: the page stands aside for its canonical page, so that an unchanged one is
    *redirected*, not *excluded*.

    Source: R4-34 to R4-41; M-12; M-13; docs/decisions.md.
    """
    row = DECISIONS[outcome]
    match standing:
        case Standing.BARE:
            verdict = row.bare
        case Standing.LINKS:
            verdict = row.links
        case Standing.HELD:
            verdict = row.held
        case _:
            assert_never(standing)
    if force and outcome is Outcome.SAME and verdict.action is TOUCH:
        return verdict._replace(action=INDEX)
    if alias and standing is Standing.LINKS and verdict.action is TOUCH:
        return verdict._replace(word=REDIRECTED)
    return verdict


def waits_for_browser(standing: Standing, http_status: int | None) -> bool:
    """Whether a visit says no more than that a new page needs a browser, and there is none.

    The page stays pending: nothing is known about it yet, and the next run asks it again.

    >>> [waits_for_browser(standing, 1114) for standing in Standing]
    [True, False, False]
    >>> waits_for_browser(Standing.BARE, 1218)
    False
    """
    return standing is Standing.BARE and http_status == Fault.NO_BROWSER


#: The verdict on a page that waits for a browser.
WAITS: Final = Verdict(NOTE, SKIPPED)


def decide_moved(verdict: Verdict) -> Verdict:
    """Return the verdict on an item that has another address now, and its verdict without that.

    Equal content is *moved*; anything else is what it would be at the old address.

    >>> [decide_moved(Verdict(INDEX, word)).word.word for word in (UNCHANGED, NEW)]
    ['moved', 'new']

    Source: R3-02, R3-32.
    """
    if verdict == Verdict(INDEX, UNCHANGED):
        return Verdict(INDEX, Word.MOVED)
    return verdict


def decide_extraction(
    standing: Standing, mode: Mode, *, same_configuration: bool, snapshot: bool
) -> Extraction:
    """Return how a page gets the entry that its mode and the present configuration ask for.

    ``snapshot``: whether a snapshot of the stored page's body exists. The decision is made before
    the request, because a 304 brings no body.

    >>> facts = {"same_configuration": False, "snapshot": True}
    >>> decide_extraction(Standing.HELD, Mode.INDEX, **facts).name
    'AGAIN'
    >>> decide_extraction(Standing.HELD, Mode.LINKS_ONLY, **facts).name
    'REFUSED'

    Source: M-15, M-02, R4-20.
    """
    if standing is Standing.BARE or same_configuration:
        return Extraction.STANDS
    if standing is Standing.HELD and mode is not Mode.INDEX:
        return Extraction.REFUSED
    return Extraction.AGAIN if snapshot else Extraction.WHOLE


def status_after(
    action: Action,
    outcome: Outcome,
    before: Status,
    standing: Standing,
    *,
    gone: bool = False,
    waits: bool = False,
) -> Status:
    """Return the record's status after a visit.

    ``standing``: the standing after the visit. ``gone``: whether the page has been gone often and
    long enough (rules.absence.is_gone). Where nothing is stored this needs no sweep, and a
    tombstone stays one until the page answers again. ``waits``: whether it waits for a browser.

    A failed visit shows as ``Error`` while the content it protects stays searchable (M-06);
    a redirect, 406 or noindex of a stored page changes no status until a sweep (ADR 131).

    >>> status_after(Action.HOLD, Outcome.REDIRECT, Status.INDEXED, Standing.HELD).word
    'Indexed'

    Source: U-01 to U-15 with the overrides of ADR 135.
    """
    match action:
        case Action.INDEX:
            return Status.INDEXED
        case Action.LIST:
            return Status.CRAWLED
        case Action.TOUCH:
            return Status.INDEXED if standing is Standing.HELD else Status.CRAWLED
        case Action.NOTE if outcome is Outcome.REDIRECT:
            return Status.CRAWLED
        case Action.NOTE if gone or before is Status.GONE:
            return Status.GONE
        case Action.NOTE if waits:
            return Status.PENDING
        case Action.NOTE:
            return Status.OUT_OF_SCOPE if outcome is Outcome.EXCLUDED else Status.ERROR
        case Action.HOLD if outcome in (Outcome.REDIRECT, Outcome.NOT_ACCEPTABLE):
            return _settled(before, standing)
        case Action.HOLD:
            return Status.OUT_OF_SCOPE if outcome is Outcome.EXCLUDED else Status.ERROR
        case _:
            assert_never(action)


def _settled(before: Status, standing: Standing) -> Status:
    """Return the status of a stored page whose last answer does not endanger it."""
    if before in (Status.ERROR, Status.OUT_OF_SCOPE, Status.PENDING):
        return Status.INDEXED if standing is Standing.HELD else Status.CRAWLED
    return before


#: Outcomes whose status becomes the effective one of a page that is not stored.
_ANSWERED: Final = frozenset(
    {
        Outcome.REDIRECT,
        Outcome.NOT_FOUND,
        Outcome.HTTP_ERROR,
        Outcome.TRANSIENT,
        Outcome.BAD_HEADER,
    }
)


def effective_status(
    action: Action, outcome: Outcome, http_status: int | None, before: int | None
) -> int | None:
    """Return the status that the next decision builds on (R4-45).

    200 while content is stored, 406 while only links are, the plain status where nothing is
    stored. An outcome that is not about the page (network, robots, our own fault) changes nothing.
    """
    match action:
        case Action.INDEX:
            return 200
        case Action.LIST:
            return 406
        case Action.TOUCH | Action.HOLD:
            return before
        case Action.NOTE:
            return http_status if outcome in _ANSWERED else before
        case _:
            assert_never(action)


class Removal(NamedTuple):
    """The state of a record after its content was removed."""

    status: Status
    standing: Standing
    word: Word
    effective_status: int | None  #: None: see effective_after


REMOVALS: Final[Mapping[RemovalRule, Removal]] = {
    RemovalRule.GONE: Removal(Status.GONE, Standing.BARE, Word.GONE, None),
    RemovalRule.REDIRECT: Removal(Status.CRAWLED, Standing.BARE, Word.REDIRECTED, None),
    RemovalRule.NOT_ACCEPTABLE: Removal(Status.CRAWLED, Standing.LINKS, Word.EXCLUDED, 406),
    RemovalRule.CANONICAL: Removal(Status.CRAWLED, Standing.LINKS, Word.REDIRECTED, 406),
    RemovalRule.EXCLUDED: Removal(Status.OUT_OF_SCOPE, Standing.BARE, Word.DELETED, None),
    RemovalRule.ORPHAN: Removal(Status.OUT_OF_SCOPE, Standing.BARE, Word.DELETED, None),
    RemovalRule.FORGOTTEN: Removal(Status.OUT_OF_SCOPE, Standing.BARE, Word.DELETED, None),
    RemovalRule.ABSENT: Removal(Status.OUT_OF_SCOPE, Standing.BARE, Word.DELETED, None),
    RemovalRule.MOVED: Removal(Status.OUT_OF_SCOPE, Standing.BARE, Word.REDIRECTED, None),
    RemovalRule.WALL: Removal(Status.ERROR, Standing.BARE, Word.FAILED, None),
}


def state_after_removal(rule: RemovalRule) -> Removal:
    """Return the state of a record after a sweep removed its content under ``rule``.

    A redirect keeps its target as its only link. A page that must not be indexed, or that stands
    aside for its canonical page, keeps all of its links; any other page has none.

    >>> (
    ...     state_after_removal(RemovalRule.GONE).word.word,
    ...     state_after_removal(RemovalRule.ORPHAN).status.word,
    ... )
    ('gone', 'OutOfScope')

    Source: U-06, U-07, U-09, U-18; RD-02; ADR 131.
    """
    return REMOVALS[rule]


def effective_after(rule: RemovalRule, http_status: int | None) -> int | None:
    """Return the effective status of a record whose content was removed under ``rule``.

    The last status of the page where it is the reason for the removal; 406 where only links stay;
    None where the page was not requested.

    >>> effective_after(RemovalRule.GONE, 410), effective_after(RemovalRule.NOT_ACCEPTABLE, 200)
    (410, 406)
    >>> effective_after(RemovalRule.ORPHAN, 200) is None
    True
    """
    if rule in (RemovalRule.GONE, RemovalRule.REDIRECT):
        return 404 if http_status == 200 else http_status  # a soft 404
    return REMOVALS[rule].effective_status
