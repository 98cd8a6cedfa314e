"""Moved pages: chains of redirects and canonical links, loops, login walls, canonical floods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from smartcrawl.rules.absence import TEMPORARY
from smartcrawl.rules.http import MAX_REDIRECTS

WALL: Final = 2  #: temporary redirects to one target that make it a login page
MAX_CANONICAL_SHARE: Final = 0.2  #: largest share of a source's pages that may name one canonical


class Fate(StrEnum):
    """Consequences of a redirect for the page stored under its address."""

    MOVED = auto()  #: the end of the chain is indexed: the stored page may be removed
    WAITS = auto()  #: the end is not indexed (yet): the stored page stays
    LOST = auto()  #: temporary, to an unindexed page or a login wall: the page ages as lost
    AWAY = auto()  #: permanent, and the end has left the source: the page ages like a 404
    MISSING = auto()  #: the end answered 404 or 410: so does the page, by whatever redirects
    LOOP = auto()  #: the chain ends in a circle: an error of the server's headers
    TOO_LONG = auto()  #: more hops than MAX_REDIRECTS or the operator's larger limit: likewise


@dataclass(frozen=True, slots=True)
class Move:
    """One redirecting page of a run."""

    no: int
    http_status: int
    target: str  #: absolute URL
    target_no: int | None  #: number of the target; None if it is out of scope
    has_content: bool = True  #: whether content is stored under the old address
    leaves: bool = False  #: whether the target is out of scope


def chain_of_moves(no: int, hops: Mapping[int, int | None]) -> tuple[list[int], bool]:
    """Return the pages that ``no`` leads to, in order, and whether they end in a circle.

    ``hops`` maps each moved page to the next one; None: out of scope.

    >>> chain_of_moves(1, {1: 2, 2: 3}), chain_of_moves(1, {1: 2, 2: 1})
    (([2, 3], False), ([2, 1], True))
    """
    passed, seen = [], {no}
    target = hops.get(no)
    while target is not None:
        passed.append(target)
        if target in seen:
            return passed, True
        seen.add(target)
        target = hops.get(target)
    return passed, False


def login_wall(target: str) -> str:
    """Return the part of a target that identifies a login page: everything but the query.

    >>> login_wall("https://a.example/login?next=/1") == login_wall("https://a.example/login?next=/2")
    True
    """
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def fates_of_moves(
    moves: Iterable[Move],
    indexed: Container[int],
    aside: Mapping[int, int | None] = MappingProxyType({}),
    *,
    ended: Container[int] = frozenset(),
    missing: Container[int] = frozenset(),
    walls: bool = True,
    most: int = MAX_REDIRECTS,
    unfollowed: Container[int] = frozenset(),
) -> dict[int, tuple[Fate, list[int]]]:
    """Return the fate of each redirect of a run, and the pages of its chain.

    ``indexed``: pages in scope with stored content that a 200 or 304 of this run confirmed.
    ``aside`` maps aliases, which are not indexed, to their canonical pages. ``ended``: pages that
    robots.txt excludes. ``missing``: pages that answered 404 or 410 in this run. ``walls``:
    whether to treat a target that several pages share as a login page; False if the operator
    turned the guard off. ``most``: the operator's limit of redirects in a row; a smaller one than
    MAX_REDIRECTS makes no chain too long. ``unfollowed``: redirects whose targets were not asked
    because of that limit. Nothing is known of such a target, so that the page waits, unless the
    chain is too long already.

    Source: U-06, M-21; docs/decisions.md, "Moved pages".
    """
    by_no = {move.no: move for move in moves}
    hops = {**aside, **{no: move.target_no for no, move in by_no.items()}}
    chains = {no: chain_of_moves(no, hops) for no in by_no}
    temporary = {no for no, move in by_no.items() if move.http_status in TEMPORARY}
    walled = _walled(by_no, chains, temporary) if walls else frozenset()
    found = {}
    for no, (passed, circle) in chains.items():
        way = (no, *passed)
        last = next(hop for hop in reversed(way) if hop in by_no)
        is_cut = last == way[-1] and last in unfollowed  # its target has no number
        if circle:
            fate = Fate.LOOP
        elif len(passed) + is_cut > max(most, MAX_REDIRECTS):
            fate = Fate.TOO_LONG
        elif passed and passed[-1] in indexed and walled.isdisjoint(way):
            fate = Fate.MOVED
        elif last in unfollowed:
            fate = Fate.WAITS
        elif _ends_in(way, by_no, missing):
            fate = Fate.MISSING
        elif no in temporary:
            fate = Fate.LOST
        elif not _has_left(way, by_no, ended):
            fate = Fate.WAITS
        else:
            fate = Fate.AWAY if temporary.isdisjoint(way) else Fate.LOST
        found[no] = fate, passed
    return found


def _ends_in(way: Sequence[int], moves: Mapping[int, Move], ends: Container[int]) -> bool:
    """Whether a chain without aliases ends at one of some pages that do not redirect."""
    *before, last = way  # an alias still exists in its source
    return all(hop in moves for hop in before) and last not in moves and last in ends


def _has_left(way: Sequence[int], moves: Mapping[int, Move], ended: Container[int]) -> bool:
    """Whether a chain without aliases ends out of scope or at a page in ``ended``."""
    *before, last = way
    if last in moves:
        return moves[last].leaves and all(hop in moves for hop in before)
    return _ends_in(way, moves, ended)


def _walled(
    moves: Mapping[int, Move],
    chains: Mapping[int, tuple[list[int], bool]],
    temporary: frozenset[int] | set[int],
) -> frozenset[int]:
    """Return the ``temporary`` redirects whose target is a login page or similar.

    Several temporary redirects share such a target, apart from its query. A redirect counts if
    content is stored under its address, or under an address that leads to it, such as http to
    https.
    """
    doors = {
        hop
        for no, (passed, _) in chains.items()
        if moves[no].has_content
        for hop in (no, *passed)
        if hop in temporary
    }
    shared = Counter(login_wall(moves[no].target) for no in doors)
    return frozenset(no for no in temporary if shared[login_wall(moves[no].target)] >= WALL)


def flooding_canonicals(named: Mapping[int, int], pages: int, *, min_count: int) -> frozenset[int]:
    """Return the canonical pages to ignore, because too many pages name them.

    ``named``: number of pages that name each canonical; ``pages``: number of pages in the source.

    >>> flooding_canonicals({7: 30, 8: 20}, 100, min_count=10)
    frozenset({7})
    """
    most = max(min_count, MAX_CANONICAL_SHARE * pages)
    return frozenset(no for no, count in named.items() if count > most)


def canonical_after_moves(
    no: int, leads: Mapping[int, int | None], indexed: Container[int]
) -> int | None:
    """Return the page that is indexed in place of the alias ``no``; None if ``no`` is no alias.

    ``leads`` maps a page to its canonical page, and a redirect to its target. The result is the
    last indexed page of the chain, which ends where it enters a circle. It is None if the chain
    leads back to ``no``, is longer than MAX_REDIRECTS, or has no indexed page.

    >>> (
    ...     canonical_after_moves(1, {1: 2, 2: 3}, {1, 2, 3}),
    ...     canonical_after_moves(1, {1: 2, 2: 3}, {1, 2}),
    ... )
    (3, 2)
    >>> (
    ...     canonical_after_moves(1, {1: 2, 2: 1}, {1, 2}),
    ...     canonical_after_moves(1, {1: 2, 2: 3, 3: 2}, {1, 2, 3}),
    ... )
    (None, 2)
    """
    passed, circle = chain_of_moves(no, leads)
    if circle:
        passed = passed[: passed.index(passed[-1]) + 1]
    if no in passed or len(passed) > MAX_REDIRECTS:
        return None
    return next((target for target in reversed(passed) if target in indexed), None)
