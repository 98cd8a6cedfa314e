"""The entries of a listing: unchanged files are confirmed, all others are offered for reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smartcrawl.model.pages import Page
from smartcrawl.registry.run_progress import RunProgressReader
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.changes import Check, decide_change_check
from smartcrawl.rules.model import Extraction, Standing, Status
from smartcrawl.run.batches import Batches
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.links import Links
from smartcrawl.run.offers import Offers
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.sources.listing.entries import Entry, Listing, properties


class ListedFiles:
    """The listing of a run, taken entry by entry while it is made."""

    def __init__(
        self,
        *,
        opened: OpenRun,
        progress: RunProgressReader,
        links: Links,
        offers: Offers,
        extractions: ExtractionPlan,
        batches: Batches,
        shortcomings: Shortcomings,
    ) -> None:
        self.is_open = True  #: whether further entries may come
        self.confirmed: Callable[[Page], None] | None = None  #: called with each unchanged file
        self._opened = opened
        self._progress = progress
        self._links = links
        self._offers = offers
        self._extractions = extractions
        self._batches = batches
        self._shortcomings = shortcomings
        self._waiting: dict[int, Entry] = {}  #: by record.no, until the file is read
        self._listed = 0

    def take(self, entries: Sequence[Entry]) -> None:
        """Confirm the unchanged files among some entries, and offer the others."""
        self._listed += len(entries)
        numbers = self._offers.numbers_by_url([entry.url for entry in entries])
        by_number = {numbers[entry.url]: entry for entry in entries}
        to_read: list[int] = []
        for page in self._links.pages(list(by_number)):
            if page.state.visited_run == self._opened.no:
                continue  # before the run was interrupted
            self._extractions.configure(page)
            entry = by_number[page.no]
            if self._is_unchanged(page, entry):
                self._batches.confirm(page)
                if self.confirmed is not None:
                    self.confirmed(page)
            else:
                self._waiting[page.no] = entry
                to_read.append(page.no)
        self._offers.offer(to_read, 0)

    def entry(self, number: int) -> Entry | None:
        """Return the entry of a file that waits to be read, and forget it."""
        return self._waiting.pop(number, None)

    def _is_unchanged(self, page: Page, entry: Entry) -> bool:
        """Whether nothing about a stored file needs another look (R0-43, R0-44)."""
        record, state = page.record, page.state
        if (
            self._opened.forced
            or state.ordered
            or state.standing is not Standing.HELD
            or state.status is not Status.INDEXED
            or record.noted
            or state.lost_count
            or page.plan.doubted
            or page.plan.extraction is not Extraction.STANDS
        ):
            return False
        stored = properties(record.etag, record.content_length)
        found = properties(entry.validator, entry.size)
        return decide_change_check(stored, found) is Check.SKIP

    def end(self, root: str, listing: Listing) -> None:
        """Take the end of the listing, and the parts of it that could not be listed.

        ``root``: as people know it. A root without any file is no evidence while files are stored.
        """
        self.is_open = False
        for problem in listing.problems:
            self._shortcomings.add(f"listing: {problem}")
        if self._listed or listing.problems:
            return
        stored = self._progress.count_stored()
        if stored:
            files = "1 file is" if stored == 1 else f"{stored:,} files are"
            self._shortcomings.add(f"listing: {root} (it has no file, and {files} stored)")

    def fail(self, root: str, why: str) -> None:
        """End the listing by an error, which leaves the run incomplete."""
        self.is_open = False
        self._shortcomings.add(f"listing: {root} ({why})")
