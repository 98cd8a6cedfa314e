"""What is held of a page, for those who read its body: what it said before, and the body itself."""

from __future__ import annotations

from typing import Final

from smartcrawl.extract.html import DetectedLanguage
from smartcrawl.model.documents import Link
from smartcrawl.model.exceptions import SnapshotStoreError
from smartcrawl.model.pages import Page, Unreadable, Visit
from smartcrawl.registry.pack import unpack_links
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.registry import Registry
from smartcrawl.rules.model import Standing
from smartcrawl.sources.extraction import EXTRACTION_VERSION

_PATIENCE: Final = 3  #: snapshots in a row that a store may fail to give


class StoredPages:
    """Reads what registry and snapshots hold of the pages of one run."""

    def __init__(self, reader: PageReader, registry: Registry) -> None:
        self._reader = reader
        self._registry = registry
        self._alike = reader.configurations(EXTRACTION_VERSION)
        self._unread = 0  #: snapshots in a row that their store did not give

    @property
    def store_failed(self) -> bool:
        """Whether the store of the snapshots is left alone for the rest of the run."""
        return self._unread >= _PATIENCE

    async def body(self, page: Page) -> tuple[bytes, str]:
        """Return the body that is held of a page, out of its snapshot, and its Content-Type.

        Raises:
            SnapshotStoreError: its store does not answer; one that failed several times in a row
                is left alone for the rest of the run.
            SnapshotError: it is not there, or damaged.
        """
        snapshots = self._registry.snapshots
        assert snapshots is not None, "what is extracted again has a snapshot"
        if self.store_failed:
            raise SnapshotStoreError("the store failed before in this run")
        place = self._reader.snapshot(snapshots, page.no)
        try:
            body = await snapshots.read(place)
        except SnapshotStoreError:
            self._unread += 1
            raise
        self._unread = 0
        return body, place.content_type

    def is_read_alike(self, visit: Visit) -> bool:
        """Whether this version has read the same body before, under whatever configuration."""
        page = visit.page
        return (
            visit.extracted_again
            and page.standing is Standing.HELD
            and page.configuration in self._alike
        )

    def told(self, page: Page) -> DetectedLanguage | None:
        """Return the stored language of a page, and the digest of what it was detected by.

        None where nothing is stored, or another version extracted it. Source: R0-76.
        """
        if page.content is None or page.configuration not in self._alike:
            return None
        found = self._reader.told(page.content)
        return DetectedLanguage(*found) if found is not None else None

    def unreadable(self, body_hash: bytes, media: str) -> Unreadable | None:
        """Return why this version cannot read a body, None if that is not known."""
        return self._reader.unreadable(body_hash, EXTRACTION_VERSION, media)

    def content_hash(self, page: Page) -> bytes | None:
        """Return the content hash of what is stored of a page, and note its text hash there."""
        if page.standing is Standing.BARE:
            return None
        found, page.text_hash = self._reader.hashes(page.no)
        return found

    def had_text(self, visit: Visit) -> bool:
        """Whether the text of a visit is one of the last five that its page had."""
        assert visit.text_hash is not None, "it was read"
        return self._reader.had_text(visit.page.no, visit.text_hash)

    def text_length(self, page: Page) -> int:
        """Return how many characters of text are held of a page."""
        return self._reader.text_length(page.content) if page.content is not None else 0

    def canonical_url(self, page: Page) -> str | None:
        """Return what a page named as canonical when it was read last."""
        return self._reader.canonical_url(page.no)

    def links(self, page: Page) -> list[Link]:
        """Return the links that are held of a page."""
        raw = self._reader.raw_links([page.no])
        return unpack_links(raw[page.no]) if raw else []
