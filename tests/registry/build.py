"""Registries for tests: visits go through rules and Commit, as a run's do."""

from array import array
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import apsw

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.hashes import body_hash, document_content_hash, text_hash
from smartcrawl.index.analysis.stems import chunk_words
from smartcrawl.index.analysis.vectors import words_vector
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.index.embedded.choice import embedded_index
from smartcrawl.index.embedded.sqlite import stored_name_words
from smartcrawl.model.batches import Address, Batch, HostTally
from smartcrawl.model.documents import Chunk, Document, Link, Section
from smartcrawl.model.pages import Page, Traffic, Visit
from smartcrawl.model.urls import (
    DEFAULT_TRACKERS,
    Trackers,
    normalize_url,
    url_digest,
    url_host_key,
)
from smartcrawl.registry.commit.batch import RegistryCommit
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.database.sqlite import (
    SqliteConnection,
    SqliteDatabase,
    connect_sqlite,
    migrate,
)
from smartcrawl.registry.index_protocols import Indexing, Sink
from smartcrawl.registry.pack import pack_stored_links, pack_stored_numbers
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.removal.candidates import EndingRunRow, RemovalChoices
from smartcrawl.registry.removal.sweep import RemovedRecordRow
from smartcrawl.registry.runs import runs
from smartcrawl.registry.runs.run_results import RunResult, stored_run_result
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.http import RedirectLimit
from smartcrawl.rules.model import Outcome, RunState
from smartcrawl.rules.reindex import decide
from smartcrawl.rules.schedule import Schedule
from smartcrawl.sources.private_files import private_file, private_folder
from tests.registry.counted import counts_are_true

NOW = 1_750_000_000  #: 2025-06-15T15:06:40Z
LATER = NOW + 3_600
LONG = "Every word of this sentence is here to make the text long enough. " * 4  #: 200 and more
_WITH_BODY = (Outcome.CHANGED, Outcome.SAME, Outcome.NOT_ACCEPTABLE, Outcome.ALIAS)


def document(text: str, title: str = "", **fields: object) -> Document:
    """A document of one section, unless `fields` have others."""
    values = {"language": "en", "sections": (Section(0, "", text),) if text else ()} | fields
    return Document(title=title, charset="utf-8", **values)


def closing(**choices: object) -> RemovalChoices:
    """The end of a run with the default choices; those of Policy are given by name, too."""
    policy = {f.name: choices.pop(f.name) for f in fields(Policy) if f.name in choices}
    defaults = {
        "policy": Policy(**policy),
        "max_ratio": 0.1,
        "min_count": 10,
        "remove_excluded": False,
        "undo_ttl": 2_592_000,
        "in_scope": lambda url, depth: True,
        "snapshot_retention": 2_592_000,
        "gone_ttl": 0,
        "pace": 0,
        "redirects": RedirectLimit(),
    }
    return RemovalChoices(**(defaults | choices))


def at_once(step: Coroutine[Any, Any, Any]) -> Any:
    """The value of a coroutine that has nothing to wait for."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


@cache
def empty_registry() -> bytes:
    """The file of a registry without rows: to make one takes eight times longer than to copy it.

    The schema has tests of its own (test_registry_database.py).
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "registry.db"
        SqliteDatabase(path).open().close()
        return path.read_bytes()


@cache
def empty_registry_in_memory() -> SqliteConnection:
    """A registry without rows, to copy."""
    connection = SqliteConnection(":memory:")
    migrate(connection, Path(":memory:"))
    return connection


def begin_registry(place: Path | str) -> None:
    """Write a registry without rows, where none is; a database in a server has its tables."""
    if isinstance(place, Path) and not place.exists():
        private_folder(place.parent)
        private_file(place)
        place.write_bytes(empty_registry())


def in_sqlite(path: Path | None) -> Connection:
    """Open a registry in a file, or in memory."""
    if path is not None:
        begin_registry(path)
        connection = connect_sqlite(path)
        migrate(connection, path)
        return connection
    connection = SqliteConnection(":memory:")
    with connection.backup("main", empty_registry_in_memory(), "main") as copying:
        copying.step()
    return connection


def with_iso_times(rows: Iterable[Sequence[object]]) -> list[tuple[object, ...]]:
    """Return rows of a view with its times as SQLite has them: text in ISO 8601."""
    return [
        tuple(
            value.astimezone(UTC).isoformat().replace("+00:00", "Z")
            if isinstance(value, datetime)
            else value
            for value in row
        )
        for row in rows
    ]


def reports(path: Path, trackers: Trackers = DEFAULT_TRACKERS) -> Connection:
    """Open the registry of a file for reading, with every view."""
    if Desk.reports is not None:
        return Desk.reports(path, trackers)
    return SqliteDatabase(path).reports(trackers)


class Elsewhere:
    """What every index that a test keeps elsewhere says of versions, and of its end."""

    def version(self, epoch: int, number: int) -> int:
        return number

    def newest(self) -> int:
        return 0

    def sealed(self, number: int) -> int:
        return number

    def purge(self, before: int) -> None:
        pass

    def close(self) -> None:
        pass


class Desk:
    """One source in a registry, crawled by hand: `open()`, `write(visit(url, …))`, `seal()`."""

    #: Opens a connection to the registry of a file, where tests want another database.
    connected: ClassVar[Callable[[Path | None], Connection] | None] = None
    #: Returns the database of a file, likewise.
    database: ClassVar[Callable[[Path | None], Database] | None] = None
    #: Opens it for reading, likewise.
    reports: ClassVar[Callable[[Path, Trackers], Connection] | None] = None

    def __init__(self, path: Path | None = None, *, source: str = "docs") -> None:
        self.connection = (self.connected or in_sqlite)(path)
        self.source = source
        self.indexing: Indexing = EMBEDDED
        self.run: OpenRun | None = None
        self.closing = closing()  #: replace it to play another source or other choices
        self.trackers = DEFAULT_TRACKERS
        self.removed: list[RemovedRecordRow] = []  #: by the last sweep

    def close(self) -> None:
        self.connection.close()

    def open(self, *, resume: bool = False, forced: bool = False, now: int = NOW) -> OpenRun:
        last = runs.last_run_row(self.connection, self.source)
        if last is not None and last[2] in (RunState.SEALED, RunState.SETTLED):
            self.end(EndingRunRow(last[0], last[1], now, self.closing))
        request = runs.RunRequest(self.source, "site", resume=resume, forced=forced)
        self.run = runs.open_run_row(self.connection, request, now)
        return self.run

    def ending(self, now: int = NOW) -> EndingRunRow:
        return EndingRunRow(self._run.no, self._run.source, now, self.closing)

    def verify(
        self, answers: Mapping[str, int | None] | None = None, *, now: int = NOW, status: int = 200
    ) -> list[str]:
        """Propose what this run did not reach and look at it; return what was looked at.

        `answers` are the statuses by URL, None where robots.txt forbids the look; `status` is
        that of all others.
        """
        runs.propose_unreached_rows(self.connection, self.ending(now))
        numbers = self.readers.progress.to_verify(self._run.no)
        pages = self.readers.pages.pages(numbers, self._run.last_complete) if numbers else []
        probes = []
        for page in pages:
            page.plan.verify = True
            answered = (answers or {}).get(page.url, status)
            outcome = Outcome.CHANGED if answered is not None else Outcome.EXCLUDED
            probes.append(Visit(page, outcome, http_status=answered, url=page.url))
        self.write(probes=probes, now=now)
        return [page.url for page in pages]

    def seal(self, *reasons: str, now: int = NOW, look: bool = True) -> RunResult:
        """Verify (unless `look` is false or there are reasons), seal, settle, sweep, report."""
        run = self._run
        if look and not reasons:
            self.verify(now=now)
        runs.seal_run_row(self.connection, run.no, reasons, now)
        assert counts_are_true(self.connection, run.no)
        self.end(self.ending(now))
        assert counts_are_true(self.connection, run.no)
        return stored_run_result(self.connection, run.no)

    def end(self, ending: EndingRunRow) -> None:
        self.removed.clear()
        runs.settle_sealed_row(self.connection, ending, self.indexing)
        runs.sweep_candidate_rows(self.connection, self.indexing, ending, self.removed.extend)

    @property
    def _run(self) -> OpenRun:
        assert self.run is not None, "open() comes first"
        return self.run

    @property
    def readers(self) -> RegistryReaders:
        return RegistryReaders(self.connection, self._run.source)

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
            no = runs.draw_sequence_numbers(self.connection, "address")
        identity = normalize_url(url, trackers)
        requested = None if identity == url else identity
        return Address(no, url_digest(identity), url, requested, url_host_key(url), depth, origin)

    def add(self, *urls: str, depth: int = 0, now: int = NOW) -> list[int]:
        """Register addresses as reached by this run."""
        addresses = [self.address(url, depth) for url in urls]
        self.write(addresses=addresses, now=now)
        return [address.no for address in addresses]

    def number(self, url: str) -> int:
        key = url_digest(normalize_url(url))
        found = self.readers.pages.numbers((key,))
        return found[key]

    def page(self, url: str) -> Page:
        """The page as this run reads it, registered first when it is new."""
        key = url_digest(normalize_url(url))
        if key not in self.readers.pages.numbers((key,)):
            self.add(url)
        page = self.readers.pages.pages([self.number(url)], self._run.last_complete)[0]
        page.plan.wanted = 1
        return page

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
        document_fields: Mapping[str, object] | None = None,
        **fields: object,
    ) -> Visit:
        """A decided visit; `document_fields` are of its document, `fields` of the visit."""
        page = self.page(url)
        visit = Visit(page, outcome, http_status=status, url=page.url, traffic=Traffic(requests=1))
        if outcome in _WITH_BODY:
            sent = (body if body is not None else f"<title>{title}</title>{text}").encode()
            visit.parsed.document = document(text, title, **(document_fields or {}))
            visit.parsed.chunks = document_chunks(visit.parsed.document)
            visit.parsed.body_hash = body_hash(sent)
            visit.parsed.text_hash = text_hash(visit.parsed.document)
            visit.parsed.content_hash = document_content_hash(visit.parsed.document)
            visit.answer.content_type = "text/html"
            visit.answer.content_length = visit.traffic.wire_bytes = len(sent)
            visit.parsed.links = pack_stored_links(())
        if links is not None:
            listed = list(links)
            visit.parsed.links, visit.parsed.links_count = pack_stored_links(listed), len(listed)
            visit.parsed.targets = pack_stored_numbers(targets)
        for name, value in fields.items():
            parts = (visit, visit.traffic, visit.answer, visit.parsed)
            [part] = [part for part in parts if hasattr(part, name)]
            setattr(part, name, value)
        alias = page.record.canonical_no is not None
        visit.verdict = decide(page.state.standing, outcome, force=self._run.forced, alias=alias)
        return visit

    def commit(self, *, number: int | None = None, sink: Sink | None = None) -> RegistryCommit:
        run = self._run
        return RegistryCommit(
            self.connection,
            sink or embedded_index(self.connection),
            run=run.no,
            source=run.source,
            number=number or run.number,
            since=run.last_complete,
            forced=run.forced,
            judgement=Judgement(self.closing.policy, Schedule(jitter=0), trackers=self.trackers),
        )

    def write(
        self,
        *visits: Visit,
        addresses: Iterable[Address] = (),
        touched: Iterable[int] = (),
        probes: Iterable[Visit] = (),
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
            probes=list(probes),
            reached=dict(reached or {}),
            hosts=dict(hosts or {}),
        )
        for visit in visits:
            batch.counts["visits"] += 1
            batch.counts["requests"] += visit.traffic.requests
        stale = self.committed(batch, number, now)
        assert counts_are_true(self.connection, self._run.no)
        return stale

    def committed(self, batch: Batch, number: int | None, now: int) -> int:
        """Write a batch in one transaction; return how many of its visits were stale."""
        with transaction(self.connection):
            return self.commit(number=number).write(batch, now)

    def index(self, url: str, text: str = "", **fields: object) -> int:
        """Register, visit and write one page with this text; return its number."""
        self.write(self.visit(url, text, **fields))
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


def index_is_sound(connection: Connection) -> bool:
    """Whether the words of the index are those of its chunks."""
    rows = connection.execute(
        "SELECT no, title, headings, text, pictures, language, places, position FROM chunk"
        " ORDER BY no"
    ).fetchall()
    names = [stored_name_words(*row[1:4], *row[6:]) for row in rows]
    if connection.dialect == "postgres":
        right = "SELECT words = ?::tsvector FROM chunk WHERE no = ?"
        return all(
            connection.execute(right, (words_vector(*row[1:6], names=name), row[0])).get
            for row, name in zip(rows, names, strict=True)
        )
    connection.execute(
        "INSERT INTO chunk_words (chunk_words, rank) VALUES ('integrity-check', 1)"
    ).fetchall()
    anew = apsw.Connection(":memory:")
    anew.execute(
        "CREATE VIRTUAL TABLE chunk_words USING fts5 (title, headings, text, pictures,"
        " content = '', contentless_delete = 1, tokenize = 'ascii')"
    )
    anew.executemany(
        "INSERT INTO chunk_words (rowid, title, headings, text, pictures) VALUES (?, ?, ?, ?, ?)",
        [
            (row[0], *chunk_words(*row[1:6], names=name))
            for row, name in zip(rows, names, strict=True)
        ],
    )
    held = []
    for one in (connection, anew):
        one.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_places"
            " USING fts5vocab (main, chunk_words, instance)"
        )
        held.append(one.execute("SELECT term, doc, col, offset FROM temp.word_places").fetchall())
        one.execute("DROP TABLE temp.word_places")
    return held[0] == held[1]


def chunk(text: str, *headings: str) -> Chunk:
    return Chunk(headings, text)
