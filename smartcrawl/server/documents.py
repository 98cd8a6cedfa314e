"""Crawled documents: one by its id, and lists of them (E-10, E-11; R2-37 to R2-39).

They are the rows of the view ``crawled_documents``, but for those that were never visited. The view
computes its ids, so it is of no use to find one: it takes 430 ms among 1,000,000 records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

import can_ada
from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.visibility import Readable, readable_sources
from smartcrawl.rules.visibility import Reader, Visibility
from smartcrawl.server.answers import EXAMPLE_HASH, Document, Documents
from smartcrawl.server.context import Context
from smartcrawl.server.direct import DirectRoute
from smartcrawl.server.errors import api_invalid_input, api_not_found
from smartcrawl.server.queries import (
    CURSOR_PATTERN,
    TIME_PATTERN,
    Cursors,
    KeptAnswers,
    Place,
    Query,
    WholeNumber,
    described_api_query,
    first_second_of_parameter,
    json_response,
    json_text,
    json_text_response,
    last_second_of_parameter,
    read_api_query,
)

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
       t.url || '/' || p.path, x.name, x.visibility
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
         WHERE {{of_host}} {_IS_DOCUMENT} AND {{within}} {{readable}}
         ORDER BY s.last_checked DESC, s.no DESC LIMIT :limit OFFSET :offset) p
  JOIN record r ON r.no = p.no
 ORDER BY p.last_checked DESC, p.no DESC
"""
_COUNT: Final = f"""
SELECT count(*) FROM {{state}}
 WHERE {{of_host}} {_IS_DOCUMENT} AND s.last_checked >= :since AND s.last_checked <= :until
   {{readable}}
"""
#: For callers who may not read every source.
_IS_READABLE: Final = """
AND EXISTS (SELECT 1 FROM record q WHERE q.no = s.no
               AND q.source IN (SELECT no FROM source WHERE name IN carray(:readable)))
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
_READING: Final = {False: "", True: _IS_READABLE}
#: By the database, and whether there are filters of the host and of readable sources. The
#: statements of a page continue each other.
PAGE: Final = {
    (dialect, of_host, few): tuple(
        _ROWS.format(within=within, readable=readable, **_states(dialect, of_host=of_host))
        for within in _BELOW[dialect]
    )
    for dialect, of_host in _CHOICES
    for few, readable in _READING.items()
}
COUNT: Final = {
    (dialect, of_host, few): _COUNT.format(readable=readable, **_states(dialect, of_host=of_host))
    for dialect, of_host in _CHOICES
    for few, readable in _READING.items()
}


class Filters(NamedTuple):
    """The filters of a list."""

    domain: str | None = None  #: as in ``host.name``
    since: int = 0  #: Unix seconds, inclusive
    until: int = LATEST  #: Unix seconds, inclusive
    readable: Readable = None  #: sources that the caller may read; no cursor is bound to them

    def values(self) -> dict[str, Any]:
        """Return the values of a statement that selects by them."""
        named: dict[str, Any] = {} if self.domain is None else {"domain": self.domain}
        if self.readable is not None:
            named["readable"] = Many(self.readable)
        return {**named, "since": self.since}

    def choice(self, connection: Connection) -> tuple[str, bool, bool]:
        """Return the keys of ``PAGE`` and ``COUNT``."""
        return connection.dialect, self.domain is not None, self.readable is not None

    @property
    def bound(self) -> tuple[object, ...]:
        """The filters that a cursor is bound to."""
        return self[:3]


def api_document(
    connection: Connection, key: bytes, source: str | None, reader: Reader
) -> dict[str, Any] | None:
    """Return a document under the keys of R2-37, None if there is none that ``reader`` may read.

    The same address may belong to several sources; without ``source`` the latest visit counts.
    """
    named = {"id": key} if source is None else {"id": key, "source": source}
    statement = DOCUMENT[source is not None]
    found: Iterable[Any] = connection.execute(statement, named)
    rows = [
        row
        for *row, name, visibility in found
        if (row[0] > 0 or row[5] in _REDIRECTS) and reader.may_read(name, Visibility(visibility))
    ]
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
    for statement in PAGE[filters.choice(connection)]:
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
    statement = COUNT[filters.choice(connection)]
    return int(connection.execute(statement, values).get)


@lru_cache(maxsize=10_000)
def _iso_time(seconds: int) -> str | None:
    """Return a time as text; many documents are visited in the same second."""
    return iso_time(seconds)


_HASH: Final = re.compile("[0-9a-fA-F]{64}")
#: Account and container of Azure, which are the host of a file (ADR 62).
_CONTAINER: Final = re.compile("[a-z0-9]{3,24}/[a-z0-9$-]{3,63}")
_MOST: Final = 1_000  #: documents of a page
_LITTLE: Final = 1_000  #: rows before and in a page that the event loop may read
_TOTAL_SECONDS: Final = 10  #: age up to which a total counts
_TOTALS: Final = 1_000  #: totals that are kept


class OneQuery(Query):
    """The query of one document."""

    source: str | None = Field(
        default=None, max_length=255, description="Its source; else the latest visit counts"
    )


class ListQuery(Query):
    """The query of a list."""

    domain: str | None = Field(default=None, max_length=300, examples=["example.com"])
    from_: str | None = Field(
        default=None,
        alias="from",
        description="First day, or time",
        examples=["2024-01-01"],
        json_schema_extra={"pattern": TIME_PATTERN},
    )
    to: str | None = Field(
        default=None,
        description="Last day, or time, inclusive",
        examples=["2024-12-31"],
        json_schema_extra={"pattern": TIME_PATTERN},
    )
    limit: WholeNumber = Field(default=100, ge=1, le=_MOST)
    offset: WholeNumber = Field(default=0, ge=0, le=1_000_000_000, description="Not with a cursor")
    cursor: str | None = Field(
        default=None,
        description="The next_cursor of a page with the same filters",
        json_schema_extra={"pattern": CURSOR_PATTERN},
    )

    def filters(self) -> Filters:
        """Return the filters.

        Raises:
            ApiError: one of them is wrong.
        """
        since = 0 if self.from_ is None else first_second_of_parameter(self.from_, "from")
        until = LATEST if self.to is None else last_second_of_parameter(self.to, "to")
        if since > until:
            raise api_invalid_input("to", "to must not be before from")
        domain = self.domain
        if domain is not None and not _CONTAINER.fullmatch(domain):
            domain = api_host_parameter(domain)
        return Filters(domain, since, until)


def api_host_parameter(domain: str) -> str:
    """Return the host of a domain, as the registry names it; a port other than 80 and 443 counts.

    >>> [api_host_parameter(x) for x in ("Example.com:443", "bücher.example", "a.example:8080")]
    ['example.com', 'xn--bcher-kva.example', 'a.example:8080']

    Raises:
        ApiError: the text is none.
    """
    try:
        parsed = can_ada.parse(f"http://{domain}/")
    except ValueError:
        parsed = None
    if parsed is None or re.search(r"[/?#@\\\s]", domain) or not parsed.hostname:
        raise api_invalid_input(
            "domain", "domain must be a host such as example.com, without a path"
        )
    return url_host_key(parsed.href)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of documents, which are asked most."""
    direct = APIRouter(prefix=router.prefix, route_class=DirectRoute)
    _add_document(context, direct)
    _add_list(context, direct)
    router.routes.extend(direct.routes)


def _add_document(context: Context, router: APIRouter) -> None:
    stores = context.stores

    @router.get(
        "/documents/{url_hash}",
        tags=["data"],
        summary="A crawled document, by the SHA-256 of its normalized address",
        response_model=Document,
        responses={404: {}},
        openapi_extra={"parameters": described_api_query(OneQuery)},
    )
    async def get_document(
        request: Request,
        url_hash: Annotated[
            str, Path(examples=[EXAMPLE_HASH], json_schema_extra={"pattern": f"^{_HASH.pattern}$"})
        ],
    ) -> Response:
        query = read_api_query(OneQuery, request)
        if not _HASH.fullmatch(url_hash):
            raise api_invalid_input("url_hash", "url_hash must be 64 hexadecimal digits")
        key = bytes.fromhex(url_hash)
        reader = context.reader(request)
        found = await stores.read_little(
            lambda connection: api_document(connection, key, query.source, reader)
        )
        if found is None:
            raise api_not_found("Document not found", reason="no document has this url_hash")
        return json_response(found)


def _add_list(context: Context, router: APIRouter) -> None:
    stores = context.stores
    cursors = Cursors(stores)
    totals: KeptAnswers[int] = KeptAnswers(_TOTAL_SECONDS, _TOTALS, context.clock)

    @router.get(
        "/documents",
        tags=["data"],
        summary="Crawled documents, newest visit first",
        response_model=Documents,
        openapi_extra={"parameters": described_api_query(ListQuery)},
    )
    async def list_documents(request: Request) -> Response:
        query = read_api_query(ListQuery, request)
        filters, reader = query.filters(), context.reader(request)
        await cursors.prepare()
        if not reader.sees_all:
            readable = await stores.read_little(lambda seen: readable_sources(seen, reader))
            filters = filters._replace(readable=readable)
        below = Place(filters.until + 1, 0)
        if query.cursor is not None:
            if query.offset:
                raise api_invalid_input("offset", "offset must not be given with a cursor")
            below = cursors.read(query.cursor, filters.bound)
        total = await totals.get(
            filters,
            lambda: stores.read(lambda connection: api_document_count(connection, filters)),
        )
        rows, last = await _page(context, filters, below, query)
        pagination = {
            "total": total,
            "offset": query.offset,
            "limit": query.limit,
            "next_cursor": None if last is None else cursors.write(last, filters.bound),
        }
        text = f'{{"documents":{rows},"pagination":{json_text(pagination)}}}'
        return json_text_response(text)


async def _page(
    context: Context, filters: Filters, below: Place, query: ListQuery
) -> tuple[str, Place | None]:
    """Return a page as JSON; a long one, or one far from the beginning of its list, in a thread."""

    def work(connection: Connection) -> tuple[str, Place | None]:
        return api_documents_page(connection, filters, below, query.limit, query.offset)

    if query.limit + query.offset <= _LITTLE:
        return await context.stores.read_little(work)
    return await to_thread.run_sync(context.stores.read, work)
