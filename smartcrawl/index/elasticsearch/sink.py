"""The index in an Elasticsearch: opened, written, searched and scanned, all synchronously."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple, Self
from uuid import uuid4

from smartcrawl.index.elasticsearch import library
from smartcrawl.index.elasticsearch.bulk import BulkWriter, Entry, Fate, Held, IndexScanner, Written
from smartcrawl.index.elasticsearch.documents import (
    ElasticsearchImage,
    PageDocument,
    index_document_key,
    index_timestamp,
    index_version,
)
from smartcrawl.index.elasticsearch.faults import (
    REBUILD,
    index_answer,
    index_patience,
    index_unreadable,
)
from smartcrawl.index.elasticsearch.finding import ElasticsearchFinder, ElasticsearchHit
from smartcrawl.index.elasticsearch.meta import (
    FOREIGN,
    IndexMetadata,
    IndexMetaDocument,
    Known,
    index_meta_mismatch,
)
from smartcrawl.index.elasticsearch.opening import (
    Index,
    IndexNames,
    Indices,
    check_elasticsearch,
    connect_elasticsearch,
)
from smartcrawl.index.ranking import QueryMeaning
from smartcrawl.index.searching import PLAIN, AnswerForm, FoundHits, find_index_hits
from smartcrawl.model.documents import EmbedderKey, IndexedPage
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.patience import Patience
from smartcrawl.model.program import program_name
from smartcrawl.registry.visibility import Readable

logger = logging.getLogger(__name__)


_GONE: Final = f"is not there any more; {REBUILD}"
_UNMADE: Final = "does not exist: no crawl has written to it so far"
_STARTING: Final = 30  #: seconds for the parts of an index that a server has to find first


class Opening(Enum):
    """Mode of opening an index."""

    KNOWN = auto()  #: the index that the registry wrote; any other is refused
    ANY = auto()  #: any index, to be compared with the registry (scrapy audit)
    #: A new index, or one that was begun in this mode. It is written from now on, and searched
    #: after ``publish`` (scrapy reindex --from-registry).
    ANEW = auto()
    #: The index that the registry wrote, for searches alone: rights to read it are enough, and
    #: nothing of it changes. What is refused for a crawl is refused here.
    SEARCHED = auto()
    LOOKED = auto()  #: any index, to be compared with the registry; nothing of it changes


#: Modes that change nothing, and create nothing.
READING: Final = frozenset({Opening.SEARCHED, Opening.LOOKED})


class Opened(NamedTuple):
    """The index that was found, or made."""

    identity: str
    embedder: EmbedderKey | None = None  #: whose vectors it has
    #: Name for scans and searches, where an alias lacks; None: there is no index.
    name: str | None = ""
    wrong: str | None = None  #: why it is not the one that the registry knows (LOOKED)
    former: bool = False  #: made by a former version: only searches use it


class ElasticsearchSink:
    """One index of pages, written by one registry. Made by ``open``; close it when done.

    It has no access to the registry: the caller gives claim numbers, and compares.
    """

    def __init__(
        self,
        client: library.Elasticsearch,
        target: ElasticsearchTarget,
        opened: Opened,
        *,
        known: Known,
        patience: Patience,
        now: Callable[[], float],
    ) -> None:
        names = IndexNames.of(target.prefix)
        server = (target.url, patience)
        self._client = client
        self._names = names
        self._name = target.url
        self._identity, self.embedder = opened.identity, opened.embedder
        self._opened = opened
        self._seen = opened.name or names.write  #: index that is scanned
        self._searched = opened.name or names.search
        self._epoch = known.epoch
        self.patience = patience
        self._meta = IndexMetaDocument(client, names.meta, *server)
        self._indices = Indices(client, names, *server, known.registry)
        self._scanner = IndexScanner(client, self._seen, *server)
        self._writer = BulkWriter(
            client, names.write, target.url, epoch=known.epoch, patience=patience, now=now
        )

    @classmethod
    def open(
        cls,
        target: ElasticsearchTarget,
        known: Known,
        *,
        patience: Patience,
        how: Opening = Opening.KNOWN,
        timeout: float = 60,
        now: Callable[[], float] = time.time,
        embedder: Callable[[], EmbedderKey | None] = lambda: None,
    ) -> Self:
        """Connect, and check the server and the index before the first page is written.

        Missing indices are created. ``patience`` is for later requests. Opening does not wait for
        the server, except up to 30 seconds for indices that it is creating or recovering.
        ``timeout`` is for one answer, in seconds. ``embedder`` returns the embedder whose vectors
        a new index has a field for.

        Raises:
            SinkError: the server does not answer, is no Elasticsearch 8 or 9, rights are missing,
                the index is not as this program makes it, or not the one that the registry knows.
                The message has the remedy.
        """
        client = connect_elasticsearch(target, timeout)
        try:
            opened = _searched(client, target, known) if how is Opening.SEARCHED else None
            if opened is None:
                if how not in READING:
                    check_elasticsearch(client, target)
                soon = patience.at_most(_STARTING)
                names = IndexNames.of(target.prefix)
                meta = IndexMetaDocument(client, names.meta, target.url, soon)
                indices = Indices(client, names, target.url, soon, known.registry)
                if how is Opening.ANEW:
                    opened = _anew(meta, indices, known, embedder())
                elif how in READING:
                    opened = _looked(meta, indices, target, known, how)
                else:
                    opened = _checked(meta, indices, target, known, how, embedder=embedder)
        except BaseException:
            client.close()
            raise
        return cls(client, target, opened, known=known, patience=patience, now=now)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def identity(self) -> str:
        """Return the identity of the index, which the registry has to record."""
        return self._identity

    def highest(self) -> int:
        """Return the version (documents.py) of the last seal, 0 before the first."""
        memory = self._meta.read()
        if memory is None or memory.identity != self._identity:
            raise SinkError(f"{self._name}: {self._names.meta} was deleted or replaced; {REBUILD}")
        return memory.sealed

    def mismatch(self, known: Known) -> str | None:
        """Return why it is not the index that a registry knows, with the remedy; None if it is."""
        if self._opened.wrong is not None:
            return self._opened.wrong
        memory = self._meta.read()
        if memory is None or memory.identity != self._identity:
            raise SinkError(f"{self._name}: {self._names.meta} was deleted or replaced; {REBUILD}")
        why = index_meta_mismatch(memory, known)
        return None if why is None else f"the index {self._names.template} at {self._name} {why}"

    def openings(self) -> int:
        """Return how often the index was opened to be written, by its own count."""
        memory = self._meta.read()
        return 0 if memory is None else memory.openings

    def begin(self, openings: int) -> None:
        """Record that a process is about to write; the registry has noted the number before.

        A registry with a lower number was restored from a backup (``index_meta_mismatch``).
        """
        self._meta.change(self._identity, openings=openings)

    def renew(self) -> str:
        """Give the index another identity, which no other registry knows, and return it."""
        self._identity = self._meta.change(self._identity, identity=uuid4().hex).identity
        return self._identity

    def sealed(self, number: int) -> int:
        """Record that a run was sealed under a claim number; return the highest version so far.

        The registry records ``index_version(epoch, number)`` as *sealing* before it calls this, and
        as *sealed* afterwards (``Known``). So a crash in between is no mismatch.
        """
        return self._meta.change(self._identity, sealed=index_version(self._epoch, number)).sealed

    def write(self, entries: Iterable[Entry]) -> list[Written]:
        """Write entries; see ``written``."""
        return list(self.written(entries))

    def written(self, entries: Iterable[Entry]) -> Iterator[Written]:
        """Write entries in their order; yield their results, in constant memory.

        Raises:
            SinkError: the index took no write for too long (``patience``), or forbids writes.
                Entries without a result may have been written: write them again under their
                numbers.
        """
        return self._writer.written(entries)

    def newest(self) -> int:
        """Return the highest version of documents that refused a write; 0: none did."""
        return self._writer.newest

    def refresh(self) -> None:
        """Let searches and scans see all writes so far."""
        if self._opened.name is None:
            return
        request = partial(self._client.indices.refresh, index=self._seen)
        index_answer(self._name, request, self.patience)

    def purge_tombstones(self, before: int) -> int:
        """Delete the tombstones that were written before a time, in Unix seconds.

        Each is deleted by its key and version, so that a page that came back since stays. Returns
        the number of deleted tombstones.
        """
        old: list[dict[str, Any]] = [
            {"term": {"deleted": True}},
            {"range": {"deletedAt": {"lt": index_timestamp(before)}}},
        ]
        with closing(self._scanner.held(old)) as found:
            return self._writer.purge((one.key, one.version) for one in found)

    def publish(self) -> tuple[str, list[str]]:
        """Let searches use the index that was built ``ANEW``, and delete the registry's old ones.

        Returns the new identity of the index, and the names of the indices that others made.
        """
        index, left = self._indices.publish()
        identity = uuid4().hex
        self._meta.change(self._identity, identity=identity, index=index.uuid, building=None)
        self._identity = identity
        return identity, left

    def search(
        self,
        query: str,
        *,
        sources: Sequence[str] = (),
        limit: int = 10,
        offset: int = 0,
        marks: tuple[str, str] = ("[", "]"),
        language: str = "",
    ) -> list[ElasticsearchHit]:
        """Return the pages that answer ``query``, best first; see ``answer``."""
        within: dict[str, Any] = {"limit": limit, "offset": offset}
        return self.answer(query, sources=sources, **within, marks=marks, language=language).hits

    def answer(
        self,
        query: str,
        *,
        sources: Sequence[str] = (),
        limit: int = 10,
        offset: int = 0,
        marks: tuple[str, str] = ("[", "]"),
        language: str = "",
        meaning: QueryMeaning | None = None,
        readable: Readable = None,
        form: AnswerForm = PLAIN,
    ) -> FoundHits[ElasticsearchHit]:
        """Return the pages that answer ``query``, best first, and the query that they answer.

        ``sources`` empty means all, and
        ``language`` any. The first ``offset`` pages are left out. ``marks`` are put around the
        words found. The first 32 words of a query count, fewer if the index has more than 40
        languages. A server that does not answer is not waited for. ``meaning`` finds the vector of
        a query, where meaning counts, too; its errors are raised. ``readable``: the sources of
        which anything counts; None: all.

        Raises:
            SinkError: the server does not answer.
        """
        return find_index_hits(
            query,
            partial(
                ElasticsearchFinder, self._search, readable=readable, former=self._opened.former
            ),
            sources=sources,
            limit=limit,
            offset=offset,
            marks=marks,
            language=language,
            meaning=meaning,
            readable=readable,
            form=form,
        )

    def _search(self, **asked: Any) -> Any:
        request = partial(self._client.search, index=self._searched, **asked)
        return index_answer(self._name, request).body

    def scan(
        self, source: str | None = None, *, beside: Sequence[str] | None = None
    ) -> Generator[Held]:
        """Yield all documents, tombstones too, in the order of their keys, in constant memory.

        ``source``: only those of one source; ``beside``: only those of none of these sources.
        Writes since the last ``refresh`` may be missing. Where there is no index, it has none.
        """
        if self._opened.name is None:
            return
        filters: list[dict[str, Any]] = []
        if source is not None:
            filters.append({"term": {"source": source}})
        if beside is not None:
            filters.append({"bool": {"must_not": {"terms": {"source": list(beside)}}}})
        yield from self._scanner.held(filters)


def _checked(
    meta: IndexMetaDocument,
    indices: Indices,
    target: ElasticsearchTarget,
    known: Known,
    how: Opening,
    *,
    embedder: Callable[[], EmbedderKey | None],
) -> Opened:
    """Check that the index is the known one, or create it.

    A deleted index is not created again but in mode ``ANY``, where it gets another identity: it
    would be empty, and the run would take it for the one that has every page.
    """
    where, is_known = _where(target), how is not Opening.ANY
    memory = _memory(meta, indices, target)
    if memory is None and known.identity is not None and is_known:
        raise SinkError(f"{where} {_GONE}")
    memory = meta.found() if memory is None else memory
    index = indices.written()
    wrong = _wrong(memory, index, indices, target, known) if is_known else _unfinished(memory)
    if wrong is not None:
        raise SinkError(f"{where} {wrong}")
    if index is None:
        index = indices.of_uuid(memory.index)  # the alias was taken away
        if index is not None:
            indices.write_to(index)
    if memory.index is not None and (index is None or index.uuid != memory.index):
        memory = meta.change(memory.identity, identity=uuid4().hex)
    if index is None:
        indices.make(embedder(), searched=True)
        index = indices.written()
    indices.check()
    assert index is not None, "it was checked"
    if is_known and known.identity is None and not indices.is_empty(index.name):
        raise SinkError(f"{where} {FOREIGN}")
    if is_known:
        indices.adopt(index)
    indices.show()
    return Opened(meta.change(memory.identity, index=index.uuid).identity, index.embedder)


def _looked(
    meta: IndexMetaDocument,
    indices: Indices,
    target: ElasticsearchTarget,
    known: Known,
    how: Opening,
) -> Opened:
    """Check what a crawl checks, and change nothing.

    For a search, an index that is not the known one is refused; for a comparison, it is the answer.
    """
    where, is_searched = _where(target), how is Opening.SEARCHED
    memory = _memory(meta, indices, target)
    if memory is None:
        if is_searched:
            raise SinkError(f"{where} {_UNMADE if known.identity is None else _GONE}")
        return Opened("", None, None, f"{where} {_GONE}")
    index = indices.written()
    wrong = _wrong(memory, index, indices, target, known)
    unfinished = _unfinished(memory)
    index = indices.of_uuid(memory.index) if index is None else index
    if unfinished is not None or (is_searched and (wrong is not None or index is None)):
        raise SinkError(f"{where} {unfinished or wrong or _UNMADE}")
    indices.check()
    is_new = is_searched and known.identity is None
    if is_new and index is not None and not indices.is_empty(index.name):
        raise SinkError(f"{where} {FOREIGN}")
    if wrong is not None:
        wrong = f"{where} {wrong}"
    if index is None:
        return Opened(memory.identity, None, None, wrong)
    is_same = index.uuid == memory.index
    return Opened(memory.identity if is_same else "", index.embedder, index.name, wrong)


def _memory(
    meta: IndexMetaDocument, indices: Indices, target: ElasticsearchTarget
) -> IndexMetadata | None:
    """Return the metadata of the index; None: neither they nor an index are there.

    Raises:
        SinkError: there is an index without metadata.
    """
    memory = meta.read()
    if memory is None and indices.exist():
        memory = meta.read()  # another process may just have made both, the memory first
        if memory is None:
            raise SinkError(
                f"{_where(target)} has no {target.prefix}-meta, which names its registry: name"
                f" another ELASTICSEARCH_INDEX_PREFIX, or {REBUILD}"
            )
    return memory


def _wrong(
    memory: IndexMetadata,
    index: Index | None,
    indices: Indices,
    target: ElasticsearchTarget,
    known: Known,
) -> str | None:
    """Return why the index is not the one that the registry knows, with the remedy."""
    wrong = index_meta_mismatch(memory, known) or _unfinished(memory)
    if wrong is not None or memory.index is None:
        return wrong
    if index is None:
        there = indices.of_uuid(memory.index)
        if there is not None:
            return (
                f"is there as {there.name}, but the alias {IndexNames.of(target.prefix).write} that"
                f" is written is missing; {program_name()} audit --repair sets it again"
            )
    if index is None or index.uuid != memory.index:
        return f"was deleted, or recreated by another program; {REBUILD}"
    return None


def _unfinished(memory: IndexMetadata) -> str | None:
    """Return why an index cannot be compared: it is being built anew."""
    if memory.building is None:
        return None
    return f"was being rebuilt, but the rebuild did not finish; {REBUILD}"


def _searched(
    client: library.Elasticsearch, target: ElasticsearchTarget, known: Known
) -> Opened | None:
    """Return the known index; None if it has to be checked.

    Two requests, which change nothing. While an index is built anew, searches use the former one.
    """
    names, at_once = IndexNames.of(target.prefix), index_patience(0, target.url)
    try:
        memory = IndexMetaDocument(client, names.meta, target.url, at_once).read()
        index = Indices(client, names, target.url, at_once).searched()
    except SinkError as error:
        if isinstance(error.__cause__, library.TransportError):
            raise  # it does not answer: to ask again would wait as long again
        if isinstance(error.__cause__, library.ApiError) and error.__cause__.meta.status == 403:
            raise index_unreadable(target.url, error.__cause__, target.prefix) from error
        return None  # the checks say what is wrong
    if memory is None or known.identity is None or index_meta_mismatch(memory, known):
        return None
    if index is None or index.uuid != memory.index:
        return None
    return Opened(memory.identity, index.embedder, former=index.former)


def _anew(
    meta: IndexMetaDocument, indices: Indices, known: Known, embedder: EmbedderKey | None
) -> Opened:
    """Begin a new index, or continue one; it has its former identity until it is published.

    One that another registry or another embedder began is not continued.
    """
    memory, index = meta.found(), indices.written()
    if memory.identity == known.identity:
        for one in indices.exist():  # those of a former version, or taken over from another one
            if one.uuid in (memory.index, memory.building):
                indices.adopt(one)
        index = indices.written()
    is_begun = index is not None and memory.building == index.uuid
    is_own = index is not None and index.registry == known.registry
    if index is None or not (is_begun and is_own) or index.embedder != embedder:
        indices.make(embedder, searched=False)
        index = indices.written()
    indices.check()
    assert index is not None, "it was checked"
    return Opened(meta.change(memory.identity, building=index.uuid).identity, index.embedder)


def _where(target: ElasticsearchTarget) -> str:
    return f"the index {IndexNames.of(target.prefix).template} at {target.url}"


class ElasticsearchPages:
    """Writes pages, one document each, and tombstones in their place."""

    def __init__(self, sink: ElasticsearchSink) -> None:
        self.sink = sink
        self._written = False  #: whether searches miss some writes

    def write(self, pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        """Write pages under a claim number; see ``ports.PageIndex``."""
        found: list[str | None] = []
        self._written = True
        for written in self.sink.written(_entry(page, number) for page in pages):
            match written.fate:
                case Fate.DONE:
                    found.append(None)
                case Fate.STALE:
                    found.append("")
                case Fate.REJECTED:
                    found.append(written.reason or "it is refused")
        return found

    def version(self, epoch: int, number: int) -> int:
        """Return the version of a write."""
        return index_version(epoch, number)

    def newest(self) -> int:
        """Return the highest version of documents that refused a write; 0: none did."""
        return self.sink.newest()

    def sealed(self, number: int) -> int:
        """Make a sealed run searchable, and record it; return the highest version so far."""
        self._show()
        return self.sink.sealed(number)

    def purge(self, before: int) -> None:
        """Delete the tombstones that were written before a time; see ``ports.PageIndex``."""
        try:
            gone = self.sink.purge_tombstones(before)
        except SinkError as error:
            logger.warning("old tombstones stay in the index until the next run: %s", error)
            return
        if gone:
            logger.info("%d old tombstone%s deleted from the index", gone, "s" if gone > 1 else "")

    def close(self) -> None:
        """Let searches see what was written, and close the connections."""
        try:
            self._show()
        except SinkError as error:
            logger.warning("searches find the last writes a little later: %s", error)
        self.sink.close()

    def _show(self) -> None:
        if self._written:
            self.sink.refresh()
            self._written = False


def _entry(page: IndexedPage, number: int) -> Entry:
    if page.mark is None:
        return Entry(index_document_key(page.source, page.id), number, None)
    document = PageDocument(
        source=page.source,
        url_hash=page.id,
        url=page.url,
        content_hash=page.mark,
        title=page.title,
        description=page.description,
        language=page.language,
        canonical_url=page.canonical_url,
        content_group=page.content_group,
        last_changed=page.last_changed,
        published=page.published,
        author=page.author,
        mime_type=page.mime_type,
        depth=page.depth,
        chunks=page.chunks,
        images=[
            ElasticsearchImage(i.id, i.src, i.alt, i.context, i.width, i.height)
            for i in page.images
        ],
        vectors=page.vectors,
    )
    return Entry(document.key, number, document.as_json())
