"""The entries of a listing: unchanged files are confirmed, all others are offered for reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from smartcrawl.model.pages import ListedRecord, Page
from smartcrawl.registry.library.shortfall import Shortfall
from smartcrawl.registry.readers import RegistryReaders
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.changes import Check
from smartcrawl.run.address_book import AddressBook
from smartcrawl.run.batches import Batches
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.hosts.trust import HostTrust
from smartcrawl.run.offers import Offers
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.sources.base import Source
from smartcrawl.sources.listing.entries import BATCH, Entry, Listing, check_of_listing_entry
from smartcrawl.sources.sharepoint.entries import LibraryEntries

MOST_WAITING: Final = 20_000  #: listed files that wait to be read; each takes 400 bytes
_DEPTH: Final = 0  #: of every listed file


class ListedFiles:
    """The listing of a run, taken entry by entry while it is made."""

    def __init__(
        self,
        *,
        opened: OpenRun,
        readers: RegistryReaders,
        book: AddressBook,
        offers: Offers,
        extractions: ExtractionPlan,
        trust: HostTrust,
        batches: Batches,
        shortcomings: Shortcomings,
        source: Source,
    ) -> None:
        self.is_open = True  #: whether further entries may come
        self.confirmed: Callable[[Page], None] | None = None  #: called with each unchanged file
        self.place: str | None = None  #: URL below which the files are read, where it varies
        self.located = asyncio.Event()  #: set once ``place`` is known, or will not be known
        self.ended = asyncio.Event()  #: set once no further entry comes
        self._source = source
        self._is_hashed = source.traits.is_hashed
        self._opened = opened
        self._progress = readers.progress
        self._pages = readers.pages
        self._book = book
        self._offers = offers
        self._extractions = extractions
        self._trust = trust
        self._batches = batches
        self._shortcomings = shortcomings
        self._waiting: dict[int, Entry] = {}  #: by record.no, until the file is read
        self._unnamed: set[int] | None = None  #: pinned files without an entry; None: no entry yet
        self.is_whole = False  #: whether the listing ended without a problem
        self.is_trimmed = False  #: whether it lacks more items than were accepted
        #: Whether files wait to be read until the listing has ended.
        self.waits = source.traits.is_listed_first
        self._listed = 0

    def take(self, entries: Sequence[Entry]) -> None:
        """Confirm the unchanged files among some entries, and offer the others."""
        self._listed += len(entries)
        stored = self._book.stored_listed([entry.key or entry.url for entry in entries])
        if self._unnamed is None:
            self._unnamed = {no for no, _ in self._pinned()}
        self._unnamed.difference_update(record.no for record in stored.values())
        unchanged: list[ListedRecord] = []
        aside: list[ListedRecord] = []
        to_read: list[Entry] = []
        for entry in entries:
            record = stored.get(entry.key or entry.url)
            if record is None:
                to_read.append(entry)
            elif record.visited_run == self._opened.no:
                pass  # before the run was interrupted
            elif self._is_unchanged(record, entry):
                unchanged.append(record)
            elif self._is_set_aside(record, entry):
                aside.append(record)
            else:
                to_read.append(entry)
        self._confirm(unchanged, aside)
        numbers = self._offers.numbers_by_identity({entry.identity: entry.url for entry in to_read})
        self._waiting.update((numbers[entry.identity], entry) for entry in to_read)
        self._offers.offer([numbers[entry.identity] for entry in to_read], _DEPTH)

    def _confirm(self, unchanged: Sequence[ListedRecord], aside: Sequence[ListedRecord]) -> None:
        """Confirm unchanged files, and note that those without use are listed as before."""
        self._batches.confirm(unchanged)
        if self.confirmed is not None:
            for page in self._book.pages(
                [record.no for record in unchanged], self._opened.last_complete
            ):
                self.confirmed(page)
        self._batches.set_aside(aside)

    def confirm_stored(self) -> Iterator[None]:
        """Confirm all files of the last listing, which is that of this run, too.

        Those that need another look are offered for reading. It yields after each part, so that a
        full batch can be written.
        """
        for stored in self._stored():
            self._listed += len(stored)
            unchanged: list[ListedRecord] = []
            aside: list[ListedRecord] = []
            to_read: list[int] = []
            for url, record in stored:
                entry = _entry_of_last_listing(url, record)
                if self._is_unchanged(record, entry):
                    unchanged.append(record)
                elif self._is_set_aside(record, entry):
                    aside.append(record)
                else:
                    to_read.append(record.no)
            self._confirm(unchanged, aside)
            self._offers.offer(to_read, _DEPTH)
            yield

    def _stored(self) -> Iterator[list[tuple[str, ListedRecord]]]:
        """Yield URLs and records of all stored pages that the listing would name, in parts."""
        after = 0
        while stored := self._pages.all_listed(after, BATCH):
            after = stored[-1][1].no
            yield [one for one in stored if self._is_listed(one[0])]

    def _pinned(self) -> list[tuple[int, str]]:
        """Return (number, URL) of the pinned files that the listing would name."""
        scope = self._source.scope
        pins = [(no, url) for no, url, _ in self._pages.pins() if scope.allows(url)]
        return [(no, url) for no, url in pins if self._is_listed(url)]

    def lacks(self, number: int) -> bool:
        """Whether a listing that ended without a problem has no entry of a pinned file."""
        return self.proves_absence and self._unnamed is not None and number in self._unnamed

    @property
    def proves_absence(self) -> bool:
        """Whether a file without an entry does not exist."""
        return self.is_whole and not self.is_trimmed

    def known(self, rules: str) -> str | None:
        """Return the facts of the last listing; None unless it accounts for every stored file.

        A pinned file may be missing in it, so all of those must have been indexed or set aside.

        ``rules``: what else decides about a listing, such as the globs of the source.
        """
        opened, text = self._opened, self._progress.listing()
        if text is None or opened.forced or opened.resumed:
            return None
        stored = json.loads(text)
        last = opened.last_complete
        if (stored["run"], stored["rules"]) != (last, rules):
            return None
        if any(map(self._is_listed, self._progress.urls_beyond(last))):
            return None
        pinned = [url for _, url in self._pinned()]
        records = self._book.stored_listed(pinned)
        if len(records) < len(pinned) or not all(map(_is_done, records.values())):
            return None
        return str(stored["facts"])

    def remember(self, rules: str, facts: str) -> None:
        """Store the facts of this listing; they count if the run is complete."""
        stored = {"run": self._opened.no, "rules": rules, "facts": facts}
        self._batches.batch.listing = json.dumps(stored)

    def judge_shortfall(self, root: str, listing: Listing, shortfall: int | None) -> str | None:
        """Compare a count of lacking items with the one that was accepted last; return a warning.

        Rights trim the answers of a library, and not its own count. The first count is accepted; a
        greater one later withholds the removals of the run, until an operator accepts it. A listing
        that counts nothing (None), or has a problem, leaves the accepted count as it is.
        """
        if shortfall is None or listing.problems:
            return None
        stored = self._progress.listing()
        accepted = None if stored is None else Shortfall.parsed(stored).accepted
        counted = f"{shortfall:,} items" if shortfall != 1 else "1 item"
        self.is_trimmed = accepted is not None and shortfall > accepted
        found = Shortfall(shortfall)
        if accepted is not None and self.is_trimmed:
            found = Shortfall(accepted, trimmed_run=self._opened.no, trimmed=shortfall)
        self._batches.batch.listing = found.stored()
        if self.is_trimmed:
            return (
                f"{root} is trimmed: it counts {counted} more than it lists, and {accepted:,} were"
                " accepted; no removal of this run is carried out: give the app the right to read"
                " all items, or approve the removals"
            )
        if accepted is None and shortfall:
            return f"{root} counts {counted} more than it lists: the app may not read everything"
        return None

    def locate(self, place: str) -> None:
        """Set the URL below which the files of this listing are read."""
        self.place = place
        self.located.set()

    def entry(self, number: int) -> Entry | None:
        """Return the entry of a file that waits to be read, and forget it."""
        return self._waiting.pop(number, None)

    @property
    def is_full(self) -> bool:
        """Whether so many files wait to be read that no more should be listed for now."""
        return len(self._waiting) >= MOST_WAITING

    def _is_unchanged(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether nothing about a stored file needs another look (R0-43, R0-44)."""
        return (
            record.is_settled
            and not entry.again
            and self._is_same(record, entry)
            and (self._is_hashed or not self._trust.doubts_listed(record))
        )

    def _is_set_aside(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether a file was read without use, and is the same.

        It is not to be indexed, such as a pointer, or this version cannot read it (docs/adr/0040).
        """
        if record.unread_etag is not None:
            return self._is_still_unread(record, entry)
        return self._is_hashed and record.is_set_aside and self._is_same(record, entry)

    def _is_still_unread(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether a file is the one that could not be read. The age of its content is no matter."""
        ageless = record._replace(verified_at=None)
        is_doubted = not self._is_hashed and self._trust.doubts_listed(ageless)
        unread = record.unread_etag, record.unread_length
        check = check_of_listing_entry(*unread, entry, is_hash=self._is_hashed)
        return check is Check.SKIP and not (self._opened.forced or is_doubted)

    def _is_same(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether a file of a listing is the one that was read, under today's configuration."""
        check = check_of_listing_entry(
            record.etag, record.content_length, entry, is_hash=self._is_hashed
        )
        return (
            not self._opened.forced
            and check is Check.SKIP
            and self._extractions.stands(record, entry.url)
        )

    def _is_listed(self, url: str) -> bool:
        """Whether the page at a URL is one that the listing would name if it exists."""
        return self._source.lists(url) and self._source.scope.holds(url)

    def close(self) -> None:
        """Take no further entries."""
        self.is_open = self.waits = False
        self.located.set()
        self.ended.set()

    def end(self, root: str, listing: Listing) -> None:
        """Take the end of the listing, and the parts of it that could not be listed.

        ``root``: as people know it. A root without any file is no evidence while files are stored.
        A library is believed, as it says how much it has.
        """
        self.is_whole = not listing.problems
        self.close()
        for problem in listing.problems:
            self._shortcomings.add(f"listing: {problem}")
        if self._listed or listing.problems:
            return
        if isinstance(listing, LibraryEntries):
            self._shortcomings.is_empty = True
            return
        stored = sum(map(len, self._stored()))
        if stored:
            files = "1 file is" if stored == 1 else f"{stored:,} files are"
            self._shortcomings.add(f"listing: {root} (it has no file, and {files} stored)")

    def fail(self, root: str, why: str) -> None:
        """End the listing by an error, which leaves the run incomplete."""
        self.close()
        self._shortcomings.add(f"listing: {root} ({why})")


def _is_done(record: ListedRecord) -> bool:
    """Whether a file was read, with or without use."""
    return record.is_settled or record.is_set_aside or record.unread_etag is not None


def _entry_of_last_listing(url: str, record: ListedRecord) -> Entry:
    """Return the entry that the last listing had of a stored file."""
    if record.unread_etag is not None:
        return Entry(url, record.unread_length, record.unread_etag, None)
    return Entry(url, record.content_length, record.etag, None)
