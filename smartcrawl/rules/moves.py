"""Moved pages: chains of redirects and canonical links, loops, login walls, floods."""

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

WALL: Final = 2  #: pages with content that redirect to one login page
MAX_CANONICAL_SHARE: Final = 0.2  #: of a source's pages that name one canonical


class Fate(StrEnum):
    """Consequences of a redirect for the page that is stored under the old address."""

    MOVED = auto()  #: its target is indexed: the stored page may be removed
    WAITS = auto()  #: its target is not indexed (yet): the stored page stays
    LOST = auto()  #: temporary, to no indexed page or to a login wall: the page ages as lost
    AWAY = auto()  #: all permanent, and its end has left the source: the page ages like a 404
    LOOP = auto()  #: it leads back to itself: an error of the server's headers
    TOO_LONG = auto()  #: more than MAX_REDIRECTS hops: an error of the server's headers


@dataclass(frozen=True, slots=True)
class Move:
    """One redirecting page of a run."""

    no: int
    http_status: int
    target: str  #: absolute URL
    target_no: int | None  #: its number; None out of scope
    has_content: bool = True  #: whether content is stored under the old address
    leaves: bool = False  #: whether the target is out of scope


def chain(no: int, hops: Mapping[int, int | None]) -> tuple[list[int], bool]:
    """Return the numbers that ``no`` leads to, in order, and whether they form a circle.

    ``hops`` maps each page that moved to the next; None: out of scope.

    >>> chain(1, {1: 2, 2: 3}), chain(1, {1: 2, 2: 1})
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


def wall(target: str) -> str:
    """Return the part of a target that identifies a login page: everything but the query.

    >>> wall("https://a.example/login?next=/1") == wall("https://a.example/login?next=/2")
    True
    """
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def fates(
    moves: Iterable[Move],
    indexed: Container[int],
    aside: Mapping[int, int | None] = MappingProxyType({}),
    *,
    ended: Container[int] = frozenset(),
    walls: bool = True,
) -> dict[int, tuple[Fate, list[int]]]:
    """Return the fate of each redirect of a run, and the numbers that it leads through.

    ``indexed``: the numbers of pages that answered 200 or 304 in scope in this run and whose
    content is stored. ``aside`` maps a page that stands aside to its canonical page. ``ended``:
    the numbers that robots.txt excludes, or that answered 404 or 410 in this run. ``walls``:
    whether a target that several pages share may be a login page; False where the operator has
    turned the guard off.

    Source: U-06, M-21; design.md 8 (redirects).
    """
    by_no = {move.no: move for move in moves}
    hops = {**aside, **{no: move.target_no for no, move in by_no.items()}}
    chains = {no: chain(no, hops) for no in by_no}
    temporary = {no for no, move in by_no.items() if move.http_status in TEMPORARY}
    walled = _walled(by_no, chains, temporary) if walls else frozenset()
    found = {}
    for no, (passed, circle) in chains.items():
        way = (no, *passed)
        if circle:
            fate = Fate.LOOP
        elif len(passed) > MAX_REDIRECTS:
            fate = Fate.TOO_LONG
        elif passed and passed[-1] in indexed and walled.isdisjoint(way):
            fate = Fate.MOVED
        elif no in temporary:
            fate = Fate.LOST
        elif not _has_left(way, by_no, ended):
            fate = Fate.WAITS
        else:
            fate = Fate.AWAY if temporary.isdisjoint(way) else Fate.LOST
        found[no] = fate, passed
    return found


def _has_left(way: Sequence[int], moves: Mapping[int, Move], ended: Container[int]) -> bool:
    """Whether a chain of redirects alone ends out of scope, or at a page that ``ended``."""
    *before, last = way
    if any(hop not in moves for hop in before):  # a page that stands aside is still there
        return False
    return moves[last].leaves if last in moves else last in ended


def _walled(
    moves: Mapping[int, Move],
    chains: Mapping[int, tuple[list[int], bool]],
    temporary: frozenset[int] | set[int],
) -> frozenset[int]:
    """Return the ``temporary`` redirects whose target is a login page or the like.

    Such a target is shared by several temporary redirects, its query aside. A redirect counts when
    content is stored under its address, or under one that leads there, such as http to https.
    """
    doors = {
        hop
        for no, (passed, _) in chains.items()
        if moves[no].has_content
        for hop in (no, *passed)
        if hop in temporary
    }
    shared = Counter(wall(moves[no].target) for no in doors)
    return frozenset(no for no in temporary if shared[wall(moves[no].target)] >= WALL)


def floods(named: Mapping[int, int], pages: int, *, min_count: int) -> frozenset[int]:
    """Return the canonical targets that too many pages name to be believed.

    ``named``: the count of pages that name each number; ``pages``: the count of the source's pages.

    >>> floods({7: 30, 8: 20}, 100, min_count=10)
    frozenset({7})
    """
    most = max(min_count, MAX_CANONICAL_SHARE * pages)
    return frozenset(no for no, count in named.items() if count > most)


def canonical_of(no: int, leads: Mapping[int, int | None], indexed: Container[int]) -> int | None:
    """Return the indexed page that ``no`` stands aside for, or None when it stands for itself.

    ``leads`` maps a page to its canonical page, and a redirect to its target. The last indexed page
    of the chain counts. A page whose canonical leads back to it stands for itself; the chain ends
    where it enters another circle.

    >>> canonical_of(1, {1: 2, 2: 3}, {1, 2, 3}), canonical_of(1, {1: 2, 2: 3}, {1, 2})
    (3, 2)
    >>> canonical_of(1, {1: 2, 2: 1}, {1, 2}), canonical_of(1, {1: 2, 2: 3, 3: 2}, {1, 2, 3})
    (None, 2)
    """
    passed, circle = chain(no, leads)
    if circle:
        passed = passed[: passed.index(passed[-1]) + 1]
    if no in passed or len(passed) > MAX_REDIRECTS:
        return None
    return next((target for target in reversed(passed) if target in indexed), None)
