"""The entries of a listing: unchanged files are confirmed, all others are offered for reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smartcrawl.model.pages import ListedRecord, Page
from smartcrawl.registry.run_progress import RunProgressReader
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.changes import Check, decide_change_check
from smartcrawl.run.batches import Batches
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.hosts.trust import HostTrust
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
        trust: HostTrust,
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
        self._trust = trust
        self._batches = batches
        self._shortcomings = shortcomings
        self._waiting: dict[int, Entry] = {}  #: by record.no, until the file is read
        self._listed = 0

    def take(self, entries: Sequence[Entry]) -> None:
        """Confirm the unchanged files among some entries, and offer the others."""
        self._listed += len(entries)
        stored = self._offers.stored_listed([entry.url for entry in entries])
        unchanged: list[ListedRecord] = []
        to_read: list[Entry] = []
        for entry in entries:
            record = stored.get(entry.url)
            if record is None:
                to_read.append(entry)
            elif record.visited_run == self._opened.no:
                pass  # before the run was interrupted
            elif self._is_unchanged(record, entry):
                unchanged.append(record)
            else:
                to_read.append(entry)
        self._batches.confirm(unchanged)
        if self.confirmed is not None:
            for page in self._links.pages([record.no for record in unchanged]):
                self.confirmed(page)
        numbers = self._offers.numbers_by_url([entry.url for entry in to_read])
        self._waiting.update((numbers[entry.url], entry) for entry in to_read)
        self._offers.offer([numbers[entry.url] for entry in to_read], 0)

    def entry(self, number: int) -> Entry | None:
        """Return the entry of a file that waits to be read, and forget it."""
        return self._waiting.pop(number, None)

    def _is_unchanged(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether nothing about a stored file needs another look (R0-43, R0-44)."""
        stored = properties(record.etag, record.content_length)
        found = properties(entry.validator, entry.size)
        return (
            record.is_settled
            and not self._opened.forced
            and decide_change_check(stored, found) is Check.SKIP
            and self._extractions.stands(record, entry.url)
            and not self._trust.doubts_listed(record)
        )

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
