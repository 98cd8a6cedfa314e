"""Stored pages, read back for comparison and re-extraction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from smartcrawl.extract.html import DetectedLanguage
from smartcrawl.model.documents import Document, Link
from smartcrawl.model.exceptions import SnapshotStoreError
from smartcrawl.model.pages import Page, Unreadable, Visit
from smartcrawl.registry.pack import unpack_stored_links
from smartcrawl.registry.pages import RegistryReaders, StoredExtraction
from smartcrawl.registry.registry import Registry
from smartcrawl.rules.model import Fault, Standing
from smartcrawl.sources.extraction import EXTRACTION_VERSION

_PATIENCE: Final = 3  #: read errors in a row after which the snapshot store is given up


class StoredPages:
    """Reads the stored pages of one run out of the registry and their snapshots."""

    def __init__(self, readers: RegistryReaders, registry: Registry) -> None:
        self._pages = readers.pages
        self._contents = readers.contents
        self._registry = registry
        self._alike = readers.contents.configurations(EXTRACTION_VERSION)
        self._unread = 0  #: snapshots in a row that their store failed to return

    @property
    def store_failed(self) -> bool:
        """Whether the store of the snapshots is not asked any more in this run."""
        return self._unread >= _PATIENCE

    def has_body(self, snapshot: int | None) -> bool:
        """Whether the body of a page can be read from its snapshot (record.snapshot)."""
        snapshots = self._registry.snapshots
        if snapshot is None or snapshots is None or self.store_failed:
            return False
        return self._contents.has_body(snapshots, snapshot)

    async def body(self, page: Page) -> tuple[bytes, str]:
        """Return the stored body of a page, out of its snapshot, and its Content-Type.

        Raises:
            SnapshotStoreError: the store does not answer; after several errors in a row it is not
                asked any more in this run.
            SnapshotError: the snapshot is missing or damaged.
        """
        snapshots = self._registry.snapshots
        assert snapshots is not None, "a page that is extracted again has a snapshot"
        if self.store_failed:
            raise SnapshotStoreError("the store failed before in this run")
        place = self._contents.snapshot(snapshots, page.no)
        try:
            body = await snapshots.read(place)
        except SnapshotStoreError:
            self._unread += 1
            raise
        self._unread = 0
        return body, place.content_type

    def is_read_alike(self, visit: Visit) -> bool:
        """Whether this version extracted the same body before, under any configuration."""
        page = visit.page
        return (
            visit.extracted_again
            and page.state.standing is Standing.HELD
            and page.record.configuration in self._alike
        )

    def language(self, page: Page) -> DetectedLanguage | None:
        """Return the stored language of a page, and the digest of the text it was detected by.

        None where no language is stored, or another version extracted it. Source: R0-76.
        """
        record = page.record
        if record.content is None or record.configuration not in self._alike:
            return None
        found = self._contents.language(record.content)
        return DetectedLanguage(*found) if found is not None else None

    def unreadable(self, body_hash: bytes, media: str) -> Unreadable | None:
        """Return the reason why this version cannot read a body; None: no reason is stored."""
        return self._contents.unreadable(body_hash, EXTRACTION_VERSION, media)

    def extraction(self, visit: Visit) -> StoredExtraction | None:
        """Return the stored extraction of the bytes of a visit, or None.

        They were read as the same type under the configuration that the page of the visit wants.
        """
        parsed = visit.parsed
        assert parsed.body_hash is not None, "the body was hashed on arrival"
        assert parsed.media is not None, "the source is listed"
        return self._contents.extraction(parsed.body_hash, parsed.media, visit.page.plan.wanted)

    def content_hash(self, page: Page) -> bytes | None:
        """Return the hash of a page's stored content, and set the page's text hash."""
        if page.state.standing is Standing.BARE:
            return None
        found, page.text_hash = self._contents.hashes(page.no)
        return found

    def wall_hash(self, page: Page) -> bytes | None:
        """Return the hash of the content with which a page was removed as a wall; None: it was not.

        A page that was failed as a login form from the start has none.
        """
        is_walled = page.state.standing is Standing.BARE and page.state.http_status == Fault.LOGIN
        return self._contents.content_hash(page.no) if is_walled else None

    def had_text(self, number: int, text_hash: bytes | None) -> bool:
        """Whether a text is one of the last five that a page had before its present one."""
        assert text_hash is not None, "it was read"
        return self._contents.had_text(number, text_hash)

    def turned_at(self, page: Page) -> int | None:
        """Return when a page last changed its status (Unix seconds); None: no event reports it."""
        return self._contents.turned_at(page.no)

    def document(self, page: Page) -> Document:
        """Return a page's stored document; without sections if there is none."""
        record = page.record
        return Document() if record.content is None else self._contents.document(record.content)

    def last_changes(self) -> list[tuple[int, bytes, bool]]:
        """Return the pages that changed last: number, text by now, whether since a complete run."""
        return self._contents.last_changes()

    def last_documents(self, longest: int) -> Iterator[tuple[int, Document]]:
        """Yield the number and the document of each page that changed last (ContentReader)."""
        return self._contents.last_documents(longest)

    def text_length(self, page: Page) -> int:
        """Return the length of a page's stored text in characters."""
        record = page.record
        return self._contents.text_length(record.content) if record.content is not None else 0

    def title(self, page: Page) -> str:
        """Return the title of a page's stored content."""
        content = page.record.content
        return "" if content is None else self._contents.title(content)

    def canonical_url(self, page: Page) -> str | None:
        """Return the canonical URL that a page named when it was read last."""
        return self._contents.canonical_url(page.no)

    def complete_runs_since(self, run: int) -> int:
        """Return the number of complete runs of the source from ``run`` on."""
        return self._pages.complete_runs_since(run)

    def links(self, page: Page) -> list[Link]:
        """Return the stored links of a page."""
        raw = self._pages.raw_links([page.no])
        return unpack_stored_links(raw[page.no]) if raw else []
