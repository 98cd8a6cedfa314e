"""Comparison of registry and index, key by key in constant memory, and repair (ADR 130).

Both are streams in the order of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum, auto
from functools import lru_cache
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple, Self, TypeVar

from smartcrawl.index import known
from smartcrawl.index.elasticsearch.bulk import Entry as Written
from smartcrawl.index.elasticsearch.bulk import Held
from smartcrawl.index.elasticsearch.documents import (
    epoch_of_index_version,
    index_vectors_hash,
    index_version,
)
from smartcrawl.index.elasticsearch.documents import index_document_key as key_of
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink
from smartcrawl.index.writing import PageVectors, RemoteIndexing
from smartcrawl.model.urls import (
    DEFAULT_TRACKERS,
    Trackers,
    normalize_url,
    unsigned_url,
    url_digest,
)
from smartcrawl.registry.connection import (
    Connection,
    Many,
    draw_sequence_numbers,
    last_sequence_number,
    transaction,
)
from smartcrawl.registry.pack import unpack_stored_links

_PAGE: Final = 2_000  #: records of one statement
_SOURCES = """
SELECT no, name FROM source WHERE :every OR name IN carray(:sources) ORDER BY name
"""
_PAGES = """
SELECT count(*) FROM record r JOIN source o ON o.no = r.source
 WHERE r.entry > 0 AND (:every OR o.name IN carray(:sources))
"""
#: The pages that index/writing.py would write.
_ENTRIES = """
SELECT r.no, r.id, r.url, c.content_hash, c.no
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
 WHERE r.source = ? AND r.id > ? AND r.entry > 0
 ORDER BY r.id LIMIT ?
"""
_OPEN = """
SELECT r.no, r.id, r.url, ''
  FROM state s JOIN record r USING (no)
 WHERE s.intent > 0 AND r.source = ? AND r.no > ? ORDER BY r.no LIMIT ?
"""
_DEAD = """
SELECT r.no, r.id, r.url, d.reason
  FROM dead_letter d JOIN record r USING (no)
 WHERE r.source = ? AND r.no > ? ORDER BY r.no LIMIT ?
"""
_KNOWN = "SELECT id, no, url FROM record WHERE source = ? AND id IN carray(?)"
_LINKS = """
SELECT l.no, l.raw FROM links l JOIN record r USING (no)
 WHERE r.source = ? AND l.no > ? ORDER BY l.no LIMIT ?
"""
_NONE: Final = PageVectors(None)


class Entry(NamedTuple):
    """A page that belongs in the index."""

    no: int
    id: bytes  #: SHA-256 of the normalized source
    url: str
    content_hash: bytes
    vectors_hash: str = ""  #: of its chunks with a vector (documents.index_vectors_hash)


class Marked(NamedTuple):
    """An open record or a dead letter."""

    no: int
    id: bytes
    url: str
    reason: str  #: why the index refused it; empty for an open record


def audited_sources(connection: Connection, names: Sequence[str]) -> list[tuple[int, str]]:
    """Return (number, name) of some sources, of all where none is named."""
    values = {"every": not names, "sources": Many(names)}
    return [(no, name) for no, name in connection.execute(_SOURCES, values).fetchall()]


def audited_index_page_count(connection: Connection, names: Sequence[str]) -> int:
    """Return the number of pages that belong in the index; of all sources where none is named."""
    values = {"every": not names, "sources": Many(names)}
    return int(connection.execute(_PAGES, values).get)


def audited_entries(
    connection: Connection, source: int, vectors: PageVectors = _NONE
) -> Iterator[Entry]:
    """Yield the pages of a source that belong in the index, in the order of the ids.

    ``vectors`` are those of the index. Each statement reads another moment. A caller without the
    lease may see a run at work.
    """
    last = b""
    while found := connection.execute(_ENTRIES, (source, last, _PAGE)).fetchall():
        some = vectors.chunks_with_one(connection, {row[-1] for row in found})
        for no, key, url, mark, content in found:
            with_one = index_vectors_hash(some.get(content, ()))
            yield Entry(no, bytes(key), url, bytes(mark), with_one)
        last = bytes(found[-1][1])


def audited_open_records(connection: Connection, source: int) -> Iterator[Marked]:
    """Yield the records of a source that a process was writing to the index when it died."""
    return _marked(connection, _OPEN, source)


def audited_dead_letters(connection: Connection, source: int) -> Iterator[Marked]:
    """Yield the records of a source that the index refused."""
    return _marked(connection, _DEAD, source)


def _marked(connection: Connection, statement: str, source: int) -> Iterator[Marked]:
    last = 0
    while found := connection.execute(statement, (source, last, _PAGE)).fetchall():
        yield from (Marked(no, bytes(key), url, reason) for no, key, url, reason in found)
        last = found[-1][0]


def audited_addresses(
    connection: Connection, source: int, ids: Iterable[bytes]
) -> dict[bytes, Any]:
    """Return (number, address) of the records of a source, by their ids."""
    rows = connection.execute(_KNOWN, (source, Many(tuple(ids)))).fetchall()
    return {bytes(key): (no, url) for key, no, url in rows}


def audited_linked_ids(
    connection: Connection, source: int, ids: Set[bytes], trackers: Trackers
) -> set[bytes]:
    """Return those of some ids to whose addresses a page of a source links.

    It reads all links of the source, unless there is no id to look for.
    """
    linked: set[bytes] = set()
    last = 0
    while len(linked) < len(ids) and (
        found := connection.execute(_LINKS, (source, last, _PAGE)).fetchall()
    ):
        for _, raw in found:
            linked |= ids & {_id_of_link(link.url, trackers) for link in unpack_stored_links(raw)}
        last = found[-1][0]
    return linked


@lru_cache(65_536)  # a site's pages have the same menu
def _id_of_link(url: str, trackers: Trackers) -> bytes:
    return url_digest(normalize_url(unsigned_url(url), trackers))


_T = TypeVar("_T")

_BATCH: Final = 500  #: pages of one transaction, or of one look-up
_AHEAD: Final = (
    "the index has claim numbers that this registry never used: the registry was "
    "restored from a backup, or another program writes to the index"
)
_HEX_ID: Final = 64  #: hexadecimal digits of an id in a key

Tick = Callable[[str, int], None]  #: takes a verb such as "compared", and the pages so far


class Kind(StrEnum):
    """Kind of a difference."""

    MISSING = auto()  #: a page in the registry without a living document in the index
    SURPLUS = auto()  #: a living document in the index without a page in the registry
    LINKED = auto()  #: a living document without a record, to whose address a page links
    CHANGED = auto()  #: a document with other content than its page
    VECTORS = auto()  #: a document whose chunks with a vector are others than in the registry
    OPEN = auto()  #: a page that a process was writing when it died
    DEAD = auto()  #: a page that the index refused


class Finding(NamedTuple):
    """One difference."""

    key: str  #: key of the document
    source: str
    url: str | None  #: None: the registry has no such record
    no: int | None  #: record.no; None: the registry has no such record
    detail: str = ""  #: the hash in the index, or why it was refused


class AuditFindings:
    """All differences, in temporary files: only the counts are in memory."""

    def __init__(self) -> None:
        self.counts: dict[Kind, int] = dict.fromkeys(Kind, 0)
        self.keys = 0  #: compared keys
        self.pages = 0  #: pages that belong in the index
        self.documents = 0  #: living documents
        self.highest = 0  #: highest version (documents.py), tombstones included
        self._files: dict[Kind, IO[str]] = {}
        for kind in Kind:
            self._files[kind] = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def add(self, kind: Kind, finding: Finding) -> None:
        """Add a difference."""
        self.counts[kind] += 1
        self._files[kind].write(json.dumps(finding) + "\n")

    def of(self, kind: Kind) -> Iterator[Finding]:
        """Yield the differences of one kind, in the order in which they were found."""
        file = self._files[kind]
        file.seek(0)
        return (Finding(*json.loads(line)) for line in file)

    def total(self) -> int:
        """Return the number of differences; one page may have several."""
        return sum(self.counts.values())


@dataclass(slots=True)
class IndexComparison:
    """Compares some sources of a registry with an index."""

    connection: Connection
    sink: ElasticsearchSink
    tick: Tick = field(default=lambda doing, count: None)
    trackers: Trackers = DEFAULT_TRACKERS

    def compare(self, names: Sequence[str]) -> AuditFindings:
        """Compare the named sources; without names, all sources and the rest of the index.

        The caller closes the findings.

        Raises:
            SinkError: the index does not answer.
        """
        self.sink.refresh()
        findings = AuditFindings()
        sources = audited_sources(self.connection, names)
        for no, name in sources:
            self._compare(findings, no, name)
            for kind, marked in (
                (Kind.OPEN, audited_open_records(self.connection, no)),
                (Kind.DEAD, audited_dead_letters(self.connection, no)),
            ):
                for one in marked:
                    findings.add(kind, _marked_finding(name, one))
        if not names:
            with closing(self.sink.scan(beside=[name for _, name in sources])) as rest:
                for held in self._watched(findings, rest):
                    self._count(findings)
                    source = held.key.rpartition(":")[0]
                    if not held.deleted:
                        findings.add(Kind.SURPLUS, Finding(held.key, source, None, None))
        return findings

    def _compare(self, findings: AuditFindings, source: int, name: str) -> None:
        surplus: list[str] = []
        strays: dict[bytes, str] = {}  #: keys of documents without a record, by the id of each
        with closing(self.sink.scan(name)) as scanned:
            documents = self._watched(findings, scanned)
            vectors = PageVectors(self.sink.embedder)
            pages = audited_entries(self.connection, source, vectors)
            for key, page, held in pair_pages_with_index(name, pages, documents):
                self._count(findings)
                living = held is not None and not held.deleted
                findings.pages += page is not None
                if page is None:
                    if living:
                        surplus.append(key)
                elif not living:
                    findings.add(Kind.MISSING, Finding(key, name, page.url, page.no))
                elif held is not None and held.content_hash != f"sha256:{page.content_hash.hex()}":
                    changed = Finding(key, name, page.url, page.no, held.content_hash)
                    findings.add(Kind.CHANGED, changed)
                elif held is not None and held.vectors_hash != page.vectors_hash:
                    other = Finding(key, name, page.url, page.no, held.vectors_hash)
                    findings.add(Kind.VECTORS, other)
                if len(surplus) >= _BATCH:
                    strays |= self._surplus(findings, source, name, surplus)
        strays |= self._surplus(findings, source, name, surplus)
        linked = audited_linked_ids(self.connection, source, strays.keys(), self.trackers)
        for id_, key in strays.items():
            kind = Kind.LINKED if id_ in linked else Kind.SURPLUS
            findings.add(kind, Finding(key, name, None, None))

    def _surplus(
        self, findings: AuditFindings, source: int, name: str, keys: list[str]
    ) -> dict[bytes, str]:
        """Add surplus documents whose addresses have a record; return the others, by their ids."""
        ids = {key: _id_of(key, name) for key in keys}
        known_ = audited_addresses(self.connection, source, filter(None, ids.values()))
        strays: dict[bytes, str] = {}
        for key in keys:
            id_ = ids[key]
            if id_ is not None and id_ not in known_:
                strays[id_] = key
                continue
            no, url = known_.get(id_ or b"", (None, None))
            findings.add(Kind.SURPLUS, Finding(key, name, url, no))
        keys.clear()
        return strays

    def _watched(self, findings: AuditFindings, documents: Iterable[Held]) -> Iterator[Held]:
        for held in documents:
            findings.highest = max(findings.highest, held.version)
            findings.documents += not held.deleted
            yield held

    def _count(self, findings: AuditFindings) -> None:
        findings.keys += 1
        self.tick("compared", findings.keys)


def pair_pages_with_index(
    source: str, pages: Iterable[Entry], documents: Iterable[Held]
) -> Generator[tuple[str, Entry | None, Held | None]]:
    """Yield each key with its page and its document; both streams are in the order of their keys.

    Python sorts strings as their UTF-8, by which Elasticsearch sorts, too.
    """
    left, right = iter(pages), iter(documents)
    page, held = next(left, None), next(right, None)
    while page is not None or held is not None:
        here = None if page is None else key_of(source, page.id)
        if page is None or (held is not None and here is not None and held.key < here):
            assert held is not None, "one of both is there"
            yield held.key, None, held
            held = next(right, None)
        elif held is None or here is None or here < held.key:
            yield key_of(source, page.id), page, None
            page = next(left, None)
        else:
            yield here, page, held
            page, held = next(left, None), next(right, None)


def is_index_ahead(findings: AuditFindings, facts: Known, drawn: int) -> bool:
    """Whether the index has documents with claim numbers that were not given out yet.

    ``drawn`` is the claim number that the registry gave out last.
    """
    return findings.highest > index_version(facts.epoch, drawn)


def next_index_epoch(findings: AuditFindings, facts: Known, sealed: int) -> int:
    """Return an epoch in which every write is newer than all documents of the index.

    ``sealed`` is the version of the last seal that the index remembers.
    """
    return (
        max(facts.epoch, epoch_of_index_version(findings.highest), epoch_of_index_version(sealed))
        + 1
    )


def index_mismatch(
    connection: Connection, sink: ElasticsearchSink, facts: Known, findings: AuditFindings
) -> str | None:
    """Return why the index is not the one that the registry knows; None if it is."""
    wrong = sink.mismatch(facts)
    if wrong is None and is_index_ahead(
        findings, facts, last_sequence_number(connection, "number")
    ):
        return _AHEAD
    return wrong


@dataclass(slots=True)
class IndexMender:
    """Writes the differences to the index; the caller has the leases of all their sources."""

    connection: Connection
    indexing: RemoteIndexing
    sink: ElasticsearchSink
    now: int  #: Unix seconds
    tick: Tick = field(default=lambda doing, count: None)

    def mend(self, findings: AuditFindings) -> None:
        """Write the pages of the registry, and tombstones in place of surplus documents.

        A page that the index refuses becomes a dead letter, and stays open.

        Raises:
            SinkError: the index no longer takes writes; earlier repairs stay.
        """
        kinds = (
            *(Kind.MISSING, Kind.CHANGED, Kind.VECTORS),
            *(Kind.OPEN, Kind.DEAD, Kind.SURPLUS),
        )
        known_ = (one.no for kind in kinds for one in findings.of(kind) if one.no is not None)
        done = 0
        for batch in _batches(known_):
            self._again(set(batch))
            done += len(batch)
            self.tick("repaired", done)
        strays = (one.key for one in findings.of(Kind.SURPLUS) if one.no is None)
        for keys in _batches(strays):
            with transaction(self.connection):
                number = draw_sequence_numbers(self.connection, "number")
            self.sink.write(Written(key, number, None) for key in keys)
            done += len(keys)
            self.tick("repaired", done)

    def _again(self, pages: set[int]) -> None:
        def refuse(no: int, _: str | None) -> bool:
            pages.discard(no)
            return True

        self.indexing.rewrite(self.connection, pages, now=self.now, refused=refuse)


def adopt_index(connection: Connection, sink: ElasticsearchSink, facts: Known, epoch: int) -> None:
    """Record an index as the registry's own; both have the same pages by now.

    An index that is new to the registry gets an identity that no other registry knows.
    """
    if facts.identity != sink.identity():
        sink.renew()
    sealed = str(sink.highest())
    with transaction(connection):
        known.note_index_facts(
            connection,
            identity=sink.identity(),
            epoch=str(epoch),
            sealed=sealed,
            sealing=sealed,
            openings=str(sink.openings()),
        )


def _marked_finding(source: str, one: Marked) -> Finding:
    return Finding(key_of(source, one.id), source, one.url, one.no, one.reason)


def _id_of(key: str, source: str) -> bytes | None:
    """Return the id in the key of a document; None where this program did not make the key."""
    name, _, digits = key.rpartition(":")
    if name != source or len(digits) != _HEX_ID:
        return None
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return None


def _batches(things: Iterable[_T]) -> Iterator[list[_T]]:
    iterator = iter(things)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
