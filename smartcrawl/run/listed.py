"""The entries of a listing: unchanged files are confirmed, all others are offered for reading."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from smartcrawl.model.pages import ListedRecord, Page
from smartcrawl.model.urls import display_url
from smartcrawl.registry.library.items import Shortfall
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.removal.purge import (
    emptied_library_problem,
    emptied_root_problem,
    mount_problem,
)
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.files import Check
from smartcrawl.run.batches import Batches
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.hosts import HostTrust
from smartcrawl.run.offers import AddressBook, Offers
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.sources.base import Source
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.listing.entries import BATCH, Entry, Listing, source_entry_check
from smartcrawl.sources.listing.folder import FolderListing
from smartcrawl.sources.sharepoint.source import LibraryEntries


class ListedComparison:
    """Decides which listed files need another look."""

    def __init__(
        self,
        *,
        forced: bool,
        is_hashed: bool,
        stands: Callable[[ListedRecord, str], bool],
        doubts: Callable[[ListedRecord], bool],
    ) -> None:
        """``is_hashed``: whether validators are hashes of the content.

        ``stands``: whether the stored text is that of today's configuration; it gets the URL, too.
        ``doubts``: whether a validator that is no hash needs a look at the content.
        """
        self._forced = forced
        self._is_hashed = is_hashed
        self._stands = stands
        self._doubts = doubts

    def is_unchanged(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether nothing about a stored file needs another look (R0-43, R0-44)."""
        return (
            record.is_settled
            and not entry.again
            and self._is_same(record, entry)
            and (self._is_hashed or not self._doubts(record))
        )

    def is_set_aside(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether a file was read without use, and is the same.

        It is not to be indexed, such as a pointer, or this version cannot read it (ADR 40).
        """
        if record.unread_etag is not None:
            return self._is_still_unread(record, entry)
        return self._is_hashed and record.is_set_aside and self._is_same(record, entry)

    def _is_still_unread(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether a file is the one that could not be read. The age of its content is no matter."""
        ageless = record._replace(verified_at=None)
        is_doubted = not self._is_hashed and self._doubts(ageless)
        unread = record.unread_etag, record.unread_length
        check = source_entry_check(*unread, entry, is_hash=self._is_hashed)
        return check is Check.SKIP and not (self._forced or is_doubted)

    def _is_same(self, record: ListedRecord, entry: Entry) -> bool:
        """Whether a file of a listing is the one that was read, under today's configuration."""
        check = source_entry_check(
            record.etag, record.content_length, entry, is_hash=self._is_hashed
        )
        return not self._forced and check is Check.SKIP and self._stands(record, entry.url)


class JudgedShortfall(NamedTuple):
    """Consequences of items that a library counts and its listing lacks."""

    trimmed: int = 0  #: how many it lacks, if they are more than were accepted
    note: str | None = None  #: for the log
    stored: str | None = None  #: facts to store with the run (JSON)
    is_counted: bool = False  #: whether a count of the library accounts for what it lists


def library_run_shortfall(
    root: str, problems: Sequence[str], shortfall: int | None, stored: str | None, *, run: int
) -> JudgedShortfall:
    """Compare a count of lacking items with the one that was accepted last.

    ``stored``: the facts of the last listing. The first count is accepted; a greater one later
    withholds the removals of the run, until an operator accepts it. A listing that counts nothing
    (None), or has a problem, leaves the accepted count as it is.
    """
    if shortfall is None or problems:
        return JudgedShortfall()
    accepted = None if stored is None else Shortfall.parsed(stored).accepted
    counted = f"{shortfall:,} items" if shortfall != 1 else "1 item"
    if accepted is not None and shortfall > accepted:
        note = (
            f"{root} is trimmed: it counts {counted} more than it lists, and {accepted:,} "
            "were accepted; nothing is removed. Give the app the right to read all "
            "items, or approve the removals"
        )
        found = Shortfall(accepted, trimmed_run=run, trimmed=shortfall)
        return JudgedShortfall(shortfall, note, found.stored(), is_counted=True)
    warning = None
    if accepted is None and shortfall:
        warning = f"{root} counts {counted} more than it lists: the app may not read everything"
    # The first count is compared with no other: only a count without a difference proves anything.
    is_counted = accepted is not None or not shortfall
    return JudgedShortfall(0, warning, Shortfall(shortfall).stored(), is_counted=is_counted)


MOST_WAITING: Final = 20_000  #: listed files that wait to be read; each takes 400 bytes
_MOUNTS: Final = "mounts"  #: key of the stored facts: devices by the URLs of their folders
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
        self._opened = opened
        self._progress = readers.progress
        self._pages = readers.pages
        self._book = book
        self._offers = offers
        self._comparison = ListedComparison(
            forced=opened.forced,
            is_hashed=source.traits.is_hashed,
            stands=extractions.stands,
            doubts=trust.doubts_listed,
        )
        self._batches = batches
        self._shortcomings = shortcomings
        self._waiting: dict[int, Entry] = {}  #: by record.no, until the file is read
        self._unnamed: set[int] | None = None  #: pinned files without an entry; None: no entry yet
        self.is_whole = False  #: whether the listing ended without a problem
        self.is_trimmed = False  #: whether it lacks more items than were accepted
        #: Whether files wait to be read until the listing has ended.
        self.waits = source.traits.is_listed_first
        self._listed = 0
        #: Numbers of the files that the listing of a store named; None: another source.
        self._named = array("q") if _is_store(source) else None

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
            elif self._comparison.is_unchanged(record, entry):
                unchanged.append(record)
            elif self._comparison.is_set_aside(record, entry):
                aside.append(record)
            else:
                to_read.append(entry)
        self._confirm(unchanged, aside)
        numbers = self._offers.numbers_by_identity({entry.identity: entry.url for entry in to_read})
        self._waiting.update((numbers[entry.identity], entry) for entry in to_read)
        if self._named is not None:
            self._named.extend(record.no for record in stored.values())
            self._named.extend(numbers.values())
        self._offers.offer([numbers[entry.identity] for entry in to_read], _DEPTH)

    def take_again(self, entries: Mapping[int, Entry]) -> None:
        """Offer files that were requested without a visit once more; ``entries``: by record.no."""
        self._waiting.update(entries)
        self._offers.offer_again(entries)

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
                if self._comparison.is_unchanged(record, entry):
                    unchanged.append(record)
                elif self._comparison.is_set_aside(record, entry):
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

    @property
    def lacks_some(self) -> bool:
        """Whether the listing of a store named a stored file not at all, so far."""
        if self._named is None:
            return False
        named = set(self._named)
        if named.issuperset(self._progress.held_files()):
            return False
        return any(record.no not in named for part in self._stored() for _, record in part)

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

    def judge_shortfall(self, root: str, listing: LibraryEntries) -> str | None:
        """Compare a count of lacking items with the one that was accepted last; return a warning.

        Rights trim the answers of a library, and not its own count. What is accepted, or found
        beyond that, is stored with the run. A library without any item has a problem while
        documents are stored, unless its count confirms that (ADR 84).
        """
        problems, shortfall = listing.problems, listing.shortfall
        judged = library_run_shortfall(
            root, problems, shortfall, self._progress.listing(), run=self._opened.no
        )
        is_empty = not (self._listed or listing.skipped or problems)
        if is_empty and not judged.is_counted and (stored := sum(map(len, self._stored()))):
            problems.append(emptied_library_problem(root, stored))
            return judged.note
        self.is_trimmed = judged.trimmed > 0
        if judged.stored is not None:
            self._batches.batch.listing = judged.stored
        return judged.note

    def judge_mounts(self, listing: FolderListing) -> None:
        """Compare the devices in a folder with those of the last listing, and store them.

        Where another one is mounted, or none any more, stored files that are missing there are a
        problem. A device that is mounted in place of another one is taken by the next run.
        """
        if listing.problems:
            return
        text = self._progress.listing()
        known: dict[str, int] = json.loads(text).get(_MOUNTS, {}) if text else {}
        mounts = dict(listing.mounts)
        for url, device in known.items():
            found = mounts.get(url)
            missing = 0 if found == device else self._missing(url, listing.has)
            if missing:
                place = display_url(url.rstrip("/"))
                listing.problems.append(mount_problem(place, missing, is_mount=found is not None))
                mounts.setdefault(url, device)
        if mounts != known:
            self._batches.batch.listing = json.dumps({_MOUNTS: mounts})

    def _missing(self, below: str, has: Callable[[str], bool]) -> int:
        """Return the number of stored files below a URL that are not there."""
        urls = (url for part in self._stored() for url, _ in part if url.startswith(below))
        return sum(not has(url) for url in urls)

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

        ``root``: as people know it. A root without any file is no evidence while files are stored;
        an operator may approve it (registry.removal.emptied). That of a library is a problem
        already, unless its count confirms it (``judge_shortfall``).
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
            self._shortcomings.add(f"listing: {emptied_root_problem(root, stored)}")
        elif self._opened.last_complete:  # its files were removed since
            self._shortcomings.is_empty = True

    def fail(self, root: str, why: str) -> None:
        """End the listing by an error, which leaves the run incomplete."""
        self.close()
        self._shortcomings.add(f"listing: {root} ({why})")


def _is_store(source: Source) -> bool:
    """Whether the files of a source are in a bucket, a container or another store."""
    return isinstance(source, FilesSource) and not source.is_local


def _is_done(record: ListedRecord) -> bool:
    """Whether a file was read, with or without use."""
    return record.is_settled or record.is_set_aside or record.unread_etag is not None


def _entry_of_last_listing(url: str, record: ListedRecord) -> Entry:
    """Return the entry that the last listing had of a stored file."""
    if record.unread_etag is not None:
        return Entry(url, record.unread_length, record.unread_etag, None)
    return Entry(url, record.content_length, record.etag, None)
