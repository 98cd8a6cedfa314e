"""Keep the index in step with registry transactions (ADR 29).

The embedded index is in the registry's database: one transaction writes both. A remote index is
written before the registry; until then the registry marks the pages as open. After a crash, writes
may be repeated, but the registry never records a write that the index did not acknowledge.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from smartcrawl.index import known
from smartcrawl.index.elasticsearch.meta import BEHIND
from smartcrawl.index.embedded.vectors import index_vector_of_row
from smartcrawl.index.images import images_to_index
from smartcrawl.model.documents import Chunk, EmbedderKey, IndexedImage, IndexedPage
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.patience import Patience
from smartcrawl.model.program import program_argument
from smartcrawl.model.urls import url_content_group
from smartcrawl.registry.chunks import (
    delete_remote_chunk_rows,
    store_remote_chunk_rows,
    update_remote_chunk_rows,
    vector_table,
)
from smartcrawl.registry.connection import (
    Connection,
    Many,
    draw_sequence_numbers,
    last_sequence_number,
    transaction,
)
from smartcrawl.registry.index_protocols import AnalyzingSink, IndexedText, PageIndex, Sink
from smartcrawl.registry.pack import numbers_for_sql

logger = logging.getLogger(__name__)


_NO = "SELECT no FROM embedder WHERE name = ? AND model = ? AND dimension = ?"
_VECTORS = """
SELECT hash, {numbers} FROM {vector}
 WHERE embedder = ? AND vector IS NOT NULL AND hash IN carray(?)
"""
_WITH_ONE = """
SELECT k.content, k.hash FROM remote_chunk k JOIN {vector} v ON v.hash = k.hash
 WHERE v.embedder = ? AND v.vector IS NOT NULL AND k.content IN carray(?)
"""
_EMPTY: Final = (Chunk((), ""),)  #: the chunk of a page without text, for its title


@dataclass(frozen=True, slots=True)
class PageVectors:
    """The vectors of one embedder."""

    #: Whose vectors the index has; None: it has no field for them, and only the registry has any.
    embedder: EmbedderKey | None

    def number(self, connection: Connection) -> int | None:
        """Return embedder.no; None: the registry has no vector of it, or there is no field."""
        if self.embedder is None:
            return None
        number: int | None = connection.execute(_NO, self.embedder).get
        return number

    def of_chunks(self, connection: Connection, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """Return the vectors of some chunks, by their digests; those that have none are left out.

        Vectors of another embedder never count.
        """
        number = self.number(connection)
        if number is None or not digests:
            return {}
        numbers = "vector::real[]" if connection.dialect == "postgres" else "vector"
        statement = _VECTORS.format(vector=vector_table(connection), numbers=numbers)
        rows: Any = connection.execute(statement, (number, Many(sorted(digests)))).fetchall()
        return {bytes(digest): index_vector_of_row(vector) for digest, vector in rows}

    def chunks_with_one(
        self, connection: Connection, contents: Collection[int]
    ) -> dict[int, set[bytes]]:
        """Return the digests of the chunks that have a vector, by content.no."""
        found: defaultdict[int, set[bytes]] = defaultdict(set)
        number = self.number(connection)
        if number is not None:
            statement = _WITH_ONE.format(vector=vector_table(connection))
            rows: Any = connection.execute(statement, (number, numbers_for_sql(contents)))
            for content, digest in rows.fetchall():
                found[content].add(bytes(digest))
        return found


def index_chunk_digests(title: str, chunks: Sequence[Chunk]) -> list[bytes]:
    """Return the digests of the chunks of a page, of which there is at least one."""
    return [chunk.digest(title) for chunk in chunks or _EMPTY]


def index_vector_count(page: IndexedPage) -> int:
    """Return how many chunks of a page have a vector."""
    if not page.vectors:
        return 0
    return sum(digest in page.vectors for digest in index_chunk_digests(page.title, page.chunks))


_AFFECTED = """
SELECT r.no, o.name, r.id, r.content, r.entry, r.sunk, c.content_hash
  FROM record r JOIN source o ON o.no = r.source LEFT JOIN content c ON c.no = r.content
 WHERE r.content IN carray(:contents) OR r.sunk IN carray(:contents) OR r.no IN carray(:again)
"""
_PAGES = """
SELECT r.no, r.url, r.canonical_url, r.last_changed, coalesce(r.media, r.content_type), s.depth,
       c.no, c.content_hash, c.title, c.description, c.language, c.published, c.author, c.marked,
       c.document
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
 WHERE r.no IN carray(?)
"""
_HELD = "UPDATE record SET sunk = ? WHERE no = ?"
_HELD_VECTORS = "UPDATE record SET sunk_vectors = ? WHERE no = ?"
_HELD_NO_VECTORS = "UPDATE record SET sunk_vectors = 0 WHERE no IN carray(?) AND sunk_vectors <> 0"
_DONE = "UPDATE state SET intent = 0 WHERE no IN carray(:numbers) AND intent <= :number"
_DONE_UNLESS_OPENED = (
    "UPDATE state SET intent = 0 WHERE no IN carray(:numbers) AND intent = :number"
)
_OVERTAKEN = "SELECT no FROM state WHERE no IN carray(:numbers) AND intent < :number"
_ALIVE = "DELETE FROM dead_letter WHERE no IN carray(?)"

Chunked = Callable[[bytes, str], list[Chunk]]  #: the chunks of a stored document with its marks


@dataclass(slots=True)
class Taken:
    """Pages that the index acknowledged so far, by number of record."""

    marks: dict[int, bytes | None] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)  #: claim numbers of the writes
    vectors: dict[int, int] = field(default_factory=dict)  #: chunks with a vector
    dead: set[int] = field(default_factory=set)  #: pages that the index refused
    overtaken: set[int] = field(default_factory=set)  #: pages that another worker wrote later


class OutgoingIndexWrites:
    """Collects the index writes that a transaction asks for (``ports.Sink``)."""

    is_elsewhere: Final = True

    def __init__(
        self, connection: Connection, chunked: Chunked, vectors: PageVectors | None = None
    ) -> None:
        """``vectors``: those of the documents; None: no chunk gets any."""
        self._connection = connection
        self._chunked = chunked
        self._vectors = vectors
        self._digests: dict[int, list[bytes]] = {}  #: of contents to write at the next flush
        self._renewed: set[int] = set()  #: contents whose digests change at the next flush
        #: content_hash and digests of contents that ``pages`` read, by content.no
        self.cut: dict[int, tuple[bytes, list[bytes]]] = {}
        self._put: dict[int, Sequence[Chunk]] = {}
        self._contents: set[int] = set()
        self._again: set[int] = set()
        self._former: dict[int, tuple[str, bytes]] = {}  #: sources and ids that pages had
        self._touched: list[tuple[int, int | None]] = []

    def prepare(self, texts: Sequence[IndexedText]) -> Sequence[int]:
        """Write nothing: the index is written while no transaction is open."""
        return ()

    def put(self, content: int, title: str, chunks: Sequence[Chunk], language: str) -> None:
        """Note the chunks of a content row."""
        self._put[content] = chunks
        self._contents.add(content)
        self._renewed.add(content)
        if self._vectors is not None:
            self._digests[content] = index_chunk_digests(title, chunks)

    def remove(self, content: int) -> None:
        """Note that a content row is unused by now, or is written anew."""
        self._put.pop(content, None)
        self._digests.pop(content, None)
        self._contents.add(content)
        self._renewed.add(content)

    def moved(self, contents: Iterable[int]) -> None:
        """Note contents whose original pages may have changed."""
        self._contents.update(contents)

    def again(self, pages: Iterable[int]) -> None:
        """Ask for pages even if the index is known to have them."""
        self._again.update(pages)

    def renamed(self, former: Mapping[int, tuple[str, bytes]]) -> None:
        """Write pages under their new ids, and tombstones under the former ones."""
        self._former.update(former)
        self.again(former)

    def flush(self) -> None:
        """Write the digests of the chunks; the index is written while no transaction is open."""
        if self._renewed:
            delete_remote_chunk_rows(self._connection, self._renewed - self._digests.keys())
            store_remote_chunk_rows(self._connection, self._digests)
        self._renewed, self._digests = set(), {}

    def pages(self, taken: Mapping[int, bytes | None]) -> list[IndexedPage]:
        """Return the pages to write to the index, promotions before removals.

        Pages that it has ``taken``, by number and mark, are left out before they are built.
        """
        names = {"contents": numbers_for_sql(self._contents), "again": numbers_for_sql(self._again)}
        rows: list[Any] = []
        if self._contents or self._again:
            rows = self._connection.execute(_AFFECTED, names).fetchall()
        wanted: dict[int, tuple[str, bytes]] = {}
        gone: list[IndexedPage] = []
        self._touched = []
        for no, source, key, content, entry, sunk, digest in sorted(rows):
            held = content if entry else None
            mark = digest if entry else None
            fresh = no in self._again or (held is not None and held in self._put)
            if not (fresh or held != sunk):
                continue
            self._touched.append((no, held))
            if taken.get(no, b"") == mark:
                continue
            if held is not None:
                wanted[no] = (source, key)
            else:
                gone.append(IndexedPage(no, source, key))
        return [*self._documents(wanted), *gone, *self._tombstones(taken)]

    def _tombstones(self, taken: Mapping[int, bytes | None]) -> Iterator[IndexedPage]:
        """Yield the former pages that the index still has, under negative numbers of their own."""
        for no, (source, key) in sorted(self._former.items()):
            self._touched.append((-no, None))
            if taken.get(-no, b"") is not None:
                yield IndexedPage(-no, source, key)

    def _documents(self, wanted: dict[int, tuple[str, bytes]]) -> list[IndexedPage]:
        found: list[IndexedPage] = []
        if not wanted:
            return found
        images = _images(self._connection, wanted)
        self.cut.clear()
        for row in self._connection.execute(_PAGES, (numbers_for_sql(wanted),)).fetchall():
            no, url, canonical, changed, mime, depth, content, digest, *texts, packed = row
            chunks = self._put.get(content)
            if chunks is None:
                chunks = self._chunked(packed, texts[5])
            if self._vectors is not None:
                self.cut[content] = (bytes(digest), index_chunk_digests(texts[0], chunks))
            found.append(
                IndexedPage(
                    no,
                    *wanted[no],
                    mark=digest,
                    url=url,
                    canonical_url=canonical,
                    content_group=url_content_group(canonical or url),
                    last_changed=changed,
                    published=texts[3],
                    author=texts[4],
                    mime_type=(mime or "").partition(";")[0].strip().lower(),
                    depth=depth,
                    title=texts[0],
                    description=texts[1],
                    language=texts[2],
                    chunks=tuple(chunks),
                    images=tuple(images[no]),
                )
            )
        return found if self._vectors is None else self._with_vectors(found)

    def _with_vectors(self, pages: list[IndexedPage]) -> list[IndexedPage]:
        """Return pages with those vectors of their chunks that the registry has by now."""
        assert self._vectors is not None, "the caller looked"
        digests = {page.no: index_chunk_digests(page.title, page.chunks) for page in pages}
        known = self._vectors.of_chunks(self._connection, set().union(*digests.values()))
        return [
            replace(page, vectors={one: known[one] for one in digests[page.no] if one in known})
            for page in pages
        ]

    @property
    def touched(self) -> set[int]:
        """The pages that the transaction touches, as ``pages`` found them."""
        return {no for no, _ in self._touched}

    def note(self, taken: Taken, *, alone: bool) -> bool:
        """Record the state of the index in the registry; the last step of the transaction.

        Pages that the index refused stay open: it still has other content. If this process is not
        ``alone``, pages that another worker is writing under a higher number stay open, too.
        Returns False if another worker has written since: its pages are no longer ``taken``.
        """
        done = [(held, no) for no, held in self._touched if no not in taken.dead]
        if not done:
            return True
        connection = self._connection
        connection.executemany(_HELD, done)
        if self._vectors is not None:
            some = [(taken.vectors.get(no, 0), no) for _, no in done]
            connection.executemany(_HELD_VECTORS, some)
        else:
            connection.execute(_HELD_NO_VECTORS, (numbers_for_sql(no for _, no in done),))
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for _, no in done:
            groups[taken.versions[no]].append(no)
        overtaken: list[int] = []
        for version, group in groups.items():
            names = {"numbers": numbers_for_sql(group), "number": version}
            if alone:
                connection.execute(_DONE, names)
                continue
            rows: Any = connection.execute(_OVERTAKEN, names).fetchall()
            overtaken += [no for (no,) in rows]
            connection.execute(_DONE_UNLESS_OPENED, names)
        connection.execute(_ALIVE, (numbers_for_sql(no for _, no in done),))
        for no in overtaken:
            del taken.marks[no], taken.versions[no]
        return not overtaken


def _images(connection: Connection, pages: Iterable[int]) -> dict[int, list[IndexedImage]]:
    """Return the images of some pages, by their numbers."""
    return {
        no: [IndexedImage(i.id, i.src, i.alt, i.context, i.width, i.height) for i in found]
        for no, found in images_to_index(connection, pages).items()
    }


_T = TypeVar("_T")

_TRIES: Final = 20  #: attempts at one transaction while other workers change its pages
_OPEN = "UPDATE state SET intent = :number WHERE no IN carray(:numbers) AND intent < :number"
_DEAD = """
INSERT INTO dead_letter (no, number, at, reason) VALUES (?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET number = excluded.number, at = excluded.at, reason = excluded.reason
"""
#: Pages with unfinished writes of a dead process, except those that the index refused.
_LEFT = """
SELECT s.no FROM state s JOIN record r USING (no)
 WHERE r.source = ? AND s.intent > 0 AND s.no NOT IN (SELECT no FROM dead_letter)
 ORDER BY s.no LIMIT ?
"""
_ENTRIES = """
SELECT no FROM record WHERE entry > 0 AND content IS NOT NULL AND no > ? ORDER BY no LIMIT ?
"""
_BATCH: Final = 500  #: pages in one transaction
_BATCH_WITH_VECTORS: Final = 100
_UNKNOWN: Final = -1  #: chunks with a vector of a document that a later claim wrote

Work = Callable[[Sink, int], _T]  #: work of a transaction, given its claim number
Refused = Callable[[int, str | None], bool]


class EmbeddedIndexing:
    """Writes registry and index in one transaction."""

    def __init__(self, sink: Callable[[Connection], AnalyzingSink]) -> None:
        self._sink = sink

    def analyzed(
        self, connection: Connection, text: IndexedText, former: int | None
    ) -> list[Chunk]:
        """Return the chunks of a text with their words; see ``ports.Indexing``."""
        return self._sink(connection).analyzed(text, former)

    def perform(
        self,
        connection: Connection,
        work: Work[_T],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> _T:
        """Do the work in one transaction; see ``ports.Indexing``."""
        if number is None and connection.dialect == "postgres":  # else sources block each other
            number = _drawn(connection)
        with transaction(connection):
            claim = draw_sequence_numbers(connection, "number") if number is None else number
            return work(self._sink(connection), claim)

    def rehearse(self, connection: Connection, work: Work[object], number: int) -> None:
        """Do some work and roll it back; see ``ports.Indexing``."""
        with suppress(_UndoneError), transaction(connection):
            work(self._sink(connection), number)
            raise _UndoneError

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """Do nothing: registry and index never differ."""
        return 0

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Do nothing: no process waits for this index."""

    def when_waiting(self, waits: Callable[[], None]) -> None:
        """Do nothing: no process waits for this index."""

    def seal(self, connection: Connection) -> None:
        """Do nothing: registry and index never differ."""

    def purge(self, before: int) -> None:
        """Do nothing: removed pages leave no tombstones."""

    def close(self) -> None:
        """Do nothing: the index uses the registry's connection."""


class _UndoneError(Exception):
    """Rolls back a rehearsal."""


class _ChangedError(Exception):
    """Rolls back a transaction that needs further index writes, or that another worker overtook."""


def _said(say: Callable[[str], None], stopping: Callable[[], bool], line: str) -> None:
    """Say a line about a wait, unless the run is stopping.

    Raises:
        SinkError: it is.
    """
    if stopping():
        raise SinkError(
            f"stopped while {line.partition(';')[0]}; nothing is lost: continue with "
            f"{program_argument('resume')}"
        )
    say(line)


def _drawn(connection: Connection) -> int:
    with transaction(connection):
        return draw_sequence_numbers(connection, "number")


class RemoteIndexing:
    """Writes to a remote index, and then commits the transaction that needs these writes.

    1. Rehearse the work to collect its index writes, and roll it back.
    2. Mark the pages as open in the registry, and write them to the index.
    3. Do the work again and commit it. If another worker changed the registry in between, start
       again with step 1.

    No transaction is open while the index is written.

    Work without a claim number may run at the same time as other workers that write the same pages.
    Each of its writes draws its own number, which also marks the page in the registry. A worker
    that finds a higher mark was overtaken, and writes again (ADR 30).
    """

    def __init__(
        self,
        index: PageIndex,
        chunked: Chunked,
        patience: Patience | None = None,
        vectors: PageVectors | None = None,
    ) -> None:
        """``vectors``: those of the documents; None: no chunk gets any."""
        self._index = index
        self.chunked = chunked
        self._patience = patience
        self.vectors = vectors
        self._at_once = _BATCH if vectors is None else _BATCH_WITH_VECTORS

    def analyzed(
        self, connection: Connection, text: IndexedText, former: int | None
    ) -> list[Chunk]:
        """Return the chunks of a text: the index makes their words itself."""
        return list(text.chunks)

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for the index only until ``stopping`` returns True."""
        if self._patience is not None:
            self._patience.say = partial(_said, self._patience.say, stopping)

    def when_waiting(self, waits: Callable[[], None]) -> None:
        """Call ``waits`` in a long wait for the index."""
        if self._patience is not None:
            self._patience.when_long = waits

    def perform(
        self,
        connection: Connection,
        work: Work[_T],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> _T:
        """Do the work after its index writes; see ``ports.Indexing``."""
        alone = number is not None
        claim = _drawn(connection) if number is None else number
        taken, sent = Taken(), False
        for _ in range(_TRIES):
            wanted: list[IndexedPage] = []
            try:
                with transaction(connection):
                    outgoing = OutgoingIndexWrites(connection, self.chunked, self.vectors)
                    result = work(outgoing, claim)
                    wanted = outgoing.pages(taken.marks)
                    if wanted or not outgoing.note(taken, alone=alone):
                        raise _ChangedError
            except _ChangedError:
                if wanted:
                    if sent and not alone:  # even if every page was overtaken
                        claim = _drawn(connection)
                    sent = True
                    self._write(
                        connection,
                        wanted,
                        cut=outgoing.cut,
                        number=claim,
                        now=now,
                        taken=taken,
                        refused=refused,
                        alone=alone,
                    )
            else:
                if unwanted := (taken.marks.keys() | taken.overtaken) - outgoing.touched:
                    self.rewrite(connection, unwanted, now=now, number=number)
                return result
        raise SinkError(
            "other workers change the registry faster than this process can write to the index:"
            " start fewer workers"
        )

    def rehearse(self, connection: Connection, work: Work[object], number: int) -> None:
        """Do some work and roll it back; see ``ports.Indexing``."""
        with suppress(_UndoneError), transaction(connection):
            outgoing = OutgoingIndexWrites(connection, self.chunked, self.vectors)
            work(outgoing, number)
            outgoing.pages({})
            raise _UndoneError

    def _write(
        self,
        connection: Connection,
        wanted: Sequence[IndexedPage],
        *,
        cut: Mapping[int, tuple[bytes, Sequence[bytes]]],
        number: int,
        now: int,
        taken: Taken,
        refused: Refused | None,
        alone: bool,
    ) -> None:
        """Mark pages as open, write them, and record the result of each in ``taken``."""
        with transaction(connection):
            names = {"number": number, "numbers": numbers_for_sql(page.no for page in wanted)}
            connection.execute(_OPEN, names)
            update_remote_chunk_rows(connection, cut)
        dead: list[tuple[int, int, int, str]] = []
        answers = self._index.write(wanted, number, now)
        if "" in answers:
            self._check_newest(connection)
        for page, why in zip(wanted, answers, strict=True):
            if why is not None and refused is not None and refused(page.no, why or None):
                if why:
                    dead.append((page.no, number, now, why[:1024]))
                continue  # the work will ask for another write
            if why == "" and not alone:  # write it again, under a higher number
                taken.overtaken.add(page.no)
                continue
            taken.marks[page.no], taken.versions[page.no] = page.mark, number
            taken.vectors[page.no] = index_vector_count(page) if why is None else _UNKNOWN
            if why:
                dead.append((page.no, number, now, why[:1024]))
                logger.error("the index does not take %s: %s", page.url or page.no, why)
        if dead:
            with transaction(connection):
                connection.executemany(_DEAD, dead)
        taken.dead.update(no for no, *_ in dead if no in taken.marks)

    def _check_newest(self, connection: Connection) -> None:
        """Check that this registry gave out the number under which a later claim has written.

        Raises:
            SinkError: it has not: it was restored from a backup.
        """
        epoch = int(known.read_index_facts(connection).get(known.EPOCH, "1"))
        last = last_sequence_number(connection, "number")
        if self._index.newest() > self._index.version(epoch, last):
            raise SinkError(f"the index {BEHIND}")

    def rewrite(
        self,
        connection: Connection,
        pages: Collection[int],
        *,
        now: int,
        number: int | None = None,
        refused: Refused | None = None,
    ) -> None:
        """Write pages from the registry, even if the index has them already.

        ``refused`` may remove numbers from ``pages`` meanwhile (see ``perform``).
        """

        def again(sink: Sink, _: int) -> None:
            assert isinstance(sink, OutgoingIndexWrites)
            sink.again(pages)

        self.perform(connection, again, now=now, number=number, refused=refused)

    def mend(self, connection: Connection, source: int, *, number: int | None, now: int) -> int:
        """Finish the writes of a dead process; return the number of pages."""
        count = 0
        names = (source, self._at_once)
        while some := [no for (no,) in connection.execute(_LEFT, names).fetchall()]:
            self.rewrite(connection, some, now=now, number=number)
            count += len(some)
        return count

    def write_all(self, connection: Connection, now: int, report: Callable[[int], None]) -> int:
        """Write all pages with an index entry; report the count per batch, and return the total."""
        after = count = 0
        while rows := connection.execute(_ENTRIES, (after, self._at_once)).fetchall():
            some = [no for (no,) in rows]
            self.rewrite(connection, some, now=now)
            after, count = some[-1], count + len(some)
            report(count)
        return count

    def seal(self, connection: Connection) -> None:
        """Record in both stores the claim number up to which they agree (``ports.Indexing``)."""
        number = last_sequence_number(connection, "number")
        epoch = int(known.read_index_facts(connection)[known.EPOCH])
        with transaction(connection):
            known.note_index_facts(connection, sealing=str(self._index.version(epoch, number)))
        sealed = self._index.sealed(number)
        with transaction(connection):
            known.note_index_facts(connection, sealed=str(sealed))

    def purge(self, before: int) -> None:
        """Delete old tombstones; see ``ports.PageIndex``."""
        self._index.purge(before)

    def close(self) -> None:
        """Close the connections to the index."""
        self._index.close()
