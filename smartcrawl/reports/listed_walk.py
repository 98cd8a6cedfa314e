"""The next run of a listed source, worked out from a listing that is made now.

Pages to which links lead, such as those of a wiki, are worked out from stored links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.urls import display_url, normalize_url, url_digest
from smartcrawl.registry.pages import PageReader, unread_etag_sql
from smartcrawl.registry.removal.purge import emptied_library_problem, emptied_root_problem
from smartcrawl.reports.entries import ReportedRecord
from smartcrawl.reports.walk import WalkReport
from smartcrawl.rules.files import Check
from smartcrawl.rules.model import Extraction, Status
from smartcrawl.sources.base import Source
from smartcrawl.sources.extraction import EXTRACTION_VERSION
from smartcrawl.sources.kinds import SHAREPOINT
from smartcrawl.sources.listing.entries import Entry, Listing, source_entry_check

_STORED = f"""
SELECT r.no, r.etag, coalesce(r.content_length, 0),
       r.error_message IS NOT NULL OR r.redirect_target IS NOT NULL,
       {unread_etag_sql(":extraction")}, coalesce(r.unread_length, 0)
  FROM record r JOIN state s USING (no) WHERE r.source = :source
"""
_UNCHANGED = "unchanged"
_NO_VALIDATOR = "no reliable validator in the listing"


class _Stored(NamedTuple):
    """The stored properties of a file."""

    etag: str | None
    length: int  #: bytes
    is_noted: bool  #: whether it has an error message or a redirect target
    unread_etag: str | None  #: as in ListedRecord
    unread_length: int


@dataclass(slots=True)
class ListedWalkReport(WalkReport):
    """The next run of a source whose listing says what exists.

    ``asked`` has the known files of the listing and the pages that links lead to, ``requested``
    those of them that would be read or requested.
    """

    listing: Listing | None = None
    read: dict[int, str] = field(default_factory=dict)  #: why a known file would be read
    problems: list[str] = field(default_factory=list)  #: parts that cannot be listed
    is_counted: bool = False  #: a count or other items confirm a listing that names no document

    @property
    def is_listed(self) -> bool:
        """Yes."""
        return True

    @property
    def requested(self) -> list[int]:
        """The numbers of the known files that would be read, and of the pages to request."""
        return [*self.read, *(no for no in self.asked if self._is_linked(no))]

    def _is_linked(self, number: int) -> bool:
        """Whether links lead to a page, which no listing has."""
        return not self.today.is_listed(self.entries[number])

    def _reach(self, source: Source) -> None:
        """List the source, compare its files with the stored ones, and follow stored links."""
        assert self.listing is not None, "its source is listed"
        values = {"source": self.source_no, "extraction": EXTRACTION_VERSION}
        rows: Any = self.connection.execute(_STORED, values).fetchall()
        stored = {row[0]: _Stored(*row[1:]) for row in rows}
        by_url = {entry.url: entry for entry in self.entries.values()}
        root = display_url(source.starts[0])
        try:
            for batch in self.listing.batches():
                by_key = self._by_key(batch)
                for found in batch:
                    entry = by_key.get(found.key) if found.key else by_url.get(found.url)
                    if entry is None:
                        self.new.add(found.url)
                        continue
                    self.asked[entry.no] = 0
                    why = self._reason(entry, found, stored[entry.no])
                    if why is not None:
                        self.read[entry.no] = why
        except (OSError, SmartcrawlError) as error:
            self.problems.append(f"{root} ({error})")
        self.problems += self.listing.problems
        stored_files = filter(self.today.is_listed, self.entries.values())
        count = sum(entry.standing > 0 for entry in stored_files)
        if count and not (self.asked or self.new or self.problems or self.is_counted):
            is_library = source.traits.name == SHAREPOINT.name
            problem = emptied_library_problem if is_library else emptied_root_problem
            self.problems.append(problem(root, count))
        if source.linked_seeds:
            WalkReport._reach(self, source)

    def _by_key(self, batch: Sequence[Entry]) -> dict[str | None, ReportedRecord]:
        """Return the known files of a batch whose identity is not their URL."""
        trackers = self.options.trackers
        ids = {e.key: url_digest(normalize_url(e.key, trackers)) for e in batch if e.key}
        numbers = PageReader(self.connection, self.source_no).numbers(list(ids.values()))
        return {key: self.entries[numbers[id_]] for key, id_ in ids.items() if id_ in numbers}

    def _reason(self, entry: ReportedRecord, found: Entry, stored: _Stored) -> str | None:
        """Return why a file would be read; None if the listing confirms it."""
        is_hash = self.source is not None and self.source.traits.is_hashed
        if stored.unread_etag is not None and not entry.ordered:
            unread = stored.unread_etag, stored.unread_length
            if source_entry_check(*unread, found, is_hash=is_hash) is Check.SKIP:
                return None
        why = self.today.reason_without_validators(entry)
        if why is not None:
            return why
        if self.today.extraction(entry) is not Extraction.STANDS:
            return "extracted with other settings"
        if stored.is_noted or entry.lost_count or entry.status != Status.INDEXED:
            return "failed at its last visit"
        if found.validator is None:
            return _NO_VALIDATOR
        check = source_entry_check(stored.etag, stored.length, found, is_hash=is_hash)
        return None if check is Check.SKIP else "its validator or size changed"

    def reason_without_validators(self, entry: ReportedRecord) -> str | None:
        """Return why a file would be read, or why a page is requested without validators."""
        if self._is_linked(entry.no):
            return WalkReport.reason_without_validators(self, entry)
        return self.read.get(entry.no)

    def skipped(self, entry: ReportedRecord) -> str | None:
        """Return why a page would not be read; None if it would be."""
        if self._is_linked(entry.no):
            return WalkReport.skipped(self, entry)
        if entry.no in self.asked:
            return None if entry.no in self.read else _UNCHANGED
        return "out of scope" if self._outside(entry) else "not in the listing"

    @property
    def cut_reason(self) -> str | None:
        """Reason why the run would be incomplete, or None; then no absence would count."""
        if self.problems:
            return (
                f"cannot be listed: {', '.join(self.problems)}. The run would be "
                "incomplete, and nothing is removed for missing from the listing"
            )
        return WalkReport.limit_reason(self)

    def _asks(self) -> int:
        return len(self.requested) + len(self.new)
