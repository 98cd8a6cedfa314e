"""Stored files and libraries compared with their listings, by real runs and by dry ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from smartcrawl.model.pages import ListedRecord
from smartcrawl.registry.library.shortfall import Shortfall
from smartcrawl.rules.files import Check
from smartcrawl.sources.listing.entries import Entry, source_entry_check


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
            f"{root} is trimmed: it counts {counted} more than it lists, and {accepted:,} were"
            " accepted; no removal is carried out: give the app the right to read all items, or"
            " approve the removals"
        )
        found = Shortfall(accepted, trimmed_run=run, trimmed=shortfall)
        return JudgedShortfall(shortfall, note, found.stored(), is_counted=True)
    warning = None
    if accepted is None and shortfall:
        warning = f"{root} counts {counted} more than it lists: the app may not read everything"
    # The first count is compared with no other: only a count without a difference proves anything.
    is_counted = accepted is not None or not shortfall
    return JudgedShortfall(0, warning, Shortfall(shortfall).stored(), is_counted=is_counted)
