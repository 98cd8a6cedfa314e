"""Vectors: whether a server has the model of the stored ones, and rankings fused."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from math import fsum
from typing import Any, Final, NamedTuple, Protocol, TypeVar


class Answering(NamedTuple):
    """A server that makes vectors, as it answers."""

    model: str | None  #: the name that it answers with; None or empty: none, or not known
    url: str | None  #: its address; None: not known


def has_same_model(stored: Answering, now: Answering) -> bool:
    """Whether vectors of a server may be compared with those that are stored.

    The names in the answers decide, so that a server may move. Where one has none, the address
    stands for the model.

    >>> old = Answering("m", "http://a")
    >>> has_same_model(old, Answering("m", "http://b")), has_same_model(old, Answering("n", "http://a"))
    (True, False)
    >>> unnamed = Answering("", "http://a")
    >>> has_same_model(old, unnamed), has_same_model(unnamed, Answering("", "http://b"))
    (True, False)

    Source: M-47.
    """
    if stored.model and now.model:
        return stored.model == now.model
    return stored.url is None or now.url is None or stored.url == now.url


RANK_CONSTANT: Final = 60  #: added to each rank; the first place of a list counts 1/61


class PageKey(Hashable, Protocol):
    """The key of a page: hashable, and ordered among the keys of the same search."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether this key comes first where two pages have the same score."""


Page = TypeVar("Page", bound=PageKey)


def fuse(lists: Iterable[Iterable[Page]]) -> list[tuple[Page, float]]:
    """Return the pages of all lists with their scores, best first.

    Each list has keys of pages, best first. The score of a page is the sum of 1 / (60 + rank) over
    the lists that have it, where ranks begin with 1. The lists' own scores do not count: those of
    words and of vectors have different scales. A page that a list has several times counts with its
    best place. Pages of equal score are in the order of their keys, and the order of the lists does
    not matter.

    >>> [(page, round(score, 4)) for page, score in fuse([["b", "a"], ["c", "b"]])]
    [('b', 0.0325), ('c', 0.0164), ('a', 0.0161)]
    >>> [page for page, _ in fuse([[2, 1], [1, 2]])], fuse([])
    ([1, 2], [])

    Source: M-47; Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods", SIGIR 2009.
    """
    shares: defaultdict[Page, list[float]] = defaultdict(list)
    for pages in lists:
        for rank, page in enumerate(dict.fromkeys(pages), 1):
            shares[page].append(1 / (RANK_CONSTANT + rank))
    # fsum is exact: the sum does not depend on the order of the lists
    scores = [(page, fsum(parts)) for page, parts in shares.items()]
    return sorted(scores, key=lambda scored: (-scored[1], scored[0]))


def keep_places(
    order: Iterable[Page], places: Mapping[Page, int], fixed: Collection[Page]
) -> list[Page]:
    """Return ranked pages so that none of ``places`` comes behind its place there, from 0.

    Pages of ``fixed`` come where their place is, or earlier where no other page is left; their
    place in ``order`` does not count. Pages of equal place are in the order of ``places``.

    >>> keep_places("abcd", {"d": 1}, ())
    ['a', 'd', 'b', 'c']
    >>> keep_places("abcd", {"a": 2, "e": 9}, "ae")
    ['b', 'c', 'a', 'd', 'e']

    Source: M-47.
    """
    waiting = deque(page for page in order if page not in fixed)
    due = deque(sorted(places.items(), key=lambda placed: placed[1]))
    found: dict[Page, None] = {}
    while waiting or due:
        is_due = due and (due[0][1] <= len(found) or not waiting)
        found.setdefault(due.popleft()[0] if is_due else waiting.popleft())
    return list(found)
