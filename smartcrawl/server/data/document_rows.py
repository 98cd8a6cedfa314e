"""Documents as the API reads them: by id, or in the order of their visits (R2-37, R2-38, R2-51).

They are the rows of the view ``crawled_documents``, but for those that were never visited. The view
computes its ids, so it is of no use to find one: it takes 430 ms among 1,000,000 records.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.server.data.cursors import Place
from smartcrawl.server.data.queries import json_text

LATEST: Final = 1 << 40  #: Unix seconds; later than any visit
#: The condition of the view, and of both indexes: it stands there in the same words.
_IS_DOCUMENT: Final = """
s.last_checked IS NOT NULL AND (s.standing > 0 OR s.effective_status IN (301, 302, 303, 307, 308))
"""
_DOCUMENT: Final = """
SELECT s.standing, r.no, r.id, r.url, s.last_checked,
       CASE WHEN r.kind <> 0 AND s.effective_status = 406 AND s.http_status IN (200, 304) THEN 200
            ELSE s.effective_status END, r.content_type,
       r.content_length, r.modified, r.etag, r.content_encoding,
       CASE WHEN s.effective_status BETWEEN 300 AND 399 THEN NULL ELSE r.body_hash END,
       t.url || '/' || p.path
  FROM source x
 CROSS JOIN record r
  JOIN state s ON s.no = r.no
  LEFT JOIN snapshot p ON p.no = r.snapshot
  LEFT JOIN store t ON t.no = p.store
 WHERE {of_source} r.source = x.no AND r.id = :id
"""
#: The records of an address, by whether there is a filter of the source.
DOCUMENT: Final = {
    of_source: _DOCUMENT.format(of_source="x.name = :source AND" if of_source else "")
    for of_source in (False, True)
}
#: As in the condition of the view; for a list in the statement SQLite fills a table each time.
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HOST: Final = "s.host = (SELECT no FROM host WHERE name = :domain) AND"
#: Rows are chosen by an index alone, and only those of the page are read.
_ROWS: Final = f"""
SELECT r.id, r.url, p.last_checked, r.content_length, p.no
  FROM (SELECT s.no, s.last_checked FROM {{state}}
         WHERE {{of_host}} {_IS_DOCUMENT} AND {{within}}
         ORDER BY s.last_checked DESC, s.no DESC LIMIT :limit OFFSET :offset) p
  JOIN record r ON r.no = p.no
 ORDER BY p.last_checked DESC, p.no DESC
"""
_COUNT: Final = f"""
SELECT count(*) FROM {{state}}
 WHERE {{of_host}} {_IS_DOCUMENT} AND s.last_checked >= :since AND s.last_checked <= :until
"""
#: What follows a place. SQLite does not search an index by a pair with the number of the row, so
#: the rest of a second has a statement of its own there.
_BELOW: Final = {
    "sqlite": (
        "s.last_checked = :at AND s.no < :no",
        "s.last_checked >= :since AND s.last_checked < :at",
    ),
    "postgres": ("s.last_checked >= :since AND (s.last_checked, s.no) < (:at, :no)",),
}


def _states(dialect: str, *, of_host: bool) -> dict[str, str]:
    """Return the parts of a statement that choose its index.

    SQLite would guess by the first values of an index how many rows a host, or a second, has.
    """
    index = "state_host_checked" if of_host else "state_checked"
    state = f"state s INDEXED BY {index}" if dialect == "sqlite" else "state s"
    return {"state": state, "of_host": _HOST if of_host else ""}


_CHOICES: Final = tuple((dialect, of_host) for dialect in _BELOW for of_host in (False, True))
#: By the database, and whether there is a filter of the host. The statements of a page continue
#: each other.
PAGE: Final = {
    (dialect, of_host): tuple(
        _ROWS.format(within=within, **_states(dialect, of_host=of_host))
        for within in _BELOW[dialect]
    )
    for dialect, of_host in _CHOICES
}
COUNT: Final = {
    (dialect, of_host): _COUNT.format(**_states(dialect, of_host=of_host))
    for dialect, of_host in _CHOICES
}


class Filters(NamedTuple):
    """The filters of a list; a cursor is bound to them."""

    domain: str | None = None  #: as in ``host.name``
    since: int = 0  #: Unix seconds, inclusive
    until: int = LATEST  #: Unix seconds, inclusive

    def values(self) -> dict[str, Any]:
        """Return the values of a statement that selects by them."""
        named = {} if self.domain is None else {"domain": self.domain}
        return {**named, "since": self.since}


def api_document(connection: Connection, key: bytes, source: str | None) -> dict[str, Any] | None:
    """Return a document under the keys of R2-37, None if there is none.

    The same address may belong to several sources; without ``source`` the latest visit counts.
    """
    named = {"id": key} if source is None else {"id": key, "source": source}
    statement = DOCUMENT[source is not None]
    found: Iterable[Any] = connection.execute(statement, named)
    rows = [row for row in found if row[0] > 0 or row[5] in _REDIRECTS]
    if not rows:
        return None
    latest = max(rows, key=lambda row: (row[4] or 0, row[1]))
    _, _, id_, url, checked, status, kind, length, modified, etag, encoding, hash_, path = latest
    return {
        "url": url,
        "url_hash": id_.hex(),
        "crawled_at": iso_time(checked),
        "http_status": status,
        "content_type": kind,
        "content_length": length,
        "headers": {
            "last-modified": modified,
            "etag": etag,
            "content-encoding": encoding,
        },
        "content_hash": None if hash_ is None else f"sha256:{hash_.hex()}",
        "storage_path": path,
    }


def api_documents_page(
    connection: Connection, filters: Filters, below: Place, limit: int, offset: int
) -> tuple[str, Place | None]:
    """Return the documents of a page as JSON under the keys of R2-38, newest visit first.

    The second value is the place of the last one, None if no page follows. The JSON of a hundred
    rows takes a third of the time if their keys are no data, and the rest cannot need quotes.
    """
    values = filters.values() | {"at": below.at, "no": below.no, "offset": offset}
    rows: list[Any] = []
    for statement in PAGE[connection.dialect, filters.domain is not None]:
        if len(rows) <= limit:
            named = values | {"limit": limit + 1 - len(rows)}
            rows += connection.execute(statement, named).fetchall()
    texts = [
        f'{{"url":{json_text(url)},"url_hash":"{key.hex()}","crawled_at":"{_iso_time(checked)}",'
        f'"content_length":{"null" if length is None else length}}}'
        for key, url, checked, length, _ in rows[:limit]
    ]
    more = len(rows) > limit
    return f"[{','.join(texts)}]", Place(rows[limit - 1][2], rows[limit - 1][4]) if more else None


def api_document_count(connection: Connection, filters: Filters) -> int:
    """Return the number of documents that a list has in all."""
    values = filters.values() | {"until": filters.until}
    statement = COUNT[connection.dialect, filters.domain is not None]
    return int(connection.execute(statement, values).get)


@lru_cache(maxsize=10_000)
def _iso_time(seconds: int) -> str | None:
    """Return a time as text; many documents are visited in the same second."""
    return iso_time(seconds)
