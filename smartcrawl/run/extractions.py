"""The plan of extraction, and the stored pages that it reads again (M-15)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from smartcrawl.extract.html import DetectedLanguage
from smartcrawl.model.documents import Document, Link
from smartcrawl.model.exceptions import SnapshotStoreError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import NAMES_SIGNED, ListedRecord, Page, Unreadable, Visit
from smartcrawl.registry.pack import unpack_stored_links
from smartcrawl.registry.pages import RegistryReaders, StoredExtraction
from smartcrawl.registry.registry import Registry
from smartcrawl.rules.model import Extraction, Fault, Mode, Standing
from smartcrawl.rules.reindex import decide_extraction
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier import FrontierDepths, FrontierQueue
from smartcrawl.run.hosts import HostTrust
from smartcrawl.run.links import Links
from smartcrawl.sources.base import EXTRACTION_VERSION, SourceExtractionConfig

logger = logging.getLogger(__name__)


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


class ExtractionPlan:
    """Compares today's configuration with the one that each page was extracted with."""

    def __init__(
        self,
        *,
        configuration: SourceExtractionConfig,
        options: Options,
        registry: Registry,
        links: Links,
        frontier: FrontierDepths,
        trust: HostTrust,
        stored_pages: StoredPages,
        batches: Batches,
        is_listed: Callable[[str], bool],
    ) -> None:
        """Take the parts of the run.

        ``is_listed``: whether listings name the page at a URL. Reading such a page again costs its
        source nothing, so all are read.
        """
        self.again = FrontierQueue()  #: numbers of skipped pages that are to be extracted again
        self.under_way = False  #: whether pages are being extracted from their snapshots
        self._configuration = configuration
        #: Numbers of today's configuration in each mode.
        self._fingerprints = {
            mode: registry.fingerprint(configuration.fingerprint(mode), EXTRACTION_VERSION)
            for mode in Mode
        }
        self._links = links
        self._frontier = frontier
        self._trust = trust
        self._stored_pages = stored_pages
        self._batches = batches
        self._is_listed = is_listed
        self._whole_left = options.re_extract_per_run or -1
        self._whole: set[int] = set()  #: numbers of the pages that may be requested whole
        self._unread_logged = False

    def load(self, numbers: Sequence[int], *, forced: bool) -> list[Page]:
        """Return pages whose turn has come, each with its plan and its depth.

        A depth of an earlier run counts where it is smaller, unless the run is ``forced``.
        """
        pages = self._links.pages(numbers)
        for page in pages:
            self.configure(page)
            offered = self._frontier.depth(page.no)
            if forced or page.depth >= offered:
                page.depth = offered
            else:
                self._frontier.mark(page.no, page.depth)
        return pages

    def configure(self, page: Page, *, kind: int | None = None) -> None:
        """Set the page's index mode of today, and the way to get its content.

        ``kind``: the level of a sitemap or 0 for a page, where the answer decided that.
        """
        plan, record = page.plan, page.record
        listed = page.kind if kind is None else kind
        mode = Mode.LINKS_ONLY if listed else self._configuration.mode_of(page.url)
        plan.mode, plan.wanted = mode, self._fingerprints[mode]
        same = record.configuration == plan.wanted
        plan.extraction = decide_extraction(
            page.state.standing,
            mode,
            same_configuration=same,
            snapshot=not same and self._stored_pages.has_body(record.snapshot),
        )
        plan.doubted = self._trust.doubts(page) or record.signs & NAMES_SIGNED > 0
        if plan.extraction is Extraction.WHOLE and not self._is_listed(page.url):
            plan.waits = self._whole_left == 0 and page.no not in self._whole
            if self._whole_left > 0 and page.no not in self._whole:
                self._whole.add(page.no)
                self._whole_left -= 1

    def stands(self, record: ListedRecord, url: str) -> bool:
        """Whether the stored text of a listed file is that of today's configuration."""
        return record.configuration == self._fingerprints[self._configuration.mode_of(url)]

    @property
    def pending(self) -> bool:
        """Whether pages are being extracted from their snapshots, or wait for it."""
        return self.under_way or len(self.again) > 0

    def take(self, most: int) -> list[Page]:
        """Return the next pages to extract from their snapshots, without a visit."""
        pages = self._links.pages(self.again.take(most))
        for page in pages:
            self.configure(page)
            page.depth = self._frontier.depth(page.no)
        return pages

    def unread(self, why: str) -> None:
        """Count a page whose snapshot the store did not return; the page stays as it is."""
        self._batches.progress.unread += 1
        if not self._unread_logged:
            self._unread_logged = True
            logger.warning(
                "a snapshot could not be read: %s. Its page stays as it is; the next run "
                "reads it again, or downloads the page if the snapshots are still away",
                why,
            )
        if self._stored_pages.store_failed:
            self._batches.progress.unread += len(self.again)
            self.again = FrontierQueue()
