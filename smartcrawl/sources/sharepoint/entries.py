"""The entries of a library's listing: its items as the engine compares them with the registry."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from typing import Final

from smartcrawl.model.library import LibraryItem
from smartcrawl.sources.listing.entries import Entry, Skip
from smartcrawl.sources.sharepoint.access import LibraryListing
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import embedded_sharepoint_file_type
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)

_MICROSECONDS: Final = 1_000_000
_ACCEPTED: Final = frozenset(CRAWLER_HARDCODED_CONFIG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES)


def library_item_key(host: str, unique_id: str) -> str:
    """Return the identity of an item, which rename and move do not change (R3-31).

    >>> library_item_key("contoso.sharepoint.com", "0F8FAD5B")
    'sharepoint://contoso.sharepoint.com/0f8fad5b'
    """
    return f"sharepoint://{host}/{unique_id.lower()}"


def sharepoint_item_validator(item: LibraryItem) -> str:
    """Return a digest of the four compared fields (R3-02), and of a content that was listed.

    Two items have the same one exactly if ``rules.library.is_changed`` is false of them.
    """
    fields = [
        item.filename,
        item.server_relative_url,
        item.file_size,
        item.last_modified,
        item.content,
    ]
    return sha256(json.dumps(fields).encode()).hexdigest()[:32]


class LibraryEntries:
    """A library's listing as the engine takes it: items of types that are embedded (R3-74)."""

    def __init__(
        self,
        source: SharepointSource,
        listing: LibraryListing,
        *,
        again: Collection[str] = (),
        listed: Callable[[LibraryItem], None] | None = None,
    ) -> None:
        """``again``: unique ids of items whose files must come again.

        ``listed`` is called with each item, whether its type is embedded or not.
        """
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.listed = 0  #: entries
        self._source = source
        self._listing = listing
        self._again = again
        self._listed = listed

    @property
    def shortfall(self) -> int | None:
        """The number of items that the library counts and the listing lacks; None: not counted."""
        return self._listing.shortfall

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the entries, those of one answer at a time. Call it once."""
        host = self._source.host
        kind = self._source.source_type
        for items in self._listing.pages():
            entries = []
            for item in items:
                if self._listed is not None:
                    self._listed(item)
                file_type = embedded_sharepoint_file_type(kind, item.filename)
                if file_type not in _ACCEPTED:
                    self.skipped[Skip.TYPE] += 1
                    which = f"of type .{file_type}" if file_type else "without a type"
                    name = item.server_relative_url
                    logger.info("%s is skipped: vector stores take no files %s", name, which)
                    continue
                entries.append(
                    Entry(
                        item.url,
                        item.file_size,
                        sharepoint_item_validator(item),
                        item.last_modified // _MICROSECONDS,
                        library_item_key(host, item.unique_id),
                        item,
                        item.unique_id in self._again,
                    )
                )
            self.listed += len(entries)
            yield entries
        self.problems += self._listing.problems
        self.notes += self._listing.notes

    def replacing(self, taken: list[list[Entry]]) -> list[list[Entry]]:
        """Return those of all entries that a forced run may read, once the listing has ended.

        It replaces every file, and only after a complete listing (ADR 83).
        """
        if not self.problems:
            return taken
        self.notes.append(
            f"{self._source.name}: its listing is not complete, so nothing is replaced: repeat the"
            " full download, or download without --mode full what was listed"
        )
        return []
