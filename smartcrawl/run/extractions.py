"""The plan of extraction: the index mode of each page, and the pages to extract again (M-15)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from smartcrawl.model.options import Options
from smartcrawl.model.pages import NAMES_SIGNED, ListedRecord, Page
from smartcrawl.registry.registry import Registry
from smartcrawl.rules.model import Extraction, Mode
from smartcrawl.rules.reindex import decide_extraction
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier.memory import FrontierDepths, FrontierQueue
from smartcrawl.run.hosts import HostTrust
from smartcrawl.run.links import Links
from smartcrawl.run.stored_pages import StoredPages
from smartcrawl.sources.extraction import EXTRACTION_VERSION, SourceExtractionConfig

logger = logging.getLogger(__name__)


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
