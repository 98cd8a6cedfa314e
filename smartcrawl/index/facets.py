"""Facets: how many pages of a whole answer each source, language, type and date has (ADR 164).

Indexes count, and what is counted is the same in all of them. Counts obey the filters of a query,
but those of a facet not its own, so that they show what another choice would find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from smartcrawl.index.filters import UNKNOWN
from smartcrawl.index.queries import Query
from smartcrawl.model.page_types import page_type
from smartcrawl.model.times import iso_time

MOST_COUNTED: Final = 10_000  #: pages of one answer
MOST_VALUES: Final = 100  #: values of a facet that are listed
FACETS: Final = ("source", "language", "type", "date")
_DAY: Final = 86_400  #: seconds
DATES: Final = (4, 7, 10)  #: letters of years, months and days

Counts = Mapping[str, int]  #: pages by value


class FacetCount(NamedTuple):
    """A value of a facet."""

    value: str  #: as the filter of the query takes it
    pages: int


@dataclass(frozen=True, slots=True)
class Facets:
    """The facets of an answer; values with most pages come first, dates with the latest."""

    total: int = 0  #: pages of the answer, each once
    complete: bool = True  #: whether all were counted; False: of ``MOST_COUNTED`` records
    source: tuple[FacetCount, ...] = ()  #: a page counts for each source that has it
    language: tuple[FacetCount, ...] = ()
    type: tuple[FacetCount, ...] = ()
    date: tuple[FacetCount, ...] = ()  #: years; months of one year; days of one month


class Counted(NamedTuple):
    """What an index has counted for one query."""

    total: int
    complete: bool
    values: Mapping[str, Counts]  #: by facet; of dates by ``finest_dates``


class CountedRecord(NamedTuple):
    """A record that an index has found."""

    address: Any  #: the same in all sources
    source: str
    language: str
    media: str  #: media type
    date: int | None  #: Unix seconds


class CountingIndex(Protocol):
    """What an index does for facets."""

    def facet_counts(self, query: Query, facets: Collection[str]) -> Counted:
        """Count the pages that have any of the words and meet the filters of a query."""


def search_facets(
    query: Query, index: CountingIndex, of_all_sources: Callable[[], CountingIndex | None]
) -> Facets:
    """Return the facets of a query.

    ``of_all_sources`` returns the index for a query without its in: and -in:.
    """
    filtered = [facet for facet in FACETS if _is_filtered(query, facet)]
    whole = index.facet_counts(query, [facet for facet in FACETS if facet not in filtered])
    values = dict(whole.values)
    for facet in filtered:
        other = of_all_sources() if facet == "source" else index
        if other is not None:
            values |= other.facet_counts(_without(query, facet), [facet]).values
    return Facets(
        min(whole.total, MOST_COUNTED),
        whole.complete,
        *(_listed(values.get(facet, {}), by_value=facet == "date") for facet in FACETS),
    )


def _is_filtered(query: Query, facet: str) -> bool:
    return _without(query, facet) != query


def _without(query: Query, facet: str) -> Query:
    """Return a query without the filters of a facet."""
    match facet:
        case "source":
            return replace(query, sources=(), excluded_sources=())
        case "language":
            return replace(query, languages=(), excluded_languages=())
        case "type":
            return replace(query, types=(), excluded_types=())
        case _:
            return replace(query, after=(), before=())


def _listed(counts: Counts, *, by_value: bool) -> tuple[FacetCount, ...]:
    found = [FacetCount(value or UNKNOWN, min(n, MOST_COUNTED)) for value, n in counts.items() if n]
    found.sort(key=lambda one: one.value)
    if by_value:
        found.reverse()
    else:
        found.sort(key=lambda one: -one.pages)
    return tuple(found[:MOST_VALUES])


def counted_records(records: Sequence[CountedRecord], facets: Collection[str]) -> Counted:
    """Return the counts of records: a page that several sources have counts once in each value."""
    addresses = [one.address for one in records]
    total = len(set(addresses))
    is_once = total == len(records)

    def counts(values: Iterable[Any]) -> Counter[Any]:
        if is_once:
            return Counter(values)
        return Counter(value for _, value in set(zip(addresses, values, strict=True)))

    values: dict[str, Counts] = {}
    if "source" in facets:
        values["source"] = counts(one.source for one in records)
    if "language" in facets:
        values["language"] = counts(one.language for one in records)
    if "type" in facets:
        values["type"] = counts(page_type(one.media) for one in records)
    if "date" in facets:
        days = {one.date // _DAY for one in records if one.date is not None}
        shown = {day: (iso_time(day * _DAY) or "")[:10] for day in days}
        of_all = [None if one.date is None else shown[one.date // _DAY] for one in records]
        values["date"] = finest_dates(
            {
                day: n
                for day, n in counts(day and day[:letters] for day in of_all).items()
                if day is not None
            }
            for letters in DATES
        )
    return Counted(min(total, MOST_COUNTED), len(records) <= MOST_COUNTED, values)


def finest_dates(counts: Iterable[Counts]) -> Counts:
    """Return counts by years if there are several, else by months, else by days.

    >>> finest_dates([{"2026": 3}, {"2026-04": 1, "2026-05": 2}, {"2026-04-01": 1}])
    {'2026-04': 1, '2026-05': 2}
    """
    found: Counts = {}
    for found in counts:
        if len(found) > 1:
            break
    return found


def facets_as_data(facets: Facets) -> dict[str, Any]:
    """Return facets as JSON."""
    return {
        "total": facets.total,
        "complete": facets.complete,
        **{
            name: [{"value": one.value, "count": one.pages} for one in getattr(facets, name)]
            for name in FACETS
        },
    }
