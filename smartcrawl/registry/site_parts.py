"""The sites that an address began, and the part of its host that each has (ADR 144)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from smartcrawl.model.urls import url_host_key, url_path
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.runs.runs import SourcePart
from smartcrawl.rules.extent import Extent
from smartcrawl.sources.base import Source
from smartcrawl.sources.chosen import source_with_keys
from smartcrawl.sources.site import SiteSource

_PARTS: Final = """
SELECT name, scope, start, chosen, declared FROM source WHERE kind = ? ORDER BY name
"""
_PART: Final = "SELECT name, scope, start, chosen, declared FROM source WHERE name = ?"
_PART_OF: Final = "SELECT name, scope, start, chosen, declared FROM source WHERE no = ?"
#: Whether a source has pages that a new scope could exclude.
_HAS_PAGES: Final = """
SELECT EXISTS (SELECT 1 FROM source o JOIN content c ON c.source = o.no WHERE o.name = ?)
"""
_PAGES: Final = """
SELECT r.url, s.depth FROM source o JOIN record r ON r.source = o.no JOIN state s ON s.no = r.no
 WHERE o.name = ? AND r.kind = 0 AND s.standing > 1 ORDER BY r.no
"""
_DECIDE: Final = """
UPDATE source SET scope = ?, start = ?, chosen = ? WHERE no = ? AND start IS NULL
"""
_SITE: Final = SiteSource.model_fields["kind"].default
_WAYS: Final = "ways"
#: Fields of an ad-hoc source that columns have, or that its kind says.
_NOT_CHOSEN: Final = frozenset(
    {"name", "kind", "ad_hoc", "seeds", "sitemaps", "extent", "start", "stale", "ways", "root"}
    | {"url", "by_default", "request"}
)


class StoredPart(NamedTuple):
    """A site in the registry, with the part of its host that it has."""

    name: str
    extent: Extent | None  #: None: it has not been decided
    start: str | None
    chosen: Mapping[str, Any]  #: by key of sources.toml
    ways: tuple[str, ...]
    declared: bool  #: at its last crawl

    def is_of(self, host: str) -> bool:
        """Whether its seed is on a host (``url_host_key``)."""
        if self.name == host:
            return True
        if self.start is None or not self.name.startswith(f"{host}-"):
            return False
        return url_host_key(self.start).removeprefix("www.") == host.removeprefix("www.")

    def is_start(self, url: str) -> bool:
        """Whether it was crawled from an address before, as far as the registry knows."""
        return url in (self.start, *self.ways) or (self.start is None and url_path(url) == "/")

    def source(self, seeds: tuple[str, ...], sitemaps: tuple[str, ...] = ()) -> SiteSource:
        """Return the source, with the seeds and sitemaps of its next run."""
        source = SiteSource(
            name=self.name,
            seeds=seeds,
            sitemaps=sitemaps,
            scope=self.extent if seeds else Extent.HOST,
            start=self.start,
            ways=self.ways,
            ad_hoc=True,
        )
        return source_with_keys(source, self.chosen)


def _part(row: Any) -> StoredPart:
    name, scope, start, chosen, declared = row
    values: dict[str, Any] = json.loads(chosen)
    ways = tuple(values.pop(_WAYS, ()))
    extent = None if scope is None else Extent(scope)
    return StoredPart(name, extent, start, values, ways, bool(declared))


def stored_part_rows(connection: Connection) -> list[StoredPart]:
    """Return all sites that were ever crawled, declared ones included, by name."""
    rows: Any = connection.execute(_PARTS, (_SITE,)).fetchall()
    return [_part(row) for row in rows]


def stored_part_row(connection: Connection, name: str) -> StoredPart | None:
    """Return a source that was crawled; None: it never was."""
    row: Any = connection.execute(_PART, (name,)).fetchone()
    return None if row is None else _part(row)


def has_stored_pages(connection: Connection, name: str) -> bool:
    """Whether a source has indexed pages."""
    return bool(connection.execute(_HAS_PAGES, (name,)).get)


def stored_page_depths(connection: Connection, name: str) -> list[tuple[str, int]]:
    """Return the addresses of the indexed pages of a source, with their depths."""
    rows: Any = connection.execute(_PAGES, (name,)).fetchall()
    return [(url, depth) for url, depth in rows]


def part_of_source(source: Source) -> SourcePart:
    """Return what the registry stores about the part of its host that a source has."""
    if not source.ad_hoc:
        return SourcePart(scope=source.extent) if isinstance(source, SiteSource) else SourcePart()
    chosen = chosen_keys_of(source)
    if not isinstance(source, SiteSource):
        return SourcePart(chosen=json.dumps(chosen))
    if source.ways:
        chosen[_WAYS] = list(source.ways)
    return SourcePart(
        scope=source.extent,
        start=source.start,
        chosen=json.dumps(chosen),
        decides=source.is_open,
        before=source.stale,
    )


def chosen_keys_of(source: Source) -> dict[str, Any]:
    """Return the keys that were chosen for an ad-hoc source, as a table has them."""
    chosen = source.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=set(_NOT_CHOSEN)
    )
    return {**chosen, **source.request.table}


def decide_part_row(connection: Connection, number: int, part: SourcePart) -> StoredPart:
    """Store how far an open source reaches, and return what is stored.

    Of several workers the first one decides. The caller opens the transaction.
    """
    connection.execute(_DECIDE, (part.scope, part.start, part.chosen, number))
    return part_row_of(connection, number)


def part_row_of(connection: Connection, number: int) -> StoredPart:
    """Return how far a source reaches (source.no)."""
    return _part(connection.execute(_PART_OF, (number,)).fetchone())
