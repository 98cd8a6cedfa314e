"""Registries for tests: visits go through rules and Commit, as a run's do."""

from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

import apsw

from smartcrawl.extract.chunks import chunks
from smartcrawl.extract.hashes import body_hash, content_hash, text_hash
from smartcrawl.items import Address, Batch, Chunk, Document, HostTally, Link, Page, Section, Visit
from smartcrawl.registry import runs
from smartcrawl.registry.commit import Commit
from smartcrawl.registry.database import connect, migrate, transaction
from smartcrawl.registry.pack import pack_links, pack_numbers
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.runs import OpenRun, RunResult
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.reindex import decide
from smartcrawl.sinks.sqlite import EmbeddedIndex
from smartcrawl.urls import DEFAULT_TRACKERS, Trackers, digest, host_key, normalize

NOW = 1_750_000_000  #: 2025-06-15T15:06:40Z
LATER = NOW + 3_600
LONG = "Every word of this sentence is here to make the text long enough. " * 4  #: 200 and more
_WITH_BODY = (Outcome.CHANGED, Outcome.SAME, Outcome.NOT_ACCEPTABLE)


def document(text: str, title: str = "", **fields: object) -> Document:
    """A document of one section."""
    sections = (Section(0, "", text),) if text else ()
    return Document(title=title, language="en", charset="utf-8", sections=sections, **fields)


class Desk:
    """One source in a registry, crawled by hand: `open()`, `write(visit(url, …))`, `seal()`."""

    def __init__(self, path: Path | None = None, *, source: str = "docs") -> None:
        if path is None:
            self.connection = apsw.Connection(":memory:")
        else:
            self.connection = connect(path)
        migrate(self.connection, path or Path(":memory:"))
        self.source = source
        self.run: OpenRun | None = None

    def close(self) -> None:
        self.connection.close()

    def open(self, *, resume: bool = False, forced: bool = False, now: int = NOW) -> OpenRun:
        self.run = runs.open_run(
            self.connection, source=self.source, kind="site", now=now, resume=resume, forced=forced
        )
        return self.run

    def seal(self, *reasons: str, now: int = NOW) -> RunResult:
        run = self._run
        if runs.seal(self.connection, run.no, reasons, now):
            runs.settle(self.connection, run.no, run.source)
        return runs.result(self.connection, run.no)

    @property
    def _run(self) -> OpenRun:
        assert self.run is not None, "open() comes first"
        return self.run

    @property
    def reader(self) -> PageReader:
        return PageReader(self.connection, self._run.source)

    def address(
        self,
        url: str,
        depth: int = 0,
        *,
        origin: int | None = None,
        trackers: Trackers = DEFAULT_TRACKERS,
    ) -> Address:
        """An address with a number of its own."""
        with transaction(self.connection):
            no = runs.draw(self.connection, "address")
        identity = normalize(url, trackers)
        told = None if identity == url else identity
        return Address(no, digest(identity), url, told, host_key(url), depth, origin)

    def add(self, *urls: str, depth: int = 0, now: int = NOW) -> list[int]:
        """Register addresses as reached by this run."""
        addresses = [self.address(url, depth) for url in urls]
        self.write(addresses=addresses, now=now)
        return [address.no for address in addresses]

    def number(self, url: str) -> int:
        key = digest(normalize(url))
        found = self.reader.numbers((key,))
        return found[key]

    def page(self, url: str) -> Page:
        """The page as this run reads it, registered first when it is new."""
        key = digest(normalize(url))
        if key not in self.reader.numbers((key,)):
            self.add(url)
        return self.reader.pages([self.number(url)], self._run.last_complete)[0]

    def visit(
        self,
        url: str,
        text: str = "",
        *,
        outcome: Outcome = Outcome.CHANGED,
        status: int | None = 200,
        title: str = "",
        body: str | None = None,
        links: Iterable[Link] | None = None,
        targets: Iterable[int] = (),
        told: Mapping[str, object] | None = None,
        **fields: object,
    ) -> Visit:
        """A decided visit; `told` are further fields of the document, `fields` of the visit."""
        page = self.page(url)
        visit = Visit(page, outcome, http_status=status, url=page.url, requests=1)
        if outcome in _WITH_BODY:
            sent = (body if body is not None else f"<title>{title}</title>{text}").encode()
            visit.document = document(text, title, **(told or {}))
            visit.chunks = chunks(visit.document)
            visit.body_hash = body_hash(sent)
            visit.text_hash = text_hash(visit.document)
            visit.content_hash = content_hash(visit.document)
            visit.content_type = "text/html"
            visit.content_length = visit.wire_bytes = len(sent)
            visit.links = pack_links(())
        if links is not None:
            listed = list(links)
            visit.links, visit.links_count = pack_links(listed), len(listed)
            visit.targets = pack_numbers(targets)
        for name, value in fields.items():
            assert hasattr(visit, name)
            setattr(visit, name, value)
        visit.verdict = decide(page.standing, outcome, force=self._run.forced)
        return visit

    def commit(self, *, number: int | None = None) -> Commit:
        run = self._run
        return Commit(
            self.connection,
            EmbeddedIndex(self.connection),
            run=run.no,
            source=run.source,
            number=number or run.number,
            since=run.last_complete,
            forced=run.forced,
            configuration=1,
        )

    def write(
        self,
        *visits: Visit,
        addresses: Iterable[Address] = (),
        touched: Iterable[int] = (),
        reached: Mapping[int, int] | None = None,
        hosts: Mapping[str, HostTally] | None = None,
        now: int = NOW,
        number: int | None = None,
    ) -> int:
        """Write one batch; return how many of its visits were stale."""
        batch = Batch(
            addresses=list(addresses),
            touched=array("q", touched),
            visits=list(visits),
            reached=dict(reached or {}),
            hosts=dict(hosts or {}),
        )
        for visit in visits:
            batch.counts["visits"] += 1
            batch.counts["requests"] += visit.requests
        with transaction(self.connection):
            return self.commit(number=number).write(batch, now)

    def index(self, url: str, text: str = "", **told: object) -> int:
        """Register, visit and write one page with this text; return its number."""
        self.write(self.visit(url, text, **told))
        return self.number(url)

    def reach(self, *urls: str, depth: int = 0) -> None:
        """Links lead to known pages."""
        self.write(reached={self.number(url): depth for url in urls})

    def rows(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        return self.connection.execute(statement, values).fetchall()

    def value(self, statement: str, values: tuple[object, ...] = ()) -> object:
        return self.connection.execute(statement, values).get

    def originals(self) -> dict[str, str | None]:
        """The original of each page, None for those that are none's clone."""
        return dict(
            self.rows(
                "SELECT r.url, o.url FROM record r LEFT JOIN record o ON o.no = r.duplicate_of"
            )
        )

    def stored(self) -> dict[str, list[tuple[object, ...]]]:
        """Everything that visits write."""
        return {
            table: self.rows(f"SELECT * FROM {table} ORDER BY no")
            for table in ("record", "state", "links", "content", "chunk")
        }


def index_is_sound(connection: apsw.Connection) -> bool:
    """Whether the words of the index are those of its chunks; raises when they are not."""
    connection.execute(
        "INSERT INTO chunk_words (chunk_words, rank) VALUES ('integrity-check', 1)"
    ).fetchall()
    return True


def chunk(text: str, *headings: str) -> Chunk:
    return Chunk(headings, text)
