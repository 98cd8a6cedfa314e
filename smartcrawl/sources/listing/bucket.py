"""Listing of a bucket, a container, or any other store behind a driver of fsspec."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator

from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.listing.entries import Entry, Skip, source_entries_in_batches
from smartcrawl.sources.listing.places import SETTING, file_store_place
from smartcrawl.sources.listing.selection import ListingRules
from smartcrawl.sources.listing.stamps import RACY
from smartcrawl.sources.listing.store_files import (
    PATIENCE,
    StoredFile,
    StoreFiles,
    open_file_store,
)
from smartcrawl.sources.stores import Fault, file_store_fault, file_store_fault_reason


class BucketListing:
    """A pass over the keys of a store below a URL, page by page, and a second where it is needed.

    A key that moved to where the first pass was before is named by the second alone. That is made
    where a folder was gone that the first named, and where a stored file lacks (``again``). A file
    is named once.

    The validator is the store's ETag. Where it has none it is the date of the file, if that is at
    least two seconds older than the pass: stores count seconds.

    Source: R0-43, R0-44.
    """

    def __init__(
        self,
        url: str,
        *,
        rules: ListingRules,
        now_ns: int | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Set up the pass over ``url``; it begins at ``now_ns``. None: no date is trusted.

        Raises:
            SettingError: ``url`` names no place in a store.
        """
        self.problems: list[str] = []
        self.skipped: Counter[str] = Counter()
        self._place = file_store_place(url)
        key = self._place.key
        self._prefix = f"{key}/" if key and not key.endswith("/") else key
        self._rules = rules
        self._now_ns = now_ns
        self._patience = patience
        self._count = 0  # keys so far
        self._named = array("q")  # hashes of the keys that the first pass named
        self._known: frozenset[int] | None = None  # the same, in the second pass
        self._is_doubted = False  # whether a folder was gone that the first pass named

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the files of the store, up to 1,000 at a time. Call it once.

        Raises:
            SettingError: the driver is not installed, or does not start.
        """
        return source_entries_in_batches(self._entries())

    def again(self) -> Iterator[list[Entry]] | None:
        """Yield the files that a second pass names first; None if it was made, or is of no use."""
        if self._known is not None or self.problems:
            return None
        return source_entries_in_batches(self._second())

    def _entries(self) -> Iterator[Entry]:
        yield from self._passed()
        if self._is_doubted and not self.problems:
            yield from self._second()

    def _second(self) -> Iterator[Entry]:
        self._known = frozenset(self._named)
        self._count = 0
        yield from self._passed()

    def _passed(self) -> Iterator[Entry]:
        """Yield the files that one pass finds first."""
        try:
            files = open_file_store(self._place, patience=self._patience)
        except OSError as error:
            self._problem(self._prefix, error, None)
            return
        pages = files.pages(
            self._prefix, self._enters, lambda key, error: self._problem(key, error, files)
        )
        while True:
            try:
                page = next(pages, None)
            except Exception as error:  # noqa: BLE001  # drivers raise any error of their libraries
                self._problem(self._prefix, error, files, self._count)
                return
            if page is None:
                return
            for file in page:
                self._count += 1
                skip = self._skip(file)
                if skip is not None:
                    self._leave_out(skip)
                elif self._is_first(file.key):
                    yield self._entry(file)

    def _is_first(self, key: str) -> bool:
        """Whether no pass named a key before."""
        if self._known is not None:
            return hash(key) not in self._known
        self._named.append(hash(key))
        return True

    def _leave_out(self, skip: Skip) -> None:
        """Count an item that is left out. The second pass sees the same once more."""
        if self._known is None:
            self.skipped[skip] += 1

    def _enters(self, key: str) -> bool:
        skip = self._rules.skip_folder(key[len(self._prefix) :])
        if skip is not None:
            self._leave_out(skip)
        return skip is None

    def _skip(self, file: StoredFile) -> Skip | None:
        relative = file.key[len(self._prefix) :]
        if file.skip is not None:
            return file.skip
        if not relative or (not file.size and relative.endswith("/")):
            return Skip.NO_NAME  # the marker of a folder
        return self._rules.skip(relative)

    def _entry(self, file: StoredFile) -> Entry:
        validator = file.etag
        if validator is None and file.size is not None and self._now_ns is not None:
            fresh = self._now_ns - (file.modified_ns or 0) < RACY
            validator = None if fresh else file.date
        return Entry(self._place.url_of(file.key), file.size or 0, validator, file.modified_at)

    def _problem(
        self, key: str, error: Exception, files: StoreFiles | None, count: int = 0
    ) -> None:
        """Record a part that could not be listed: the reason and the remedy."""
        fault = file_store_fault(error)
        is_below = key.rstrip("/") != self._prefix.rstrip("/")
        if fault is Fault.ABSENT and is_below and self._known is None:
            self._leave_out(Skip.GONE)  # which proves no absence: the second pass shows it
            self._is_doubted = True
            return
        why = file_store_fault_reason(error) or f"no answer in {self._patience:g} s"
        if count:
            why = f"after {count} {'file' if count == 1 else 'files'}: {why}"
        who = "what its driver reads" if files is None else files.who
        remedy = fault.value.format(who=who, setting=SETTING)
        self.problems.append(redacted_line(f"{self._place.url_of(key)} ({why}; {remedy})"))
