"""The spellings of one address: which are kept, which is asked next, and which answer counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from smartcrawl.rules.http import outcome_of_http_status
from smartcrawl.rules.model import Fault, Outcome, Standing, Word

MOST_SPELLINGS: Final = 3  #: kept beside the request address

#: Statuses that are about the reader or the moment, not about the address.
_NOT_OF_ADDRESS: Final = frozenset({401, 403, 407, 429})
#: Outcomes of answers that brought the page.
BROUGHT: Final = frozenset({Outcome.NOT_MODIFIED, Outcome.SAME, Outcome.CHANGED, Outcome.ALIAS})
#: The host asks for quiet: no other address of it is asked.
_QUIET: Final = frozenset({429, 503})
_SILENT: Final = frozenset({Outcome.UNREACHABLE, Outcome.UNPROCESSABLE})
_CIRCLES: Final = frozenset({int(Fault.REDIRECT_LOOP), int(Fault.TOO_MANY_REDIRECTS)})
#: How much an answer says against "all spellings are gone", the higher the more.
_RANKS: Final = {
    Outcome.EXCLUDED: -2,  # it was not asked
    Outcome.SOFT_404: 0,
    Outcome.NOT_FOUND: 0,
    Outcome.HTTP_ERROR: 1,
    Outcome.BAD_HEADER: 1,
    Outcome.NOT_ACCEPTABLE: 1,
    Outcome.REDIRECT: 2,
}
_GONE: Final = -1  #: rank of a 410, which some operators believe at once, unlike a 404
_UNKNOWN: Final = 3  #: the page may be there
#: Words of visits that brought nothing.
_FAILED: Final = frozenset(
    {Word.FAILED, Word.LOST, Word.GONE, Word.REDIRECTED, Word.EXCLUDED, Word.DELETED}
)


def asks_other_spelling(outcome: Outcome, status: int | None, *, brought: bool) -> bool:
    """Whether the other spellings of an address are asked after this answer.

    ``brought``: whether the asked spelling is the request address, and brought a page before. What
    says nothing about the address is a reason only where it never did. A host that does not answer,
    or asks for quiet, is not asked about another spelling.

    >>> asks_other_spelling(Outcome.NOT_FOUND, 404, brought=True)
    True
    >>> [asks_other_spelling(Outcome.HTTP_ERROR, 403, brought=brought) for brought in (True, False)]
    [False, True]

    Source: R0-16, R0-100.
    """
    if outcome in BROUGHT or (outcome is Outcome.NOT_ACCEPTABLE and status == 200):
        return False
    if outcome in (Outcome.SOFT_404, Outcome.REDIRECT) or status in _CIRCLES:
        return True
    if outcome is not Outcome.EXCLUDED and status is not None and 400 <= status < 500:
        return status not in _NOT_OF_ADDRESS or (not brought and status not in _QUIET)
    return not (brought or outcome in _SILENT or status in _QUIET)


def deciding_spelling(answers: Sequence[tuple[Outcome, int | None]]) -> int:
    """Return the place of the answer that counts when no spelling brought the page.

    *Gone* means that all are: an answer that leaves the page in doubt counts more than one that
    denies it. Of equal answers the last counts.

    >>> deciding_spelling([(Outcome.NOT_FOUND, 404), (Outcome.TRANSIENT, 500)])
    1
    >>> deciding_spelling([(Outcome.REDIRECT, 301), (Outcome.NOT_FOUND, 404)])
    0
    """
    ranks = [_GONE if status == 410 else _RANKS.get(o, _UNKNOWN) for o, status in answers]
    best = max(ranks)
    return max(place for place, rank in enumerate(ranks) if rank == best)


def denies_page(outcome: Outcome) -> bool:
    """Whether an answer adds nothing to an earlier one of this run that the page is not there."""
    return outcome in (Outcome.NOT_FOUND, Outcome.SOFT_404, Outcome.EXCLUDED)


def stored_visit_outcome(word: Word, status: int | None, standing: Standing) -> Outcome | None:
    """Return the outcome of a stored visit that brought no page; None: it brought one.

    >>> stored_visit_outcome(Word.LOST, 404, Standing.HELD).value
    'not_found'
    >>> stored_visit_outcome(Word.LOST, 200, Standing.HELD).value
    'soft_404'
    >>> stored_visit_outcome(Word.UNCHANGED, 304, Standing.HELD)
    """
    if word not in _FAILED:
        return None
    if word is Word.EXCLUDED:
        return Outcome.EXCLUDED if standing is Standing.BARE else None
    if status is None:
        return None
    if status >= 1000:
        return Fault(status).outcome
    if status == 200:
        return Outcome.SOFT_404
    return outcome_of_http_status(status, conditional=False)


def kept_spellings(met: Iterable[str], stored: Sequence[str], request: str) -> list[str]:
    """Return the other spellings to keep: the newest first, without the request address.

    ``met``: those under which the address was linked since, the newest last. ``stored``: those
    that are kept so far. Their order changes only where one has to go, so that nothing is written
    for links that were there before; those that are linked no more go first.

    >>> kept_spellings(["/b", "/c"], ["/a"], "/")
    ['/c', '/b', '/a']
    >>> kept_spellings(["/a", "/"], ["/b", "/a"], "/")
    ['/b', '/a']
    >>> kept_spellings(["/d", "/a"], ["/b", "/c", "/d"], "/")
    ['/a', '/d', '/b']
    """
    known = [url for url in stored if url != request]
    newest = [url for url in dict.fromkeys(reversed([*met])) if url != request]
    fresh = [url for url in newest if url not in known]
    if len(fresh) + len(known) > MOST_SPELLINGS:
        return [*newest, *(url for url in known if url not in newest)][:MOST_SPELLINGS]
    return [*fresh, *known]
