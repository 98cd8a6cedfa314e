"""Single addresses between visits: registered by hand, pinned, ordered for reindexing.

``smartcrawl reindex`` and ``scrapy due`` use this module, and AddUrlDocument, ReindexItem,
RebuildIndex and CrawlWorker do. It needs no lease of a source: an open run goes on, and a later
visit fulfils an order that arrives while its page is being fetched.

Addresses that were added over the HTTP API (R0-57, R0-67), or posted to be pinned (R2-33), may have
no record yet. An open run gives out numbers of its own, and may discover any of them at any moment,
so that no other process may add a record to its source. They wait beside the records, and the next
run of the source registers or pins them when it begins (ADR 60). Addresses that a notice named wait
in the same place and are not pinned (ADR 176).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.program import program_name
from smartcrawl.model.urls import (
    Trackers,
    display_url,
    normalize_url,
    unsigned_url,
    url_digest,
    url_digests_of_id,
    url_host_key,
    url_item_id,
)
from smartcrawl.registry.commit.run_counts import count_queued_row
from smartcrawl.registry.connection import Connection, Many, draw_sequence_numbers, transaction
from smartcrawl.registry.database.databases import DatabaseControl
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.runs.run_results import last_start_rows, stored_start_argument_rows
from smartcrawl.registry.runs.runs import OpenRun, Role
from smartcrawl.registry.source_due import FORWARD
from smartcrawl.registry.spellings import store_spelling_rows
from smartcrawl.registry.visibility import Readable
from smartcrawl.rules.model import RemovalRule, Status
from smartcrawl.sources.base import Source
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.site import documents_source

_ITEM = """
SELECT r.no, r.id, r.url, o.name, s.status, coalesce(i.requested, FALSE), coalesce(i.generation, 0),
       coalesce(i.processed, 0), s.number || '.' || coalesce(i.revision, 0),
       s.next_visit, EXISTS (SELECT 1 FROM pin p WHERE p.no = r.no)
  FROM record r JOIN state s USING (no) LEFT JOIN item i USING (no) JOIN source o ON o.no = r.source
"""
#: The condition on the source lets the query use the index.
_OF_ID = f"{_ITEM} WHERE r.id = ? AND r.source IN (SELECT no FROM source) ORDER BY o.name"
_OF_NO = f"{_ITEM} WHERE r.no = ?"
_OF_KEY = f"{_ITEM} WHERE r.id >= ? AND r.id <= ? AND r.source IN (SELECT no FROM source)"
_OF_SOURCES = f"""
{_ITEM}
 WHERE r.kind = 0 AND s.standing > 0
   AND (:every OR o.name IN carray(:sources))
 ORDER BY o.name, r.no
"""
#: An order is used once and counted, so that no order gets lost (R0-55, R0-89).
_ORDER = """
INSERT INTO item (no, requested, generation, revision)
SELECT value, TRUE, 1, 1 FROM carray(?) WHERE TRUE
ON CONFLICT (no) DO UPDATE
   SET requested = TRUE, generation = item.generation + 1, revision = item.revision + 1
"""
_NOW = "UPDATE state SET next_visit = :now WHERE no IN carray(:numbers)"
#: As in ``FORWARD``, no budget puts off this visit.
_REGISTERED = "UPDATE state SET next_visit = :now, interval = NULL WHERE no = :no"
#: A notice only brings a visit forward.
_DUE_NOW = f"UPDATE state SET {FORWARD} WHERE no IN carray(:numbers)"
_NOTICE = """
SELECT r.no, r.id, o.name, r.url FROM record r JOIN source o ON o.no = r.source
 WHERE r.id IN carray(:keys) AND r.source IN (SELECT no FROM source)
   AND (:every OR o.name IN carray(:sources)) ORDER BY o.name, r.no
"""
_LAST_RUN = """
SELECT o.no, max(r.no) FROM run r JOIN source o ON o.no = r.source WHERE o.name = ? GROUP BY o.no
"""
_HOST = "INSERT INTO host (name, display) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_RECORD = """
INSERT INTO record (no, source, id, url, identity, host, first_run, first_seen)
VALUES (?, ?, ?, ?, ?, (SELECT no FROM host WHERE name = ?), ?, ?)
"""
_STATE = """
INSERT INTO state (no, reached_run, depth, next_visit, host)
VALUES (?, ?, 0, ?, (SELECT no FROM host WHERE name = ?))
"""
_PIN = "INSERT INTO pin (no, source, at) VALUES (?, ?, ?) ON CONFLICT (no) DO NOTHING"
#: A page that is neither indexed nor crawled becomes pending again (R0-87).
_PENDING = "UPDATE state SET status = 0 WHERE no IN carray(?) AND status NOT IN (1, 2)"
#: Ad-hoc sources, created by an address on the command line, that have content and are not
#: forgotten: such a one has no page, and an operator's removal that was not undone.
_AD_HOC = f"""
SELECT o.name FROM source o
 WHERE NOT o.declared AND EXISTS (SELECT 1 FROM content c WHERE c.source = o.no)
   AND (EXISTS (SELECT 1 FROM record r JOIN state s USING (no)
                 WHERE r.source = o.no AND s.standing > 0)
        OR NOT EXISTS (SELECT 1 FROM evidence e
                        WHERE e.source = o.no AND e.rule = {int(RemovalRule.FORGOTTEN)}
                          AND e.undone IS NULL))
 ORDER BY o.name
"""


@dataclass(frozen=True, slots=True)
class ItemRow:
    """The fields of a row of "IngestItems" that orders need."""

    no: int
    key: bytes  #: SHA-256 of the normalized source
    url: str
    source: str
    status: Status
    requested: bool  #: reindexRequested
    generation: int  #: reindexGeneration
    processed: int  #: the last generation that a visit fulfilled
    etag: str  #: of the row; it changes with every write
    next_visit: int | None
    pinned: bool

    @property
    def id(self) -> str:
        """Public id of the item, such as ``url_k7gxn3…`` or ``file_3p4s8…`` (R0-24)."""
        return url_item_id(url_item_kind(self.url), self.key)

    @property
    def forced(self) -> bool:
        """Whether the next visit skips every check for changes (R0-52, R0-56)."""
        return self.requested or self.generation > self.processed


def _item(row: Sequence[Any]) -> ItemRow:
    values = [*row[:4], Status(row[4]), bool(row[5]), *row[6:10], bool(row[10])]
    return ItemRow(*values)


def item_rows_by_url(connection: Connection, url: str, trackers: Trackers) -> list[ItemRow]:
    """Return the items of an address, one for each source that has a record of it."""
    key = url_digest(normalize_url(url, trackers))
    rows: Any = connection.execute(_OF_ID, (key,)).fetchall()
    return [_item(row) for row in rows]


def item_rows_by_id(connection: Connection, word: str) -> list[ItemRow]:
    """Return the items of an id such as ``url_k7gxn3…``, one for each source with a record.

    Raises:
        RegistryError: ``word`` does not have the form of an id.
    """
    span = url_digests_of_id(word)
    if span is None:
        raise RegistryError(
            f"{word!r} is not an id: give one as {program_name()} registry prints it, "
            "such as url_k7gxn3…"
        )
    return item_rows_between(connection, *span)


def item_rows_between(connection: Connection, first: bytes, last: bytes) -> list[ItemRow]:
    """Return the items whose ids (32 bytes) are ``first`` to ``last``."""
    rows: Any = connection.execute(_OF_KEY, (first, last)).fetchall()
    return [_item(row) for row in rows]


def stored_page_rows(
    connection: Connection,
    sources: Sequence[str] = (),
    matches: Callable[[str], bool] = lambda url: True,
) -> list[ItemRow]:
    """Return the stored pages of some sources (none: of all) whose address ``matches``."""
    names = {"sources": Many(sources), "every": not sources}
    rows: Any = connection.execute(_OF_SOURCES, names)
    return [_item(row) for row in rows if matches(row[2])]


def store_order_rows(connection: Connection, wanted: Iterable[int], now: int) -> None:
    """Order pages to be fetched without validators and indexed anew (R0-51 to R0-56).

    Each page becomes due at once, and *Pending* unless it is indexed or crawled (R0-87, R0-88).
    The caller opens the transaction.
    """
    these = numbers_for_sql(wanted)
    connection.execute(_ORDER, (these,))
    connection.execute(_PENDING, (these,))
    connection.execute(_NOW, {"numbers": these, "now": now})


def make_record_rows_due(
    connection: Connection, key: bytes, now: int, *, source: str | None = None
) -> list[tuple[str, str]]:
    """Make the records of an id (32 bytes) due now; return (source, address) of each."""
    found = make_noticed_rows_due(connection, [key], now, None if source is None else (source,))
    return [(row.source, row.url) for row in found]


class NoticedRow(NamedTuple):
    """A record that a notice is about."""

    key: bytes  #: SHA-256 of the normalized source
    source: str  #: its name
    url: str


def make_noticed_rows_due(
    connection: Connection, keys: Sequence[bytes], now: int, readable: Readable = None
) -> list[NoticedRow]:
    """Make the records of ids (32 bytes each) due now, by two statements; return them by source.

    ``readable``: only those of these sources; None: of all. A visit is only brought forward. The
    caller opens the transaction.
    """
    rows = _noticed(connection, keys, readable)
    connection.execute(_DUE_NOW, {"numbers": numbers_for_sql(row[0] for row in rows), "now": now})
    return [NoticedRow(bytes(key), name, url) for _, key, name, url in rows]


def recorded_ids(
    connection: Connection, keys: Sequence[bytes], readable: Readable = None
) -> set[bytes]:
    """Return those ids (32 bytes each) that have a record; ``readable``: in these sources."""
    return {bytes(key) for _, key, _, _ in _noticed(connection, keys, readable)}


def _noticed(connection: Connection, keys: Sequence[bytes], readable: Readable) -> list[Any]:
    values = {"keys": Many(keys), "every": readable is None, "sources": Many(readable or ())}
    return list(connection.execute(_NOTICE, values).fetchall())


def register_address_row(
    connection: Connection,
    source: str,
    url: str,
    trackers: Trackers,
    now: int,
    *,
    force: bool = False,
) -> ItemRow:
    """Register an address by hand: pinned, due at once, and reindexed if ``force``.

    The call is idempotent: it makes one record (R0-04) and keeps ``firstSeen`` and the status of
    a page that is indexed or crawled (R0-57, R0-67, R0-87 to R0-89). The caller opens the
    transaction.

    Raises:
        RegistryError: the source was never crawled.
    """
    url = unsigned_url(url)
    row: Any = connection.execute(_LAST_RUN, (source,)).fetchone()
    if row is None:
        raise RegistryError(f"{source} was never crawled: crawl it once, then register its pages")
    source_no, run = row
    identity = normalize_url(url, trackers)
    known = [item for item in item_rows_by_url(connection, url, trackers) if item.source == source]
    if known:
        no = known[0].no
        store_spelling_rows(connection, {no: [url]}, 0)
        connection.execute(_PENDING, (numbers_for_sql([no]),))
        connection.execute(_REGISTERED, {"no": no, "now": now})
    else:
        no = insert_address_row(connection, source_no, url, identity, run=run, now=now)
    pin_record_row(connection, no, source_no, now)
    if force:
        store_order_rows(connection, [no], now)
    return read_item_row(connection, no)


def insert_address_row(
    connection: Connection, source_no: int, url: str, identity: str, *, run: int, now: int
) -> int:
    """Insert the record of an address that is due; return its number.

    ``identity``: the normalized source. The caller holds the lease of the source, and opens the
    transaction.
    """
    count_queued_row(connection, run)  # first, as batches lock the row of the run first
    no = draw_sequence_numbers(connection, "address")
    host = url_host_key(url)
    shown = display_url(f"http://{host}").removeprefix("http://")
    connection.execute(_HOST, (host, shown if shown != host else None))
    other = None if identity == url else identity
    row = (no, source_no, url_digest(identity), url, other, host, run, now)
    connection.execute(_RECORD, row)
    connection.execute(_STATE, (no, run, now, host))
    return no


def pin_record_row(connection: Connection, no: int, source_no: int, now: int) -> None:
    """Let a record be a seed of its source until it is forgotten."""
    connection.execute(_PIN, (no, source_no, now))


def read_item_row(connection: Connection, no: int) -> ItemRow:
    """Return the item of a record number."""
    row: Any = connection.execute(_OF_NO, (no,)).fetchone()
    return _item(row)


def refreshable_source_rows(connection: Connection) -> dict[str, dict[str, str]]:
    """Return the crawl arguments of the ad-hoc sources, by source name; none of a forgotten one.

    ``spider`` is among those of a source that is listed.
    """
    found: dict[str, dict[str, str]] = {}
    names: Any = connection.execute(_AD_HOC).fetchall()
    for (name,) in names:
        listed = stored_start_argument_rows(connection, name)
        if listed is not None:
            found[name] = listed
            continue
        for start in last_start_rows(connection, name):
            host = url_host_key(start.url)
            if name != host and not name.startswith(f"{host}-"):
                continue  # a formerly declared source
            arguments = found.setdefault(name, {})
            if start.role is Role.SEED:
                arguments.setdefault("url", start.url)
            else:
                arguments["sitemap"] = f"{arguments.get('sitemap', '')} {start.url}".strip()
    return found


_ORDER_ADDRESS: Final = """
INSERT INTO ordered_address (source, id, url, forced, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (source, id) DO UPDATE SET forced = ordered_address.forced + excluded.forced
RETURNING forced
"""
_FORCED: Final = """
UPDATE ordered_address SET forced = forced + 1
 WHERE id >= :first AND id <= :last AND (:every OR source IN carray(:sources))
RETURNING source, url, id, forced
"""
_SOURCES_OF_KEY: Final = "SELECT source FROM ordered_address WHERE id = ? ORDER BY source"
_OF_SOURCE: Final = "SELECT url, forced FROM ordered_address WHERE source = ? ORDER BY at, id"
_DONE: Final = "DELETE FROM ordered_address WHERE source = ?"
_KNOWN: Final = "SELECT no FROM record WHERE source = ? AND id = ?"
_FORCE: Final = """
INSERT INTO item (no, requested, generation, revision) VALUES (?, TRUE, ?, 1)
ON CONFLICT (no) DO UPDATE
   SET requested = TRUE, generation = item.generation + excluded.generation,
       revision = item.revision + 1
"""
_KIND: Final = "SELECT kind FROM source WHERE name = ?"
_PAGES: Final = """
SELECT r.url FROM source o JOIN pin p ON p.source = o.no JOIN record r ON r.no = p.no
 WHERE o.name = :name
 UNION SELECT url FROM ordered_address WHERE source = :name
 UNION SELECT url FROM pending_pin WHERE source = :name
"""


def order_address_row(
    connection: Connection, source: str, url: str, key: bytes, now: int, *, force: bool
) -> int:
    """Order an address to be registered in a source; return its reindexGeneration.

    The same order again only counts ``force``. The caller opens the transaction.
    """
    return int(connection.execute(_ORDER_ADDRESS, (source, key, url, int(force), now)).get)


def sources_of_ordered_row(connection: Connection, key: bytes) -> list[str]:
    """Return the sources that an address without a record is ordered for."""
    rows: list[Any] = connection.execute(_SOURCES_OF_KEY, (key,)).fetchall()
    return [source for (source,) in rows]


class ForcedOrderRow(NamedTuple):
    """An ordered address without a record, after one more order to index it anew."""

    source: str
    url: str
    key: bytes  #: SHA-256 of the normalized source
    forced: int  #: reindexGeneration

    @property
    def id(self) -> str:
        """Public id of the item to be."""
        return url_item_id(url_item_kind(self.url), self.key)


def force_ordered_rows(
    connection: Connection, first: bytes, last: bytes, readable: Readable = None
) -> list[ForcedOrderRow]:
    """Count one more order to index anew, and return the orders, by source.

    ``first`` and ``last``: the ids (32 bytes) between which they are. ``readable``: only those of
    these sources; None: of all.
    """
    values = {"first": first, "last": last}
    limits = {"every": readable is None, "sources": Many(readable or ())}
    rows: Any = connection.execute(_FORCED, values | limits).fetchall()
    return sorted(
        ForcedOrderRow(source, url, bytes(key), forced) for source, url, key, forced in rows
    )


def register_ordered_rows(
    control: DatabaseControl, run: OpenRun, source: str, trackers: Trackers, now: int
) -> None:
    """Register the ordered addresses of a source, pinned and due, when a run of it begins.

    Not for a shared run, where other workers may find them at the same time: a later run does.
    """

    def work() -> None:
        connection = control.connection
        rows: list[Any] = connection.execute(_OF_SOURCE, (source,)).fetchall()
        for url, forced in rows:
            identity = normalize_url(url, trackers)
            no = connection.execute(_KNOWN, (run.source, url_digest(identity))).get
            if no is None:
                no = insert_address_row(connection, run.source, url, identity, run=run.no, now=now)
            else:
                store_spelling_rows(connection, {no: [url]}, 0)
            pin_record_row(connection, no, run.source, now)
            if forced:
                connection.execute(_FORCE, (no, forced))
        if rows:
            connection.execute(_DONE, (source,))

    control.write(work)


def has_row_of_documents_name(connection: Connection) -> bool:
    """Whether no other source was ever crawled under the name of the source of single pages."""
    return connection.execute(_KIND, (DOCUMENTS.name,)).get in (None, DOCUMENTS.name)


def stored_row_of_documents_source(connection: Connection) -> Source | None:
    """Return the source of single pages; None: there is none, or the name is that of another."""
    if not has_row_of_documents_name(connection):
        return None
    rows: Sequence[Any] = connection.execute(_PAGES, {"name": DOCUMENTS.name}).fetchall()
    is_stored = connection.execute(_KIND, (DOCUMENTS.name,)).get is not None
    return documents_source(url for (url,) in rows) if rows or is_stored else None


_COLUMNS = ("source", "id", "url", "host", "at", "priority", "pinned")
#: The first statement of a transaction that posts addresses: they wait for each other.
_POSTING = "UPDATE sequence SET value = value WHERE name = 'number'"
#: The condition on the source lets the query use the index.
_PIN_KNOWN = """
SELECT r.id, (SELECT name FROM source s WHERE s.no = r.source), TRUE FROM record r
 WHERE r.id IN carray(?) AND r.source IN (SELECT no FROM source WHERE name IN carray(?))
"""
_POSTED = """
SELECT id, source, FALSE FROM pending_pin WHERE id IN carray(?) AND source IN carray(?)
"""
_ORDERED = """
SELECT id, source, FALSE FROM ordered_address WHERE id IN carray(?) AND source IN carray(?)
"""
_DUE = f"""
UPDATE state SET {FORWARD}
 WHERE no IN (
       SELECT r.no FROM record r
        WHERE r.id IN carray(:ids)
          AND r.source IN (SELECT no FROM source WHERE name IN carray(:sources)))
"""
_POST_PIN = """
INSERT INTO pin (no, source, at, priority)
SELECT r.no, r.source, w.at, w.priority
  FROM pending_pin w JOIN record r ON r.source = :no AND r.id = w.id
 WHERE w.source = :name AND w.pinned
ON CONFLICT (no) DO NOTHING
"""
_PINNED = """
DELETE FROM pending_pin
 WHERE source = :name AND id IN (SELECT r.id FROM record r WHERE r.source = :no)
"""
#: What a run refused, by its budget or as a trap, is not offered again.
_OFFERED = "DELETE FROM pending_pin WHERE source = :name AND url IN carray(:urls) AND NOT pinned"
_WAITING_OFFERS = """
SELECT source, count(*) FROM pending_pin WHERE source IN carray(?) AND NOT pinned GROUP BY source
"""
_PIN_OF_ID = "WHERE id = :id AND (:every OR source IN carray(:sources))"
_POSTED_TO = f"SELECT source, at, priority FROM pending_pin {_PIN_OF_ID} ORDER BY source"
_WAITING = f"SELECT source FROM pending_pin {_PIN_OF_ID} ORDER BY source"
_FORGET = f"DELETE FROM pending_pin {_PIN_OF_ID}"


class PendingPin(NamedTuple):
    """A posted address; the fields are the columns of its row."""

    source: str  #: its name
    id: bytes  #: SHA-256 of the normalized address
    url: str
    host: str
    at: int  #: Unix seconds
    priority: int
    pinned: bool = True  #: whether it becomes a seed; False: the next run requests it as a link


class KnownAddress(NamedTuple):
    """A source that has an address already."""

    source: str  #: its name
    is_record: bool  #: it has a record of it; else the address waits for a run


def known_address_rows(
    connection: Connection, ids: Sequence[bytes], sources: Sequence[str]
) -> dict[bytes, KnownAddress]:
    """Return those ids (32 bytes each) that sources have a record of, or that wait for one.

    The caller's transaction keeps others from posting addresses until its end.
    """
    connection.execute(_POSTING)
    known: dict[bytes, KnownAddress] = {}
    for statement in (_ORDERED, _POSTED, _PIN_KNOWN):
        rows: Any = connection.execute(statement, (Many(ids), Many(sources))).fetchall()
        known |= {bytes(key): KnownAddress(name, bool(is_record)) for key, name, is_record in rows}
    return known


def make_stored_addresses_due(
    connection: Connection, ids: Sequence[bytes], sources: Sequence[str], now: int
) -> None:
    """Make the records of ids (32 bytes each) due, in the same transaction (RD-16).

    ``now``: Unix seconds. A visit is only brought forward; nothing else of a record changes.
    """
    named = {"ids": Many(ids), "sources": Many(sources), "now": now}
    connection.execute(_DUE, named)


def store_pending_pin_rows(connection: Connection, pins: Iterable[PendingPin]) -> None:
    """Store addresses that ``known_address_rows`` did not return, in its transaction."""
    connection.fill("pending_pin", _COLUMNS, pins)


def waiting_offer_counts(connection: Connection, sources: Sequence[str]) -> dict[str, int]:
    """Return how many addresses of notices wait for the next run of sources, by name."""
    rows: Any = connection.execute(_WAITING_OFFERS, (Many(sources),)).fetchall()
    return {str(source): int(count) for source, count in rows}


def pin_registered_rows(
    connection: Connection, name: str, source: int, offered: Sequence[str] = ()
) -> None:
    """Pin the waiting addresses that have a record now; ``source`` is source.no of ``name``.

    ``offered``: those that the run took and that are not pinned; they wait no longer. The caller
    opens the transaction.
    """
    for statement in (_POST_PIN, _PINNED):
        connection.execute(statement, {"name": name, "no": source})
    if offered:
        connection.execute(_OFFERED, {"name": name, "urls": Many(offered)})


def pending_pins_of(
    connection: Connection, key: bytes, sources: Sequence[str]
) -> list[tuple[str, int, int]]:
    """Return source, time (Unix seconds) and priority of a waiting address.

    ``sources``: () for all.
    """
    values = {"id": key, "every": not sources, "sources": Many(sources)}
    rows: list[Any] = connection.execute(_POSTED_TO, values).fetchall()
    return [(str(source), int(at), int(priority)) for source, at, priority in rows]


def delete_pending_pin_rows(
    connection: Connection, key: bytes, sources: Sequence[str], *, dry: bool
) -> list[str]:
    """Remove a waiting address from some sources (none: from all); return their names.

    ``dry``: return the names only.
    """
    values = {"id": key, "every": not sources, "sources": Many(sources)}
    rows: list[Any] = connection.execute(_WAITING, values).fetchall()
    if rows and not dry:
        with transaction(connection):
            connection.execute(_FORGET, values)
    return [str(name) for (name,) in rows]
