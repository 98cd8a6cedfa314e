"""The versions of a page, and the difference of two of them, out of their snapshots (ADR 175)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

from smartcrawl.extract.documents import DocumentLimits, DocumentReader
from smartcrawl.extract.formats import FormatError
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import RegistryError, SnapshotError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, PageAnswer, ParsedBody, Visit
from smartcrawl.model.text_lines import document_text_lines
from smartcrawl.model.times import iso_time
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import unpack_stored_document
from smartcrawl.reports.changes import VERSIONS, modification_data
from smartcrawl.rules.changes import TextLine, compare_texts
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.text_diff import DiffHunk, TextDiff, diff_texts
from smartcrawl.sources.base import Source, SourceExtractionConfig

MOST_BODY: Final = 8 * 1024 * 1024  #: bytes of a body that is compared
_SMALL: Final = 256 * 1024  #: bytes of a page that is read in this process
_PAGE: Final = """
SELECT r.url, h.name, t.title, r.first_run, r.body_hash, r.content_type, t.document,
       coalesce(r.first_indexed, r.first_seen), hex(r.id), o.name
  FROM record r JOIN host h ON h.no = r.host JOIN source o ON o.no = r.source
       LEFT JOIN content t ON t.no = r.content
 WHERE r.no = ?
"""
#: The first change behind a run replaced the version of that run.
_REPLACED: Final = "SELECT run, body FROM change WHERE record = ? AND run > ? ORDER BY no LIMIT 1"
_LAST: Final = "SELECT run, at FROM change WHERE record = ? AND run <= ? ORDER BY no DESC LIMIT 1"
_LATEST: Final = "SELECT max(run) FROM change WHERE record = ?"
#: An index has the bodies of each store.
_SNAPSHOTS: Final = """
SELECT path, content_type FROM snapshot
 WHERE store IN (SELECT no FROM store) AND body_hash = ? ORDER BY no DESC
"""
_LAST_RUN: Final = "SELECT max(no) FROM run"


class NoVersionError(RegistryError):
    """A version of a page cannot be shown: it never was, or its text is not kept."""


class PageVersion(NamedTuple):
    """A version of a page: the one that it had at the end of a run."""

    run: int  #: run.no that stored it
    at: int  #: Unix seconds
    body: bytes | None  #: hash of a body that has its text; None: not known
    replaced: int | None  #: run.no that replaced it; None: it is the present one


class _Stored(NamedTuple):
    """A page as the registry has it."""

    url: str
    host: str
    title: str | None
    first_run: int
    body: bytes | None
    content_type: str | None
    document: bytes | None
    first_at: int
    url_hash: str
    source: str


def reported_versions(connection: Connection, number: int) -> list[dict[str, Any]]:
    """Return when a page (record.no) changed, latest first, and how much each time.

    ``hasText``: whether the text that the change replaced is kept, so that a difference shows it.
    """
    versions = []
    rows: list[Any] = connection.execute(VERSIONS, (number,)).fetchall()
    for run, at, body, key, *columns in rows:
        kept = None if body is None else connection.execute(_SNAPSHOTS, (bytes(body),)).fetchone()
        versions.append(
            modification_data(run, at, columns)
            | {"urlHash": key.lower(), "hasText": kept is not None}
        )
    return versions


class VersionDiffs:
    """Compares versions of pages; ``declared``: the sources of today, by name."""

    def __init__(
        self, connection: Connection, options: Options, declared: Mapping[str, Source]
    ) -> None:
        self._connection = connection
        self._options = options
        self._declared = declared

    def diff(
        self, number: int, before: int | None = None, after: int | None = None
    ) -> dict[str, Any]:
        """Return the difference of two versions of a page.

        ``number``: record.no; ``before``, ``after``: runs at whose end it had them. Without
        ``before`` it is the version that the last change replaced, without ``after`` the present
        one.

        Raises:
            NoVersionError: there is no such version, or its text is not kept, with the remedy.
            SnapshotError: its snapshot cannot be read.
        """
        page = _Stored(*self._connection.execute(_PAGE, (number,)).fetchone())
        latest: int | None = self._connection.execute(_LATEST, (number,)).get
        last = int(self._connection.execute(_LAST_RUN).get or 0)
        for run in (before, after):
            if run is not None:
                _check_run(page, run, last)
        if before is None:
            before = page.first_run if latest is None else latest - 1
        old = self._version(number, page, before)
        new = self._version(number, page, last if after is None else after)
        texts = self._texts(page, old, new)
        difference = diff_texts(*texts)
        change = compare_texts(*texts)
        return {
            "source": page.source,
            "no": number,
            "urlHash": page.url_hash.lower(),
            "url": page.url,
            "title": page.title,
            "before": {"run": old.run, "at": iso_time(old.at)},
            "after": {"run": new.run, "at": iso_time(new.at)},
            "share": round(change.share, 4),
            "wordsAdded": change.added,
            "wordsRemoved": change.removed,
        } | _reported(difference)

    def _version(self, number: int, page: _Stored, run: int) -> PageVersion:
        """Return the version of the end of a run."""
        stored: Any = self._connection.execute(_LAST, (number, run)).fetchone()
        no, at = (page.first_run, page.first_at) if stored is None else stored
        row: Any = self._connection.execute(_REPLACED, (number, run)).fetchone()
        if row is None:
            return PageVersion(no, at, page.body, None)
        return PageVersion(no, at, None if row[1] is None else bytes(row[1]), row[0])

    def _texts(
        self, page: _Stored, old: PageVersion, new: PageVersion
    ) -> tuple[list[TextLine], list[TextLine]]:
        if old == new:
            return [], []
        if page.document is None:
            raise NoVersionError(f"{page.url} has no text in the index now: nothing to compare")
        if page.url.startswith("file:"):
            raise NoVersionError(
                "former texts of files in a folder are not kept: smartcrawl changes says how much"
                " of them changed"
            )
        if self._options.snapshot_store is None:
            raise NoVersionError(
                "former texts are not kept, because SNAPSHOT_STORE is off: leave it out to keep"
                " them in DATA_DIR, or name a folder or bucket"
            )
        with closing(SnapshotStore(self._options.snapshot_store)) as store:
            had = self._body(store, page, old)
            try:
                has = self._body(store, page, new)
            except (NoVersionError, SnapshotError):
                if new.replaced is not None:
                    raise
                has = None  # the registry has its text
        return asyncio.run(self._read(page, had, has))

    def _body(self, store: SnapshotStore, page: _Stored, version: PageVersion) -> tuple[bytes, str]:
        """Return the body of a version, and its type."""
        rows: list[Any] = []
        if version.body is not None:
            rows = self._connection.execute(_SNAPSHOTS, (version.body,)).fetchall()
        if version.body is None or not rows:
            days = self._options.snapshot_retention // 86_400
            which = f"before run {version.replaced}" if version.replaced else "of today"
            raise NoVersionError(
                f"the text {which} is not kept any more: a body is stored for"
                f" SNAPSHOT_RETENTION_DAYS ({days}) after its page lost it"
            )
        body, content_type = _read_first(store, rows, version.body)
        if len(body) > MOST_BODY:
            raise NoVersionError(
                f"a version of {page.url} has more than {MOST_BODY // 1024**2} MiB, and is not"
                " compared"
            )
        return body, content_type

    async def _read(
        self, page: _Stored, old: tuple[bytes, str], new: tuple[bytes, str] | None
    ) -> tuple[list[TextLine], list[TextLine]]:
        options = self._options
        source = self._declared.get(page.source)
        limits = DocumentLimits(
            processes=1,
            memory=options.extract_memory,
            cpu_seconds=options.extract_cpu_seconds,
            seconds_per_host=0,
        )
        reader = DocumentReader(
            SourceExtractionConfig.of(source, options),
            limits,
            unreadable=lambda *_: None,
            is_stopping=lambda: False,
        )
        try:
            before = await _document(reader, page, *old)
            if new is not None:
                after = await _document(reader, page, *new)
            else:
                after = unpack_stored_document(page.document or b"")
        except FormatError as error:
            raise NoVersionError(f"a version of {page.url} cannot be read: {error}") from error
        finally:
            await reader.close()
        return document_text_lines(before), document_text_lines(after)


def _check_run(page: _Stored, run: int, last: int) -> None:
    if run > last:
        raise NoVersionError(f"there is no run {run}; the last one is {last}")
    if run < page.first_run:
        raise NoVersionError(
            f"{page.url} was not known in run {run}: run {page.first_run} found it"
        )


def _read_first(store: SnapshotStore, rows: list[Any], body: bytes) -> tuple[bytes, str]:
    """Return a body out of the first snapshot that can be read, and its type."""
    *others, last = rows
    for path, content_type in others:
        with suppress(SnapshotError):  # a former store had it, too
            return store.get(path, body), content_type or ""
    return store.get(last[0], body), last[1] or ""


async def _document(reader: DocumentReader, page: _Stored, body: bytes, kind: str) -> Document:
    visit = Visit(
        page=Page(0, page.url, page.host, 0),
        outcome=Outcome.NOT_MODIFIED,
        url=page.url,
        extracted_again=len(body) > _SMALL,  # in a process of its own
        answer=PageAnswer(content_type=kind),
        parsed=ParsedBody(body_hash=b""),
    )
    document, _ = await reader.read(visit, body, links=False, forced=True)
    return document


def _reported(found: TextDiff) -> dict[str, Any]:
    return {
        "hunks": [_hunk(hunk) for hunk in found.hunks],
        "moreLines": found.more_lines,
        "coarse": found.is_coarse,
        "cut": found.is_cut,
    }


def _hunk(hunk: DiffHunk) -> dict[str, Any]:
    old, new = hunk.counts()
    return {
        "heading": hunk.heading,
        "oldLine": hunk.old,
        "oldLines": old,
        "newLine": hunk.new,
        "newLines": new,
        "lines": [
            {
                "sign": line.sign,
                "parts": [{"text": part.text, "changed": part.is_changed} for part in line.parts],
            }
            for line in hunk.lines
        ],
    }
