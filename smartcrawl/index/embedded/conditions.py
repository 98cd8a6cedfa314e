"""The conditions of a query: sources, sites, words that must occur or must not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from smartcrawl.index.queries import (
    Query,
    Term,
    search_query_place,
    search_query_site,
    search_signs_after,
)
from smartcrawl.registry.connection import Connection, Many

NO_CONDITION: Final = "1 = 1"
_IN_SOURCES = "c.source {negation} IN (SELECT no FROM source WHERE name IN carray(:{name}))"
_HAVING = "p.content {negation} IN (SELECT k.content FROM {match})"
_AT_SITES = """p.content IN (
    SELECT r.content FROM record r JOIN host h ON h.no = r.host WHERE r.entry > 0 AND ({sites}))
"""
_SITE = """((h.name = :{host} OR h.name LIKE :{below} ESCAPE '!' OR h.name LIKE :{ports} ESCAPE '!')
            AND ({ends}))"""
#: An address that ends with a path, or goes on with one of the signs that may follow.
_PATH = "r.url LIKE '%://' || h.name || :{path} || '{rest}' ESCAPE '!'"
_PLACE = "(r.url = :{place} OR substr(r.url, 1, :{size}) = :{start})"
_LIKE_SIGNS: Final = re.compile("[!%_]")


class IndexLanguage(Protocol):
    """Matching of words in a database."""

    def match(self, name: str) -> str:
        """Return the chunks ``k`` that match a value, after FROM."""

    def count(self, name: str) -> str:
        """Return the query for the number of chunks that match a value, or a lower bound of it."""

    def value(self, text: str) -> str:
        """Return the value that matches a word, or words that stay together."""

    def texts(self, connection: Connection, words: Sequence[str]) -> list[str]:
        """Return the texts of some chunks that have any of some words, with their headings."""

    def shown(
        self,
        connection: Connection,
        terms: Sequence[Term],
        chunks: Sequence[int],
        marks: tuple[str, str],
    ) -> Mapping[int, tuple[str, str]]:
        """Return headings and a snippet of some chunks, with marks around the words found."""


def search_conditions(
    query: Query, language: IndexLanguage, sources: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """Return the conditions that contents ``c`` and ``p.content`` must meet, and their values.

    Without any they are ``NO_CONDITION``. ``sources`` empty means all.
    """
    conditions: list[str] = []
    values: dict[str, Any] = {}
    for negation, names in (("", sources), ("NOT", query.excluded_sources)):
        if names:
            name = f"{negation.lower() or 'in'}_sources"
            conditions.append(_IN_SOURCES.format(negation=negation, name=name))
            values[name] = Many(list(names))
    if query.language:
        conditions.append("c.language = :content_language")
        values["content_language"] = query.language
    sites, of_sites = site_conditions(query)
    if sites:
        conditions.append(_AT_SITES.format(sites=sites))
        values |= of_sites
    for negation, texts in (("", query.required), ("NOT", query.excluded)):
        for place, text in enumerate(texts):
            name = f"{negation.lower() or 'with'}_{fts5_value_letters(place)}"
            values[name] = language.value(text)
            match = language.match(name)
            conditions.append(_HAVING.format(negation=negation, match=match))
    return " AND ".join(conditions) or NO_CONDITION, values


def site_conditions(query: Query) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``r`` and ``h`` for the sites of a query, and its values."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    for negation, sites in (("", query.sites), ("NOT ", query.excluded_sites)):
        each: list[str] = []
        for site in sites:
            condition, given = _site_condition(site, fts5_value_letters(len(values)))
            each.append(condition)
            values |= given
        if each:
            conditions.append(f"{negation}({' OR '.join(each)})")
    return " AND ".join(conditions), values


def _site_condition(site: str, name: str) -> tuple[str, dict[str, Any]]:
    """Return the condition of one site, and its values; ``name`` ends their names."""
    place = search_query_place(site)
    if place is not None:
        names = {part: f"{part}_{name}" for part in ("place", "size", "start")}
        given: tuple[Any, ...] = (place, len(place) + 1, f"{place}/")
        return _PLACE.format(**names), dict(zip(names.values(), given, strict=True))
    host, path = search_query_site(site)
    names = {part: f"{part}_{name}" for part in ("host", "below", "ports", "path")}
    rests = ("", *(f"{sign}%" for sign in search_signs_after(path))) if path else ("%",)
    ends = " OR ".join(_PATH.format(path=names["path"], rest=rest) for rest in rests)
    below, start = _LIKE_SIGNS.sub(r"!\g<0>", host), _LIKE_SIGNS.sub(r"!\g<0>", path)
    given = (host, f"%.{below}", below if ":" in host else f"{below}:%", start)
    return _SITE.format(ends=ends, **names), dict(zip(names.values(), given, strict=True))


def fts5_value_letters(place: int) -> str:
    """Return a number in letters, for the name of a value.

    >>> fts5_value_letters(0), fts5_value_letters(27)
    ('a', 'bb')
    """
    return chr(ord("a") + place % 26) * (1 + place // 26)
