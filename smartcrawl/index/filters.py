"""Filters of a query by language, type and date: what their values mean, the same for every index.

A date is that of publication, else of the last change (``Hit.date``). Years, months and days are
those of UTC; ``after:`` takes pages from the first moment of its date on, ``before:`` those before
it, so that ``after:2025 before:2026`` is the year 2025.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from smartcrawl.index.queries import Query
from smartcrawl.model.exceptions import SearchQueryError
from smartcrawl.model.page_types import NAMED, page_type_asked

UNKNOWN: Final = "unknown"  #: the language of a page where it is not known
_LANGUAGE: Final = re.compile(r"([A-Za-z]{2})(?:[-_][A-Za-z0-9]{2,8})*")
_DATE: Final = re.compile(r"([1-9][0-9]{3})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")


class SearchFilters(NamedTuple):
    """What a query asks of languages, types and dates; empty: anything."""

    languages: tuple[str, ...] = ()  #: ISO 639-1; "" is an unknown one
    excluded_languages: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  #: words of ``model.page_types``
    excluded_types: tuple[str, ...] = ()
    since: int | None = None  #: Unix seconds, of the first moment
    until: int | None = None  #: Unix seconds, behind the last moment

    @property
    def of_dates(self) -> bool:
        """Whether a date is asked for."""
        return self.since is not None or self.until is not None


def search_query_filters(query: Query) -> SearchFilters:
    """Return the filters of a query by language, type and date.

    Raises:
        SearchQueryError: a value is none; the message says what to write.
    """
    return SearchFilters(
        _each(map(search_language, query.languages)),
        _each(map(search_language, query.excluded_languages)),
        _each(map(search_type, query.types)),
        _each(map(search_type, query.excluded_types)),
        max((search_date("after", text) for text in query.after), default=None),
        min((search_date("before", text) for text in query.before), default=None),
    )


def _each(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def search_language(text: str) -> str:
    """Return the code of a language as pages have it; that of a region is the same.

    >>> search_language("de"), search_language("pt-BR"), search_language("unknown")
    ('de', 'pt', '')

    Raises:
        SearchQueryError: it is no code.
    """
    if text.lower() == UNKNOWN:
        return ""
    found = _LANGUAGE.fullmatch(text)
    if found is None:
        raise _refused("language", text, "is not a two-letter code", f"en, or {UNKNOWN}")
    return found[1].lower()


def search_type(text: str) -> str:
    """Return the word of ``model.page_types`` for a type.

    Raises:
        SearchQueryError: there is no such type.
    """
    found = page_type_asked(text)
    if found is None:
        raise _refused("type", text, "is not a type of page", f"one of {', '.join(NAMED)}")
    return found


def search_date(name: str, text: str) -> int:
    """Return the first moment of a year, month or day, in Unix seconds.

    >>> [search_date("after", text) for text in ("1970", "1970-02", "1970-1-2")]
    [0, 2678400, 86400]

    Raises:
        SearchQueryError: it is no date.
    """
    found = _DATE.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        year, month, day = (int(part or 1) for part in found.groups())
        return int(datetime(year, month, day, tzinfo=UTC).timestamp())
    except ValueError:
        raise _refused(name, text, "is not a date", "2026, 2026-05 or 2026-05-01") from None


def _refused(name: str, text: str, why: str, write: str) -> SearchQueryError:
    quoted = f'"{name}:{text}"'
    return SearchQueryError(
        f"{name}:{text!r} {why}: write {write}; to search for these words, quote them: {quoted}"
    )
